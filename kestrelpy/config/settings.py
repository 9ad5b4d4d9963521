"""The settings: the frozen models, and the settings in force for a queue.

A key in the file has the spec's name (`lease`), the attribute has its unit (`lease_ms`).

One rule: a fan-out child has limits of its own; every setting of the log is its parent's.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, Self, TypeVar

import pydantic
from pydantic import Field

from kestrelpy.config.aliases import AliasBlock, why_wrong
from kestrelpy.config.children import SHARED, parent_of
from kestrelpy.config.keying import why_contradictory
from kestrelpy.config.kinds import (
    KIB,
    MIB,
    BatchBytes,
    Bytes,
    BytesOrNone,
    BytesOrZero,
    Confirms,
    Count,
    CountOrNone,
    DataDir,
    Dedupe,
    EngineOrNone,
    HostName,
    HostNames,
    ItemBytes,
    KeyFields,
    KeyFormat,
    KeyMatch,
    KeyMissing,
    MemberOrNone,
    Ms,
    MsOrForever,
    MsOrNone,
    MsOrZero,
    PathOrNone,
    Port,
    PortOrOff,
    ProjectOrNone,
    QueueOrNone,
    Retaining,
    SegmentBytes,
    Sync,
    SyncWord,
    TakeoverMs,
    Times,
    Truth,
    UrlOrNone,
)
from kestrelpy.config.mistakes import as_written
from kestrelpy.config.retaining import NOT_RETAINED, Retain
from kestrelpy.config.schedules import ScheduleBlock
from kestrelpy.config.users import UserBlock
from kestrelpy.durations import format_size_bytes

TLS_FILES: Final = ("tls_cert", "tls_key", "tls_client_ca")
Place = tuple[str, ...]  # the place of a value: (section, key) or ("queues", name, key)


class _Section(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")


_AnySection = TypeVar("_AnySection", bound=_Section)


_EVERY: Final = frozenset({"0.0.0.0", "::", ""})  # hosts that are every address


class ServerConfig(_Section):
    """`[server]`: the process, its listeners and the limits of one connection."""

    host: HostName = "127.0.0.1"
    port: Port = 22133
    socket: PathOrNone = None
    text_port: PortOrOff = None
    http_host: HostName = "127.0.0.1"
    http_port: PortOrOff = 2223
    http_allowed_hosts: HostNames = ()
    default_project: ProjectOrNone = None
    insecure: Truth = False
    tls_cert: PathOrNone = None
    tls_key: PathOrNone = None
    tls_client_ca: PathOrNone = None
    data_dir: DataDir = Path("data")
    max_connections: Count = 10_000
    max_queues: Count = 10_000
    # Bodies of at most four busy queues; a machine with 1 GiB has as much left over.
    max_memory_bytes: Bytes = Field(default=256 * MIB, alias="max_memory")
    # Requests and replies in flight: half of the waiting items, and sixteen of the largest items.
    max_connection_memory_bytes: Bytes = Field(default=128 * MIB, alias="max_connection_memory")
    # Room for the confirms is reserved apart from this: only the operator knows what others need.
    min_disk_free_bytes: BytesOrZero = Field(default=0, alias="min_disk_free")
    idle_timeout_ms: MsOrNone = Field(default=None, alias="idle_timeout")
    max_open_reads: Count = 1
    allow_delete: Truth = True
    allow_flush_all: Truth = True
    allow_shutdown: Truth = False
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @pydantic.model_validator(mode="after")
    def _has_both_files_of_tls(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key go together")
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise ValueError("tls_client_ca needs tls_cert and tls_key")
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


class JournalConfig(_Section):
    """`[journal]`: sizes of the files and of the writes."""

    segment_min_bytes: SegmentBytes = Field(default=64 * KIB, alias="segment_min")
    segment_max_bytes: SegmentBytes = Field(default=64 * MIB, alias="segment_max")
    batch_max_bytes: BatchBytes = Field(default=4 * MIB, alias="batch_max")

    @pydantic.model_validator(mode="after")
    def _least_is_at_most_most(self) -> Self:
        if self.segment_min_bytes > self.segment_max_bytes:
            least = format_size_bytes(self.segment_min_bytes)
            most = format_size_bytes(self.segment_max_bytes)
            raise ValueError(f"segment_min = {least} must be at most segment_max = {most}")
        return self


class FleetConfig(_Section):
    """`[fleet]`: the engine that has the data, and this process among those that may own it."""

    engine: EngineOrNone = None
    name: MemberOrNone = None
    address: MemberOrNone = None
    takeover_ms: TakeoverMs = Field(default=3000, alias="takeover")
    single: Truth = False
    patroni: UrlOrNone = None

    @pydantic.model_validator(mode="after")
    def _names_an_engine(self) -> Self:
        asked, fields = self.model_fields_set, type(self).model_fields.items()
        if asked and "engine" not in asked:
            keys = " and ".join(field.alias or name for name, field in fields if name in asked)
            raise ValueError(f"{keys} without engine: this process would serve local files")
        return self


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The settings in force for one queue; None means no limit."""

    lease_ms: int | None = 1_800_000
    max_items: int | None = None
    max_bytes: int | None = None
    max_item_bytes: int = 8 * MIB
    max_memory_bytes: int = 64 * MIB
    discard_old_when_full: bool = False
    max_age_ms: int | None = None
    max_queue_age_ms: int | None = None
    sync: Sync = "always"
    sync_in_turn: bool = False
    confirms_synced: bool = False
    durable: bool = True
    max_leased: int | None = None
    max_attempts: int | None = 100
    retry_delay_ms: int = 0
    retry_backoff: float = 1
    retry_delay_max_ms: int = 3_600_000
    key_format: str | None = None
    key: tuple[str, ...] | None = None
    key_matches_any: bool = False
    key_unordered: bool = False
    key_is_free: bool = False
    expire_to: str | None = None
    dead_letter_to: str | None = None
    dead_letter_age_ms: int | None = None
    dedupe_same_body: bool = False
    dedupe_window_ms: int | None = 86_400_000
    scope_window_ms: int | None = 30 * 86_400_000
    retain: Retain = NOT_RETAINED
    fanout_only: bool = False
    fanout_create: bool = True
    archive_to: Path | None = None

    def away_from(self, name: str) -> Self:
        """Return the same settings without this queue as a target."""
        expire_to = None if self.expire_to == name else self.expire_to
        dead_letter_to = None if self.dead_letter_to == name else self.dead_letter_to
        return replace(self, expire_to=expire_to, dead_letter_to=dead_letter_to)


_DEFAULTS: Final = QueueSettings()


class QueueBlock(_Section):
    """`[queue_defaults]` or one `[queues."name"]`; of the latter only the set values count."""

    lease_ms: MsOrNone = Field(default=_DEFAULTS.lease_ms, alias="lease")
    max_items: CountOrNone = _DEFAULTS.max_items
    max_bytes: BytesOrNone = _DEFAULTS.max_bytes
    max_item_bytes: ItemBytes = Field(default=_DEFAULTS.max_item_bytes, alias="max_item_size")
    max_memory_bytes: Bytes = Field(default=_DEFAULTS.max_memory_bytes, alias="max_memory")
    discard_old_when_full: Truth = _DEFAULTS.discard_old_when_full
    max_age_ms: MsOrNone = Field(default=_DEFAULTS.max_age_ms, alias="max_age")
    max_queue_age_ms: MsOrNone = Field(default=_DEFAULTS.max_queue_age_ms, alias="max_queue_age")
    sync: SyncWord = _DEFAULTS.sync
    sync_in_turn: Truth = _DEFAULTS.sync_in_turn
    confirms_synced: Confirms = Field(default=_DEFAULTS.confirms_synced, alias="confirms")
    durable: Truth = _DEFAULTS.durable
    max_leased: CountOrNone = _DEFAULTS.max_leased
    max_attempts: CountOrNone = _DEFAULTS.max_attempts
    retry_delay_ms: MsOrZero = Field(default=_DEFAULTS.retry_delay_ms, alias="retry_delay")
    retry_backoff: Times = _DEFAULTS.retry_backoff
    retry_delay_max_ms: Ms = Field(default=_DEFAULTS.retry_delay_max_ms, alias="retry_delay_max")
    key_format: KeyFormat = _DEFAULTS.key_format
    key: KeyFields = _DEFAULTS.key
    key_matches_any: KeyMatch = Field(default=_DEFAULTS.key_matches_any, alias="key_match")
    key_unordered: Truth = _DEFAULTS.key_unordered
    key_is_free: KeyMissing = Field(default=_DEFAULTS.key_is_free, alias="key_missing")
    expire_to: QueueOrNone = _DEFAULTS.expire_to
    dead_letter_to: QueueOrNone = _DEFAULTS.dead_letter_to
    dead_letter_age_ms: MsOrNone = Field(
        default=_DEFAULTS.dead_letter_age_ms, alias="dead_letter_age"
    )
    dedupe_same_body: Dedupe = Field(default=_DEFAULTS.dedupe_same_body, alias="dedupe")
    dedupe_window_ms: MsOrForever = Field(
        default=_DEFAULTS.dedupe_window_ms, alias="dedupe_window"
    )
    scope_window_ms: MsOrForever = Field(default=_DEFAULTS.scope_window_ms, alias="scope_window")
    retain: Retaining = _DEFAULTS.retain
    fanout_only: Truth = _DEFAULTS.fanout_only
    fanout_create: Truth = _DEFAULTS.fanout_create
    archive_to: PathOrNone = _DEFAULTS.archive_to

    def over(self, base: QueueSettings) -> QueueSettings:
        """Return `base` with the set values of this block over it."""
        return replace(base, **{name: getattr(self, name) for name in self.model_fields_set})

    def refuse_contradictions(self, settings: QueueSettings, where: str) -> None:
        """Raise ValueError if this block, `where`, contradicts the `settings` in force."""
        self._refuse_disk(settings, where)
        names = {"key_is_free": "key_missing"}
        asked = {names.get(name, name) for name in self.model_fields_set}
        if why := why_contradictory(asked, settings):
            raise ValueError(f"{where} {why}")

    def _refuse_disk(self, settings: QueueSettings, where: str) -> None:
        """Raise ValueError if this block, `where`, needs a disk and the queue is in memory."""
        disk = {
            "sync": "sync", "sync_in_turn": "sync_in_turn", "confirms_synced": "confirms",
            "archive_to": "archive_to",
        }  # fmt: skip
        if self.retain:
            disk["retain"] = "retain"
        asked = " and ".join(disk[name] for name in disk if name in self.model_fields_set)
        if asked and not settings.durable:
            why = "a queue in memory has nothing on disk, leave one out"
            raise ValueError(f"{where} {asked} cannot be set with durable = false: {why}")


@dataclass(frozen=True, slots=True)
class _InForce:
    """The settings of the blocks, each over the defaults. They are found without pydantic, which
    would take longer than all other work for a queue's settings."""

    default: QueueSettings
    named: dict[bytes, QueueSettings]
    children: dict[bytes, tuple[bytes, ...]]


class Config(_Section):
    """All of kestrelpy.toml, checked."""

    server: ServerConfig = ServerConfig()
    journal: JournalConfig = JournalConfig()
    fleet: FleetConfig = FleetConfig()
    queue_defaults: QueueBlock = QueueBlock()
    queues: dict[str, QueueBlock] = {}
    schedules: dict[str, ScheduleBlock] = {}
    aliases: dict[str, AliasBlock] = {}
    auth: dict[str, UserBlock] = {}
    _in_force: _InForce = pydantic.PrivateAttr(_InForce(_DEFAULTS, {}, {}))

    @pydantic.model_validator(mode="after")
    def _checked(self) -> Self:
        self._put_in_force()._refuse_large_bodies()._refuse_aliases()
        return self

    def _put_in_force(self) -> Self:
        default = self.queue_defaults.over(_DEFAULTS)
        self.queue_defaults.refuse_contradictions(default, "[queue_defaults]")
        named: dict[bytes, QueueSettings] = {}
        children: dict[bytes, tuple[bytes, ...]] = {}
        for name, block in self.queues.items():
            settings = named[name.encode()] = block.over(default)
            block.refuse_contradictions(settings, as_written(("queues", name), {}))
            if parent := parent_of(name):
                child = name.removeprefix(f"{parent}+").encode()
                children[parent.encode()] = (*children.get(parent.encode(), ()), child)
        self._in_force = _InForce(default, named, children)
        return self

    def _refuse_aliases(self) -> Self:
        """Raise ValueError if an alias is used in place of a queue."""
        targets = {
            as_written((*place, key), name): name
            for place, block in self._blocks().items()
            for key in ("expire_to", "dead_letter_to")
            if (name := getattr(block, key)) is not None
        }
        targets |= {
            as_written(("schedules", name, "queue"), each.queue): each.queue
            for name, each in self.schedules.items()
        }
        queues = {as_written(("queues", name), {}): name for name in self.queues}
        if why := why_wrong(self.aliases, queues, targets):
            raise ValueError(why)
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

        def moved(model: _AnySection, above: Place, *names: str) -> _AnySection:
            paths = {name: path for name in names if (path := getattr(model, name)) is not None}
            return model.model_copy(
                update={name: absolute((*above, name), path) for name, path in paths.items()}
            )

        sections: dict[str, object] = {
            "server": moved(self.server, ("server",), "data_dir", "socket", *TLS_FILES),
            "queue_defaults": moved(self.queue_defaults, ("queue_defaults",), "archive_to"),
            "queues": {
                name: moved(block, ("queues", name), "archive_to")
                for name, block in self.queues.items()
            },
        }
        return self.model_copy(update=sections)._put_in_force()

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


def _keys(model: type[pydantic.BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


_FIELDS: Final = {field.alias or name: name for name, field in QueueBlock.model_fields.items()}
KNOWN: Final = {
    "": _keys(Config),
    "server": _keys(ServerConfig),
    "journal": _keys(JournalConfig),
    "fleet": _keys(FleetConfig),
    "queue_defaults": _keys(QueueBlock),
    "queues": _keys(QueueBlock),
    "children": [key for key in _keys(QueueBlock) if _FIELDS[key] not in SHARED],
    "schedules": _keys(ScheduleBlock),
    "aliases": _keys(AliasBlock),
    "auth": _keys(UserBlock),
}
