"""kestrelpy.toml, the environment and flags, to one frozen `Config`.

One rule: whatever is wrong is said in one sentence per problem (where it stands, key, value, what
is allowed, the nearest known key), all problems at once, and `load_config` raises nothing else.

    flags  >  KESTRELPY_<SECTION>_<KEY>  >  file  >  defaults

A key in the file has the spec's name (`lease`), the attribute says its unit (`lease_ms`).
"""

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import pydantic
from pydantic import Field, PlainValidator

from kestrelpy import durations
from kestrelpy.durations import format_size_bytes, parse_duration_ms, parse_size_bytes, shown

FILE_NAME: Final = "kestrelpy.toml"
SYSTEM_FILE: Final = Path("/etc/kestrelpy/kestrelpy.toml")

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30  # no segment is over a GiB, so no item or batch is
_MAX_NUMBER: Final = 2**53 - 1  # the bound of all our numbers, on the wire too


class ConfigError(Exception):
    """The configuration cannot be used; `str()` is one sentence per problem, one per line."""

    def __init__(self, problems: Sequence[str]) -> None:
        # A path or a variable's name may hold anything; what is said can always be printed.
        lines = [each.encode(errors="backslashreplace").decode() for each in problems]
        self.problems: Final = tuple(line.replace("\n", "\\n") for line in lines)
        super().__init__("\n".join(self.problems))


class _Words(str):
    """Text from the environment or a command line, where numbers and booleans are words too."""

    __slots__ = ()


def _kind(allowed: str, read: Callable[[Any], Any], *, none: bool = False) -> PlainValidator:
    """What a value may be: what `read` takes, and "none" if asked; a refusal says all of it."""
    allowed += ', or "none"' if none else ""

    def check(value: object) -> object:
        try:
            return None if none and value == "none" else read(value)
        except (LookupError, TypeError, ValueError):
            raise ValueError(f"must be {allowed}") from None

    return PlainValidator(check)


def _within(low: int, high: int, number: int) -> int:
    if not low <= number <= high:
        raise ValueError
    return number


def _read_number(value: object) -> int:
    number = int(value) if isinstance(value, _Words) else value
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError
    return number


def _read_truth(value: object) -> bool:
    truth = {"true": True, "false": False}[value] if isinstance(value, _Words) else value
    if not isinstance(truth, bool):
        raise TypeError
    return truth


def _read_path(value: str | Path) -> Path:
    if not str(value) or "\0" in str(value):
        raise ValueError
    return Path(value)


def _read_host(value: str) -> str:
    if not re.fullmatch("[!-~]+", value):
        raise ValueError
    return str(value)


def _read_time(value: str) -> int:
    return _within(1, durations.MAX_DURATION_MS, parse_duration_ms(value))


def _read_sync(value: str) -> str | int:
    return str(value) if value in ("always", "never") else _read_time(value)


def _number(low: int, high: int = _MAX_NUMBER, *, none: bool = False) -> PlainValidator:
    allowed = f"a whole number from {low} to {high}"
    return _kind(allowed, lambda value: _within(low, high, _read_number(value)), none=none)


def _size(low: int = 1, high: int = _MAX_NUMBER, *, none: bool = False) -> PlainValidator:
    bounds = f"from {format_size_bytes(low)} to {format_size_bytes(high)}"
    allowed = f"a size {bounds}: {durations.SIZE_FORM}"
    return _kind(allowed, lambda value: _within(low, high, parse_size_bytes(value)), none=none)


_TIME: Final = f"a duration from 1ms to 36500d: {durations.DURATION_FORM}"
_CONFIRMS_SYNCED: Final = {"written": False, "synced": True}

Sync = Literal["always", "never"] | int  # or the most milliseconds between two syncs
Count = Annotated[int, _number(1)]
CountOrNone = Annotated[int | None, _number(1, none=True)]
BytesOrNone = Annotated[int | None, _size(none=True)]
ItemBytes = Annotated[int, _size(1, _GIB)]
SegmentBytes = Annotated[int, _size(16 * _KIB, _GIB)]
BatchBytes = Annotated[int, _size(4 * _KIB, _GIB)]
MsOrNone = Annotated[int | None, _kind(_TIME, _read_time, none=True)]
SyncWord = Annotated[Sync, _kind(f'"always", "never" or {_TIME}', _read_sync)]
Confirms = Annotated[bool, _kind('"written" or "synced"', _CONFIRMS_SYNCED.__getitem__)]
Truth = Annotated[bool, _kind("true or false", _read_truth)]


class _Section(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")


class ServerConfig(_Section):
    """`[server]`: the process, its listeners and what one connection may do."""

    host: Annotated[str, _kind("a host name or an address", _read_host)] = "127.0.0.1"
    port: Annotated[int, _number(0, 65535)] = 22133
    socket: Annotated[Path | None, _kind("a path", _read_path, none=True)] = None
    data_dir: Annotated[Path, _kind("a path", _read_path)] = Path("data")
    max_connections: Count = 10_000
    max_queues: Count = 10_000
    idle_timeout_ms: MsOrNone = Field(default=3_600_000, alias="idle_timeout")
    max_open_reads: Count = 1
    allow_delete: Truth = True
    allow_shutdown: Truth = False
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"


class JournalConfig(_Section):
    """`[journal]`: sizes of the files and of the writes."""

    segment_min_bytes: SegmentBytes = Field(default=64 * _KIB, alias="segment_min")
    segment_max_bytes: SegmentBytes = Field(default=64 * _MIB, alias="segment_max")
    batch_max_bytes: BatchBytes = Field(default=4 * _MIB, alias="batch_max")

    @pydantic.model_validator(mode="after")
    def _least_is_at_most_most(self) -> Self:
        if self.segment_min_bytes > self.segment_max_bytes:
            least = format_size_bytes(self.segment_min_bytes)
            most = format_size_bytes(self.segment_max_bytes)
            raise ValueError(f"segment_min = {least} must be at most segment_max = {most}")
        return self


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The settings in force for one queue; None means no limit."""

    lease_ms: int | None = 1_800_000
    max_items: int | None = None
    max_bytes: int | None = None
    max_item_bytes: int = 8 * _MIB
    discard_old_when_full: bool = False
    max_age_ms: int | None = None
    max_queue_age_ms: int | None = None
    sync: Sync = "always"
    confirms_synced: bool = False
    durable: bool = True
    max_leased: int | None = None
    max_attempts: int | None = 100


_DEFAULTS: Final = QueueSettings()


class QueueBlock(_Section):
    """`[queue_defaults]` or one `[queues."name"]`: of the latter only what was set counts."""

    lease_ms: MsOrNone = Field(default=_DEFAULTS.lease_ms, alias="lease")
    max_items: CountOrNone = _DEFAULTS.max_items
    max_bytes: BytesOrNone = _DEFAULTS.max_bytes
    max_item_bytes: ItemBytes = Field(default=_DEFAULTS.max_item_bytes, alias="max_item_size")
    discard_old_when_full: Truth = _DEFAULTS.discard_old_when_full
    max_age_ms: MsOrNone = Field(default=_DEFAULTS.max_age_ms, alias="max_age")
    max_queue_age_ms: MsOrNone = Field(default=_DEFAULTS.max_queue_age_ms, alias="max_queue_age")
    sync: SyncWord = _DEFAULTS.sync
    confirms_synced: Confirms = Field(default=_DEFAULTS.confirms_synced, alias="confirms")
    durable: Truth = _DEFAULTS.durable
    max_leased: CountOrNone = _DEFAULTS.max_leased
    max_attempts: CountOrNone = _DEFAULTS.max_attempts

    def over(self, base: QueueSettings, where: str) -> QueueSettings:
        """`base` with what was set in this block, `where`, laid over it; ValueError if at odds."""
        settings = replace(base, **{name: getattr(self, name) for name in self.model_fields_set})
        disk = {"sync": "sync", "confirms_synced": "confirms"}
        asked = " and ".join(disk[name] for name in disk if name in self.model_fields_set)
        if asked and not settings.durable:
            why = "a queue in memory has nothing to sync, leave one out"
            raise ValueError(f"{where} {asked} cannot be set beside durable = false: {why}")
        return settings


class Config(_Section):
    """All of kestrelpy.toml, checked."""

    server: ServerConfig = ServerConfig()
    journal: JournalConfig = JournalConfig()
    queue_defaults: QueueBlock = QueueBlock()
    queues: dict[str, QueueBlock] = {}
    _default: QueueSettings = pydantic.PrivateAttr(_DEFAULTS)
    _named: dict[bytes, QueueSettings] = pydantic.PrivateAttr(default_factory=dict)

    @pydantic.model_validator(mode="after")
    def _put_in_force(self) -> Self:
        self._default = self.queue_defaults.over(_DEFAULTS, "[queue_defaults]")
        for name, block in self.queues.items():
            self._named[name.encode()] = block.over(self._default, _setting(("queues", name), {}))
        return self

    def queue(self, name: bytes) -> QueueSettings:
        """The settings in force for a queue: the defaults, overlaid by the queue's own block."""
        return self._named.get(name, self._default)


def _keys(model: type[pydantic.BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


_KNOWN: Final = {
    "": _keys(Config),
    "server": _keys(ServerConfig),
    "journal": _keys(JournalConfig),
    "queue_defaults": _keys(QueueBlock),
    "queues": _keys(QueueBlock),
}
# Words of the spec that this version does not act on yet: better refused than silently ignored.
_LATER: Final = {
    "": "aliases schedules",
    "server": "http_host http_port text_port max_memory min_disk_free",
    "queue_defaults": "retry_delay retry_backoff retry_delay_max dedupe_window scope_window "
    "key_format key key_match key_unordered key_missing retain archive_to fanout_only "
    "fanout_create max_memory expire_to dead_letter_to",
}


def find_config_file(explicit: Path | None, cwd: Path, system: Path = SYSTEM_FILE) -> Path | None:
    """The file named, else the one in `cwd`, else the system's, else None.

    A file that is there but cannot be reached is returned too, so that loading says why.
    """
    if explicit is not None:
        return cwd / explicit
    for path in (cwd / FILE_NAME, system):
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            pass
        return path
    return None


def load_config(
    path: Path | None, *, environ: Mapping[str, str], overrides: Mapping[tuple[str, str], object]
) -> Config:
    """The configuration in force; raises only ConfigError.

    `overrides` are flags by (section, key); one that is None was not given. A relative path starts
    at the file's folder if it stands in the file or is a default, else at the working directory.
    """
    sources = _Sources()
    if path is not None:
        for section, table in _read_toml(path).items():
            sources.add(str(path), (section,), table)
    sources.add_environment(environ)
    for (section, key), value in overrides.items():
        if value is not None:
            words = _Words(value) if isinstance(value, str) else value
            sources.add(f"flag --{key.replace('_', '-')}", (section, key), words)
    config = sources.checked()
    anchored = {}
    for key in ("data_dir", "socket"):
        if (given := getattr(config.server, key)) is not None:
            elsewhere = sources.origins.get(("server", key), str(path)) != str(path)
            folder = Path() if path is None or elsewhere else path.parent
            anchored[key] = (folder / given).absolute()
    return config.model_copy(update={"server": config.server.model_copy(update=anchored)})


def _read_toml(path: Path) -> dict[str, Any]:
    text = ""
    try:
        text = path.read_bytes().decode()
        return tomllib.loads(text)
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError as error:
        why = f"is not UTF-8 {_end_of(error.object[: error.start].decode())}"
    except (ValueError, RecursionError) as error:
        why = f"is not TOML: {error}".replace("(at end of document)", _end_of(text))
    raise ConfigError([f"{path}: {why}."])


def _end_of(text: str) -> str:
    """Where a text ends, in tomllib's words."""
    return f"(at line {text.count(chr(10)) + 1}, column {len(text) - text.rfind(chr(10))})"


class _Sources:
    """Values by place, (section, key) or ("queues", name, key), with where each came from."""

    def __init__(self) -> None:
        self.tables: dict[str, Any] = {}
        self.origins: dict[tuple[str, ...], str] = {}
        self.problems: list[str] = []

    def add(self, origin: str, place: tuple[str, ...], value: object) -> None:
        """Lay one value, or a table of them, over what is there."""
        *above, key = place
        if above != ["queues"] and (why := _why_unknown(above[0] if above else "", key)):
            self.problems.append(f"{origin}: {_setting(place, value)} {why}.")
        elif above == ["queues"] and not re.fullmatch("[!-.0-~]{1,128}", key):
            why = "a queue's name must be 1 to 128 printable ASCII characters, no blank and no /"
            self.problems.append(f"{origin}: {_setting(place, value)}, but {why}.")
        elif len(place) == (3 if place[0] == "queues" else 2):
            self.origins[place] = origin
            table = self.tables
            for step in above:
                table = table.setdefault(step, {})
            table[key] = value
        elif isinstance(value, dict):
            for inner, each in value.items():
                self.add(origin, (*place, inner), each)
        else:
            self.problems.append(f"{origin}: {_setting(place, value)}, but must be a table.")

    def add_environment(self, environ: Mapping[str, str]) -> None:
        """Take KESTRELPY_<SECTION>_<KEY>; no other name is ours, KESTRELPY_SERVER neither."""
        for name, text in sorted(environ.items()):
            for section in _KNOWN[""]:
                if name.startswith(prefix := f"KESTRELPY_{section.upper()}_"):
                    place = (section, name.removeprefix(prefix).lower())
                    self.add(f"environment variable {name}", place, _Words(text))

    def checked(self) -> Config:
        """The configuration, if nothing is wrong with it; raises ConfigError."""
        try:
            config = Config.model_validate(self.tables)
        except pydantic.ValidationError as error:
            for each in error.errors(include_url=False, include_input=False):
                why = each["msg"].removeprefix("Value error, ").replace("Input should", "must")
                self.problems.append(self._sentence(tuple(map(str, each["loc"])), why))
        if self.problems:
            raise ConfigError(self.problems)
        return config

    def _sentence(self, place: tuple[str, ...], why: str) -> str:
        """What is wrong with a value, or among values: then their keys are words of `why`."""
        if place in self.origins:
            setting = _setting(place, reduce(getitem, place, self.tables))
            return f"{self.origins[place]}: {setting}, but {why}."
        named = [at for at in self.origins if at[: len(place)] == place and at[-1] in why.split()]
        origins = " and ".join(dict.fromkeys(self.origins[at] for at in named))
        return f"{origins}: {_setting(place, {}) + ' ' if place else ''}{why}."


def _setting(place: tuple[str, ...], value: object) -> str:
    """A setting as in the file, `[server] port = 22133`, or the head of a table, `[server]`."""
    *above, key = (at if re.fullmatch("[a-z_]{1,60}", at) else shown(at) for at in place)
    if isinstance(value, dict):
        return f"[{'.'.join((*above, key))}]"
    return f"{'[' + '.'.join(above) + '] ' if above else ''}{key} = {shown(value)}"


def _why_unknown(section: str, key: str) -> str:
    """Why a section has no such key, with what it has; empty if it has."""
    known = _KNOWN.get(section, [])
    later = _LATER.get("queue_defaults" if section == "queues" else section, "").split()
    if key in known:
        return ""
    allowed = f"allowed are {', '.join(known)}"
    if key in later:
        return f"is not available in this version yet; {allowed}"
    homes = [f"it belongs in [{name}]; " for name, keys in _KNOWN.items() if name and key in keys]
    near = difflib.get_close_matches(key[:60], [*known, *later], 1)
    hints = homes[:1] or [f"the nearest is {each}; " for each in near]
    return f"is not a known key; {''.join(hints)}{allowed}"
