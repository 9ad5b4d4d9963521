"""The settings: what each value may be, the frozen models, and what is in force for a queue.

A key in the file has the spec's name (`lease`), the attribute says its unit (`lease_ms`).

One rule: a value that got in here is allowed; a refusal says all that would have been.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeVar

import pydantic
from pydantic import Field, PlainValidator

from kestrelpy import durations
from kestrelpy.config.keying import FIELDS_FORM, read_fields, why_contradictory
from kestrelpy.config.mistakes import as_written
from kestrelpy.config.schedules import ScheduleBlock
from kestrelpy.durations import format_size_bytes, parse_duration_ms, parse_size_bytes

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30  # no segment is over a GiB, so no item or batch is
_TIMES_MAX: Final = 1000
_MAX_NUMBER: Final = 2**53 - 1  # the bound of all our numbers, on the wire too


class Words(str):
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
    number = int(value) if isinstance(value, Words) else value
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError
    return number


def _read_truth(value: object) -> bool:
    truth = {"true": True, "false": False}[value] if isinstance(value, Words) else value
    if not isinstance(truth, bool):
        raise TypeError
    return truth


def _read_path(value: str | Path) -> Path:
    if not str(value) or "\0" in str(value):
        raise ValueError
    return Path(value)


def _read_fields(value: object) -> tuple[str, ...]:
    if isinstance(value, str) and not isinstance(value, Words):
        raise TypeError
    return read_fields(value)


def _read_host(value: str) -> str:
    if not re.fullmatch("[!-~]+", value):
        raise ValueError
    return str(value)


def _read_time(value: str) -> int:
    return _within(1, durations.MAX_DURATION_MS, parse_duration_ms(value))


def _read_time_or_zero(value: str) -> int:
    return _within(0, durations.MAX_DURATION_MS, parse_duration_ms(value))


def _read_times(value: object) -> float:
    number = float(value) if isinstance(value, Words) else value
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise TypeError
    if not 1 <= number <= _TIMES_MAX:
        raise ValueError
    return number


def _read_sync(value: str) -> str | int:
    return str(value) if value in ("always", "never") else _read_time(value)


def _read_queue(value: str) -> str:
    if not re.fullmatch("[!-*,-.0-~]{1,128}", value):
        raise ValueError
    return str(value)


def _number(low: int, high: int = _MAX_NUMBER, *, none: bool = False) -> PlainValidator:
    allowed = f"a whole number from {low} to {high}"
    return _kind(allowed, lambda value: _within(low, high, _read_number(value)), none=none)


def _size(low: int = 1, high: int = _MAX_NUMBER, *, none: bool = False) -> PlainValidator:
    bounds = f"from {format_size_bytes(low)} to {format_size_bytes(high)}"
    allowed = f"a size {bounds}: {durations.SIZE_FORM}"
    return _kind(allowed, lambda value: _within(low, high, parse_size_bytes(value)), none=none)


_TIME: Final = f"a duration from 1ms to 36500d: {durations.DURATION_FORM}"
_TIME_OR_ZERO: Final = f"a duration from 0ms to 36500d: {durations.DURATION_FORM}"
_CONFIRMS_SYNCED: Final = {"written": False, "synced": True}
_KEY_FORMATS: Final = {name: name for name in ("json", "msgpack")}
_KEY_MATCHES_ANY: Final = {"pair": False, "any": True}
_KEY_IS_FREE: Final = {"reject": False, "free": True}

Sync = Literal["always", "never"] | int  # or the most milliseconds between two syncs
Count = Annotated[int, _number(1)]
CountOrNone = Annotated[int | None, _number(1, none=True)]
Bytes = Annotated[int, _size()]
BytesOrZero = Annotated[int, _size(0)]
BytesOrNone = Annotated[int | None, _size(none=True)]
ItemBytes = Annotated[int, _size(1, _GIB)]
SegmentBytes = Annotated[int, _size(16 * _KIB, _GIB)]
BatchBytes = Annotated[int, _size(4 * _KIB, _GIB)]
MsOrNone = Annotated[int | None, _kind(_TIME, _read_time, none=True)]
Ms = Annotated[int, _kind(_TIME, _read_time)]
MsOrZero = Annotated[int, _kind(_TIME_OR_ZERO, _read_time_or_zero)]
Times = Annotated[float, _kind(f"a number from 1 to {_TIMES_MAX}, decimals allowed", _read_times)]
SyncWord = Annotated[Sync, _kind(f'"always", "never" or {_TIME}', _read_sync)]
Confirms = Annotated[bool, _kind('"written" or "synced"', _CONFIRMS_SYNCED.__getitem__)]
KeyFormat = Annotated[
    str | None, _kind('"json", "msgpack"', _KEY_FORMATS.__getitem__, none=True)
]
KeyFields = Annotated[tuple[str, ...] | None, _kind(FIELDS_FORM, _read_fields, none=True)]
KeyMatch = Annotated[bool, _kind('"pair" or "any"', _KEY_MATCHES_ANY.__getitem__)]
KeyMissing = Annotated[bool, _kind('"reject" or "free"', _KEY_IS_FREE.__getitem__)]
Truth = Annotated[bool, _kind("true or false", _read_truth)]
QueueOrNone = Annotated[
    str | None,
    _kind("a queue's name (1 to 128 printable ASCII characters, no blank, / or +)", _read_queue,
          none=True),
]  # fmt: skip
PathOrNone = Annotated[Path | None, _kind("a path", _read_path, none=True)]


Place = tuple[str, ...]  # where a value stands: (section, key) or ("queues", name, key)


class _Section(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")


_AnySection = TypeVar("_AnySection", bound=_Section)


class ServerConfig(_Section):
    """`[server]`: the process, its listeners and what one connection may do."""

    host: Annotated[str, _kind("a host name or an address", _read_host)] = "127.0.0.1"
    port: Annotated[int, _number(0, 65535)] = 22133
    socket: PathOrNone = None
    data_dir: Annotated[Path, _kind("a path", _read_path)] = Path("data")
    max_connections: Count = 10_000
    max_queues: Count = 10_000
    # Four busy queues at the most they keep; a machine with 1 GiB has as much again left over.
    max_memory_bytes: Bytes = Field(default=256 * _MIB, alias="max_memory")
    # Room for the confirms is reserved apart from this: how much others need, only they know.
    min_disk_free_bytes: BytesOrZero = Field(default=0, alias="min_disk_free")
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
    max_memory_bytes: int = 64 * _MIB
    discard_old_when_full: bool = False
    max_age_ms: int | None = None
    max_queue_age_ms: int | None = None
    sync: Sync = "always"
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
    archive_to: Path | None = None


_DEFAULTS: Final = QueueSettings()


class QueueBlock(_Section):
    """`[queue_defaults]` or one `[queues."name"]`: of the latter only what was set counts."""

    lease_ms: MsOrNone = Field(default=_DEFAULTS.lease_ms, alias="lease")
    max_items: CountOrNone = _DEFAULTS.max_items
    max_bytes: BytesOrNone = _DEFAULTS.max_bytes
    max_item_bytes: ItemBytes = Field(default=_DEFAULTS.max_item_bytes, alias="max_item_size")
    max_memory_bytes: Bytes = Field(default=_DEFAULTS.max_memory_bytes, alias="max_memory")
    discard_old_when_full: Truth = _DEFAULTS.discard_old_when_full
    max_age_ms: MsOrNone = Field(default=_DEFAULTS.max_age_ms, alias="max_age")
    max_queue_age_ms: MsOrNone = Field(default=_DEFAULTS.max_queue_age_ms, alias="max_queue_age")
    sync: SyncWord = _DEFAULTS.sync
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
    archive_to: PathOrNone = _DEFAULTS.archive_to

    def over(self, base: QueueSettings) -> QueueSettings:
        """`base` with what was set in this block laid over it."""
        return replace(base, **{name: getattr(self, name) for name in self.model_fields_set})

    def refuse_contradictions(self, settings: QueueSettings, where: str) -> None:
        """ValueError if this block, `where`, does not go with the `settings` in force."""
        self._refuse_disk(settings, where)
        names = {"key_is_free": "key_missing"}
        asked = {names.get(name, name) for name in self.model_fields_set}
        if why := why_contradictory(asked, settings):
            raise ValueError(f"{where} {why}")

    def _refuse_disk(self, settings: QueueSettings, where: str) -> None:
        """ValueError if this block, `where`, asks something of a disk that `settings` lack."""
        disk = {"sync": "sync", "confirms_synced": "confirms", "archive_to": "archive_to"}
        asked = " and ".join(disk[name] for name in disk if name in self.model_fields_set)
        if asked and not settings.durable:
            why = "a queue in memory has nothing on disk, leave one out"
            raise ValueError(f"{where} {asked} cannot be set beside durable = false: {why}")


class Config(_Section):
    """All of kestrelpy.toml, checked."""

    server: ServerConfig = ServerConfig()
    journal: JournalConfig = JournalConfig()
    queue_defaults: QueueBlock = QueueBlock()
    queues: dict[str, QueueBlock] = {}
    schedules: dict[str, ScheduleBlock] = {}
    _default: QueueSettings = pydantic.PrivateAttr(_DEFAULTS)
    _named: dict[bytes, QueueSettings] = pydantic.PrivateAttr(default_factory=dict)

    @pydantic.model_validator(mode="after")
    def _checked(self) -> Self:
        self._put_in_force()._refuse_large_bodies()
        return self

    def _put_in_force(self) -> Self:
        self._default = self.queue_defaults.over(_DEFAULTS)
        self.queue_defaults.refuse_contradictions(self._default, "[queue_defaults]")
        self._named = {}
        for name, block in self.queues.items():
            settings = self._named[name.encode()] = block.over(self._default)
            block.refuse_contradictions(settings, as_written(("queues", name), {}))
        return self

    def _refuse_large_bodies(self) -> None:
        """ValueError if a schedule's queue would refuse every one of its items."""
        for name, schedule in self.schedules.items():
            size = len(schedule.body_bytes)
            most = self.queue(schedule.queue.encode()).max_item_bytes
            if size > most:
                raise ValueError(
                    f"{as_written(('schedules', name), {})} has a body of {size} bytes, and "
                    f"max_item_size of queue {schedule.queue} is {format_size_bytes(most)}"
                )

    def with_paths(self, absolute: Callable[[Place, Path], Path]) -> Self:
        """The same with every path replaced by what `absolute` makes of its place and itself."""

        def moved(model: _AnySection, above: Place, *names: str) -> _AnySection:
            paths = {name: path for name in names if (path := getattr(model, name)) is not None}
            return model.model_copy(
                update={name: absolute((*above, name), path) for name, path in paths.items()}
            )

        sections: dict[str, object] = {
            "server": moved(self.server, ("server",), "data_dir", "socket"),
            "queue_defaults": moved(self.queue_defaults, ("queue_defaults",), "archive_to"),
            "queues": {
                name: moved(block, ("queues", name), "archive_to")
                for name, block in self.queues.items()
            },
        }
        return self.model_copy(update=sections)._put_in_force()

    def archives(self) -> dict[Place, Path]:
        """Every directory that segments are archived to, by the place it is set."""
        blocks: dict[Place, QueueBlock] = {("queue_defaults",): self.queue_defaults}
        blocks |= {("queues", name): block for name, block in self.queues.items()}
        return {
            (*place, "archive_to"): block.archive_to
            for place, block in blocks.items()
            if block.archive_to is not None
        }

    def queue(self, name: bytes, declared: QueueBlock | None = None) -> QueueSettings:
        """The settings in force for a queue, one by one.

        The defaults, over them what a client declared, over that the queue's own block.
        """
        if declared is None:
            return self._named.get(name, self._default)
        block = self.block(name)
        settings = declared.over(self._default)
        return settings if block is None else block.over(settings)

    def block(self, name: bytes) -> QueueBlock | None:
        """`[queues."name"]`, if the file has it."""
        return self.queues.get(name.decode("utf-8", "replace"))


def _keys(model: type[pydantic.BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


KNOWN: Final = {
    "": _keys(Config),
    "server": _keys(ServerConfig),
    "journal": _keys(JournalConfig),
    "queue_defaults": _keys(QueueBlock),
    "queues": _keys(QueueBlock),
    "schedules": _keys(ScheduleBlock),
}
# Words of the spec that this version does not act on yet: better refused than silently ignored.
LATER: Final = {
    "": "aliases",
    "server": "http_host http_port text_port",
    "queue_defaults": "dedupe_window scope_window retain fanout_only fanout_create",
}
