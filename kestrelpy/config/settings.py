"""The settings of the server, and the whole file: the settings in force for a queue.

A key in the file has the spec's name (`max_memory`), the attribute has its unit.

One rule: a fan-out child has limits of its own; every setting of the log is its parent's.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeVar, get_args

import pydantic
from pydantic import Field

from kestrelpy.config.aliases import AliasBlock, why_wrong
from kestrelpy.config.kinds import (
    KIB,
    MIB,
    BatchBytes,
    Bytes,
    BytesOrZero,
    Count,
    DataDir,
    EngineOrNone,
    Groups,
    HostName,
    HostNames,
    MemberOrNone,
    MsOrNone,
    PathOrNone,
    PortOrOff,
    ProjectOrNone,
    SegmentBytes,
    SliceOrNone,
    Slices,
    TakeoverMs,
    Truth,
    UrlOrNone,
)
from kestrelpy.config.mistakes import as_written
from kestrelpy.config.queue_settings import (
    DEFAULTS,
    SETTINGS,
    SHARED,
    TARGETS,
    QueueBlock,
    QueueSettings,
    Section,
    parent_of,
)
from kestrelpy.config.schedules import ScheduleBlock
from kestrelpy.config.users import UserBlock
from kestrelpy.durations import format_size_bytes
from kestrelpy.placement import Placement

_TLS_CERT: Final = ("tls_cert", "tls_key")
Place = tuple[str, ...]  # the place of a value: (section, key) or ("queues", name, key)


_AnySection = TypeVar("_AnySection", bound=Section)


AT_START: Final = "no reload applies it"  # the mark of such a setting, or of a whole section
_EVERY: Final = frozenset({"0.0.0.0", "::", ""})  # hosts that are every address
_LOCAL: Final = {"slices", "groups", "slice"}  # settings of [fleet] that need no engine


class ServerConfig(Section):
    """`[server]`: the process, its listeners and the limits of one connection.

    Each setting is one line: key, allowed values, default, and `AT_START`. The text below a line is
    its text in kestrelpy.toml: `python -m tests.support.settings_file` makes the file of them.
    """

    host: Annotated[HostName, AT_START] = "127.0.0.1"
    """The address where clients connect, a name or a number. A start refuses one that other
    machines reach, unless [auth] names users or insecure is true.
    """
    port: Annotated[PortOrOff, AT_START] = 22133
    """The port of the memcache protocol. 0 takes any free one; off needs a socket."""
    socket: Annotated[PathOrNone, AT_START] = None
    """A Unix socket beside the port, relative to this file. Whoever may use the file needs no
    login, and up to 8 connections come beyond max_connections, so that an administrator gets in.
    """
    text_port: Annotated[PortOrOff, AT_START] = None
    """A port on the same host for Kestrel's simple text protocol, in which requests and items are
    lines. It has no login, and is refused together with [auth].
    """
    http_host: Annotated[HostName, AT_START] = "127.0.0.1"
    """The address of HTTP (docs/http.md), as host is that of the other listeners."""
    http_port: Annotated[PortOrOff, AT_START] = 2223
    """The port of HTTP."""
    http_allowed_hosts: Annotated[HostNames, AT_START] = ()
    """Other names of this server, behind a proxy for instance. A browser that names the server in
    another way gets no answer; localhost and the address itself are always allowed.
    """
    default_project: Annotated[ProjectOrNone, AT_START] = None
    """The project of the messaging API whose queues have no prefix: its queue jobs is the queue
    jobs of every other client. The queue jobs of each other project P is named P:jobs.
    """
    insecure: Truth = False
    """Whether a server without [auth] may listen where other machines reach it. true says that the
    network in front of it is yours, and that anybody there may read and delete everything.
    """
    tls_cert: PathOrNone = None
    """TLS on port and http_port: the certificate with its chain, PEM. A reload takes this file and
    that of the key again for new connections; only a start begins or ends TLS.
    """
    tls_key: PathOrNone = None
    """The key of tls_cert, PEM."""
    tls_client_ca: Annotated[PathOrNone, AT_START] = None
    """Only clients with a certificate of this authority are let in."""
    data_dir: Annotated[DataDir, AT_START] = Path("data")
    """Where the journals live, relative to this file; without a file, to the working directory. It
    is for the owner of the process alone (0700, its files 0600), whatever the umask says.
    """
    max_connections: Count = 10_000
    """More connections than this are refused. It is lowered to what fits: of the files that the
    process may open (ulimit -Hn) a part is for the journals. One line in the log has both numbers.
    """
    max_queues: Count = 10_000
    """More queues than this are not created."""
    # Bodies of at most four busy queues; a machine with 1 GiB has as much left over.
    max_memory_bytes: Bytes = Field(default=256 * MIB, alias="max_memory")
    """The most memory for the bodies of all queues together; beyond it items wait on disk, and are
    read back in time for their turn. The default holds four busy queues at their own max_memory.
    """
    # Requests and replies in flight: half of the waiting items, and sixteen of the largest items.
    max_connection_memory_bytes: Bytes = Field(default=128 * MIB, alias="max_connection_memory")
    """The most memory for requests on their way in and answers on their way out, over all
    connections. Beyond it large ones (above 64KiB) wait for room, small ones go on. A client that
    then moves nothing for five seconds is refused the rest, or hung up on.
    """
    # Room for the confirms is reserved apart from this: only the operator knows what others need.
    min_disk_free_bytes: BytesOrZero = Field(default=0, alias="min_disk_free")
    """New items are refused while the disk of data_dir has less room: what other programs on it
    need. Confirming goes on, because its room was set aside when the items were accepted.
    """
    idle_timeout_ms: MsOrNone = Field(default=None, alias="idle_timeout")
    """A connection that completes no request for so long is closed, unless it waits or holds an
    item. A pool of clients then fails its first request. A machine that is gone needs no such time:
    TCP keepalive ends its connections within three minutes.
    """
    max_open_reads: Count = 1
    """How many items one connection may hold open at a time. 1 finds the client that forgets to
    close.
    """
    allow_delete: Truth = True
    """Whether clients may delete queues."""
    allow_flush_all: Truth = True
    """Whether clients may empty all queues with flush_all. The log names the client of each."""
    allow_shutdown: Truth = False
    """Whether clients may stop the server with shutdown."""
    log_format: Literal["text", "json"] = "text"
    """The log: for people, or for machines."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The log has what is of this level or above it."""

    @pydantic.model_validator(mode="after")
    def _has_both_files_of_tls(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key go together")
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise ValueError("tls_client_ca needs tls_cert and tls_key")
        return self

    @pydantic.model_validator(mode="after")
    def _listens_somewhere(self) -> Self:
        if self.port is None and self.socket is None:
            raise ValueError('port = "off" needs a socket: clients could not connect')
        return self

    @pydantic.model_validator(mode="after")
    def _has_a_port_for_each_listener(self) -> Self:
        hosts = {"port": self.host, "text_port": self.host, "http_port": self.http_host}
        taken: dict[int, str] = {}
        for key, host in hosts.items():
            port = getattr(self, key)
            other = taken.setdefault(port, key) if port else key
            if other != key and (hosts[other] == host or _EVERY & {hosts[other], host}):
                raise ValueError(f"{other} and {key} are both {port}: each listener needs its own")
        return self


class JournalConfig(Section):
    """`[journal]`: sizes of the files and of the writes."""

    segment_min_bytes: SegmentBytes = Field(default=64 * KIB, alias="segment_min")
    """A queue's journal is a chain of segment files. They start small, so that thousands of quiet
    queues cost little disk, and grow with use. An idle queue keeps 1 MiB beside its items, and at
    least one segment_min.
    """
    segment_max_bytes: SegmentBytes = Field(default=64 * MIB, alias="segment_max")
    """How large segments grow, so that busy queues seldom change files. In a fleet they have at
    most 8 MiB, or segment_min: a takeover is sooner over.
    """
    batch_max_bytes: BatchBytes = Field(default=4 * MIB, alias="batch_max")
    """The most that is written in one turn of the loop. Larger helps throughput; smaller keeps
    other connections from waiting for a burst.
    """

    @pydantic.model_validator(mode="after")
    def _least_is_at_most_most(self) -> Self:
        if self.segment_min_bytes > self.segment_max_bytes:
            least = format_size_bytes(self.segment_min_bytes)
            most = format_size_bytes(self.segment_max_bytes)
            raise ValueError(f"segment_min = {least} must be at most segment_max = {most}")
        return self


def place_of(address: str) -> tuple[str, int] | None:
    """Return the host and the port of an address, host:port or [::1]:port; None: it has none."""
    host, _, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:  # an address of IPv6, whose last part may look like a port
        return None
    is_port = port.isascii() and port.isdecimal() and 0 < int(port) < 65536
    return (host, int(port)) if host and is_port else None


class FleetConfig(Section):
    """`[fleet]`: the engine that has the data, and this process among those that may own it."""

    engine: EngineOrNone = None
    """The replicated PostgreSQL, or the object store, that has the journals, so that the data
    outlives its machine. Of the processes that name it one owns them; the others wait, and one of
    them takes over within seconds. An address as PostgreSQL's own tools take it, with a secret in
    ~/.pgpass, or s3://bucket/prefix; "none": local files.
    """
    name: MemberOrNone = None
    """The name of this process among those that wait. "none": the host's."""
    address: MemberOrNone = None
    """Where the other processes reach this one: host:port. With slices they connect there."""
    takeover_ms: TakeoverMs = Field(default=3000, alias="takeover")
    """An owner that has committed nothing for so long is taken to be dead; it commits several times
    in this time if it lives. Give all members the same: of two settings the longer one counts.
    """
    single: Truth = False
    """Whether one PostgreSQL without a standby is enough. What it acknowledged is lost with its
    disk.
    """
    patroni: UrlOrNone = None
    """The REST API of the Patroni that keeps these servers. A start, check-config and `kestrelpy
    fleet` refuse one that is older than 3.0.3, which loses what it acknowledged.
    """

    slices: Slices = 1
    """How many slices the queues are spread over. Each has a process of its own, so that this many
    processors are used; clients connect as to one server. The members of an engine share them.
    """
    groups: Groups = ()
    """Queues whose names match one of these patterns, in which * stands for any characters, are in
    one slice. So are those with the same text between braces, orders{7} and refunds{7}.
    """
    slice: SliceOrNone = None
    """The one slice that this process has. "none": it starts a process for each."""
    secret_file: PathOrNone = None
    """A file with the secret that members show each other, one line. It is needed with slices and
    users: a member tells the others who its clients are."""

    @pydantic.model_validator(mode="after")
    def _has_its_slice(self) -> Self:
        if self.slice is not None and self.slice > self.slices:
            raise ValueError(f"slice = {self.slice} of slices = {self.slices}: there is none")
        if self.engine is not None and self.slices > 1 and self.place is None:
            raise ValueError("slices with engine: address must be a host and a port, db1:22133")
        return self

    @property
    def place(self) -> tuple[str, int] | None:
        """The host and the port of `address`; None: it has none."""
        return place_of(self.address or "")

    @pydantic.model_validator(mode="after")
    def _names_an_engine(self) -> Self:
        asked, fields = self.model_fields_set - _LOCAL, type(self).model_fields.items()
        if asked and "engine" not in asked:
            keys = " and ".join(field.alias or name for name, field in fields if name in asked)
            raise ValueError(f"{keys} without engine: this process would serve local files")
        return self


@dataclass(frozen=True, slots=True)
class _InForce:
    """The settings of the blocks, each over the defaults. They are found without pydantic, which
    would take longer than all other work for a queue's settings."""

    default: QueueSettings
    named: dict[bytes, QueueSettings]
    children: dict[bytes, tuple[bytes, ...]]

    @property
    def has_sliced(self) -> bool:
        """True if a queue of these is in all slices."""
        return any(each.sliced for each in (self.default, *self.named.values()))


class Config(Section):
    """All of kestrelpy.toml, checked."""

    server: ServerConfig = ServerConfig()
    journal: Annotated[JournalConfig, AT_START] = JournalConfig()
    fleet: Annotated[FleetConfig, AT_START] = FleetConfig()
    queue_defaults: QueueBlock = QueueBlock()
    queues: dict[str, QueueBlock] = Field(default={})
    schedules: dict[str, ScheduleBlock] = Field(default={})
    aliases: dict[str, AliasBlock] = Field(default={})
    auth: dict[str, UserBlock] = Field(default={})
    _in_force: _InForce = pydantic.PrivateAttr(_InForce(DEFAULTS, {}, {}))
    _has_sliced: bool = pydantic.PrivateAttr(False)

    @pydantic.model_validator(mode="after")
    def _checked(self) -> Self:
        self._put_in_force()._refuse_large_bodies()._refuse_aliases()
        return self._refuse_doors()

    def _put_in_force(self) -> Self:
        default = self.queue_defaults.over(DEFAULTS)
        self.queue_defaults.refuse_contradictions(default, "[queue_defaults]")
        named: dict[bytes, QueueSettings] = {}
        children: dict[bytes, tuple[bytes, ...]] = {}
        for name, block in self.queues.items():
            settings = named[name.encode()] = block.over(default)
            block.refuse_contradictions(settings, as_written(("queues", name), {}))
            if parent := parent_of(name):
                child = name.removeprefix(f"{parent}+").encode()
                children[parent.encode()] = (*children.get(parent.encode(), ()), child)
        if sliced := [each for each in children if named.get(each, default).sliced]:
            where = as_written(("queues", sliced[0].decode()), {})
            raise ValueError(f"{where} is sliced, and a sliced queue has no children")
        self._in_force = _InForce(default, named, children)
        self._has_sliced = self._in_force.has_sliced
        return self

    def _refuse_aliases(self) -> Self:
        """Raise ValueError if an alias is used in place of a queue."""
        targets = {as_written(place, name): name for place, name in self.targets().items()}
        targets |= {
            as_written(("schedules", name, "queue"), each.queue): each.queue
            for name, each in self.schedules.items()
        }
        queues = {as_written(("queues", name), {}): name for name in self.queues}
        if why := why_wrong(self.aliases, queues, targets):
            raise ValueError(why)
        return self

    def _refuse_doors(self) -> Self:
        """Raise ValueError for a way in that does not lead over slices."""
        fleet = self.fleet
        if fleet.engine and fleet.slices > 1 and self.auth and not fleet.secret_file:
            raise ValueError("[fleet] slices with users in [auth]: secret_file is needed")
        return self

    def _refuse_large_bodies(self) -> Self:
        """Raise ValueError if a schedule's queue would refuse every one of its items."""
        for name, schedule in self.schedules.items():
            size = len(schedule.body_bytes)
            most = self.queue(schedule.queue.encode()).max_item_bytes
            if size > most:
                raise ValueError(
                    f"{as_written(('schedules', name), {})} has a body of {size} bytes, and "
                    f"max_item_size of queue {schedule.queue} is {format_size_bytes(most)}"
                )
        return self

    def with_paths(self, absolute: Callable[[Place, Path], Path]) -> Self:
        """Return the same with every path replaced by `absolute` of its place and itself."""

        def moved(model: _AnySection, above: Place) -> _AnySection:
            paths = {name: path for name in _paths(type(model)) if (path := getattr(model, name))}
            return model.model_copy(
                update={name: absolute((*above, name), path) for name, path in paths.items()}
            )

        sections: dict[str, object] = {
            "server": moved(self.server, ("server",)),
            "fleet": moved(self.fleet, ("fleet",)),
            "queue_defaults": moved(self.queue_defaults, ("queue_defaults",)),
            "queues": {name: moved(each, ("queues", name)) for name, each in self.queues.items()},
        }
        return self.model_copy(update=sections)._put_in_force()

    def begun_as(self, began: Self) -> Self:
        """Return the same with the values of `began` for what no reload applies: until the process
        ends, these stay as they were at its start."""
        names = _at_start(ServerConfig)
        if self.server.tls_cert is None or began.server.tls_cert is None:
            names += _TLS_CERT  # a reload renews a certificate: it neither begins nor ends TLS
        kept = {name: getattr(began.server, name) for name in names}
        sections = {name: getattr(began, name) for name in _at_start(Config)}
        server = self.server.model_copy(update=kept)
        return self.model_copy(update={**sections, "server": server})

    @property
    def is_router(self) -> bool:
        """True if the process starts one for each slice, and serves none itself."""
        return self.fleet.slices > 1 and self.fleet.slice is None

    @property
    def largest_item_bytes(self) -> int:
        """How large an item may be in any queue that the file names, or in all others."""
        named = (each.max_item_bytes for each in self._in_force.named.values())
        return max(self._in_force.default.max_item_bytes, *named, 0)

    @property
    def has_sliced(self) -> bool:
        """True if some queue is in all slices."""
        return self._has_sliced

    @property
    def placement(self) -> Placement:
        """The slices of the queues."""
        return Placement(self.fleet.slices, self.fleet.groups)

    def targets(self) -> dict[Place, str]:
        """Return the queues where settings send items, by the place of each setting."""
        return {
            (*place, key): name
            for place, block in self._blocks().items()
            for key in TARGETS
            if (name := getattr(block, key)) is not None
        }

    def of_slice(self) -> Self:
        """Return what concerns the slice of this process: schedules and blocks of its queues."""
        number, slice_of = self.fleet.slice, self.placement.slice_of
        if number is None:
            return self
        ours: dict[str, object] = {
            "queues": {
                name: block for name, block in self.queues.items()
                if slice_of(name.encode()) == number or self.queue(name.encode()).sliced
            },
            "schedules": {
                name: each for name, each in self.schedules.items()
                if slice_of(each.queue.encode()) == number
            },
            "aliases": {n: b for n, b in self.aliases.items() if slice_of(n.encode()) == number},
        }  # fmt: skip
        return self.model_copy(update=ours)._put_in_force()

    def archives(self) -> dict[Place, Path]:
        """The archive directories, by the place they are set."""
        return {
            (*place, "archive_to"): block.archive_to
            for place, block in self._blocks().items()
            if block.archive_to is not None
        }

    def _blocks(self) -> dict[Place, QueueBlock]:
        """Yield every block of settings with its place."""
        blocks: dict[Place, QueueBlock] = {("queue_defaults",): self.queue_defaults}
        return blocks | {("queues", name): block for name, block in self.queues.items()}

    def queue(self, name: bytes, declared: QueueBlock | None = None) -> QueueSettings:
        """Return the settings in force for a queue, one by one.

        The defaults, over them a client's declared settings, over those the queue's own block. A
        fan-out child, `orders+audit`, has those of its parent with its own limits over them; items
        that the defaults send to its parent end in it.
        """
        known = self._in_force
        if b"+" in name:
            parent = self.queue(name.partition(b"+")[0], declared)
            own = known.named.get(name) or known.default.away_from(parent_of(name.decode("ascii")))
            return replace(own, **{each: getattr(parent, each) for each in SHARED})
        if declared is None:
            return known.named.get(name, known.default)
        block = self.block(name)
        settings = declared.over(known.default)
        return settings if block is None else block.over(settings)

    def children(self, name: bytes) -> tuple[bytes, ...]:
        """Return the children that the file names for this queue, without the queue: `audit`."""
        return self._in_force.children.get(name, ())

    def parts(self) -> list[object]:
        """Return its blocks and what was made of them: with these in a list, the configuration
        itself is freed at once."""
        return [*self.queues.values(), *self._in_force.named.values()]

    def block(self, name: bytes) -> QueueBlock | None:
        """Return `[queues."name"]`, if the file has it."""
        return self.queues.get(name.decode("utf-8", "replace"))


def _at_start(model: type[Section]) -> list[str]:
    return [name for name, field in model.model_fields.items() if AT_START in field.metadata]


def _paths(model: type[Section]) -> list[str]:
    """Return the settings of a section that are paths; none has a key of another name."""
    kinds = {name: field.annotation for name, field in model.model_fields.items()}
    return [name for name, each in kinds.items() if Path in (each, *get_args(each))]


def _keys(model: type[pydantic.BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


KNOWN: Final = {
    "": _keys(Config),
    "server": _keys(ServerConfig),
    "journal": _keys(JournalConfig),
    "fleet": _keys(FleetConfig),
    "queue_defaults": _keys(QueueBlock),
    "queues": _keys(QueueBlock),
    "children": [each.key for each in SETTINGS.values() if not each.of_log],
    "schedules": _keys(ScheduleBlock),
    "aliases": _keys(AliasBlock),
    "auth": _keys(UserBlock),
}
