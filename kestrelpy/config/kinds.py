"""The kinds of values: how each is read, and the allowed values in a refusal.

One rule: a value that passes here is allowed; a refusal lists all that would have been.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import PlainValidator

from journal.engine import is_address, why_no_address
from kestrelpy import durations
from kestrelpy.config.keying import FIELDS_FORM, read_fields
from kestrelpy.config.retaining import RETAIN_FORM, Retain, read_retain
from kestrelpy.durations import (
    format_duration_ms,
    format_size_bytes,
    parse_duration_ms,
    parse_size_bytes,
)
from kestrelpy.placement import SLICES_MAX

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30  # no segment is over a GiB, so no item or batch is
_TIMES_MAX: Final = 1000
_TAKEOVER_MS: Final = (200, 3_600_000)
_PROJECT_LENGTH_MAX: Final = 256
_MAX_NUMBER: Final = 2**53 - 1  # the bound of all our numbers, on the wire as well


class Words(str):
    """Text from the environment or a command line, where numbers and booleans are words."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Reader:
    """Read a value of a kind. A refusal names all `allowed` values; `brief` is shorter: it leaves
    out a form that all values of a unit have, and bounds that no real value reaches."""

    read: Callable[[Any], Any]
    allowed: str
    brief: str
    none: bool

    def __call__(self, value: object) -> object:
        """Return the value as the settings have it; raise ValueError."""
        try:
            return None if self.none and value == "none" else self.read(value)
        except (LookupError, TypeError, ValueError):
            raise ValueError(f"must be {self.allowed}") from None


def kind(
    allowed: str, read: Callable[[Any], Any], *, none: bool = False, brief: str = ""
) -> PlainValidator:
    """Return a kind of value: what `read` takes, and "none" if asked. `brief`, or else `allowed`,
    is what kestrelpy.toml says of it."""
    more = ', or "none"' if none else ""
    return PlainValidator(Reader(read, allowed + more, (brief or allowed) + more, none))


class NoneWord(NamedTuple):
    """The word of a kind for None, where it is not "none"."""

    none: str


class TwoWords(NamedTuple):
    """The words of a kind for false and for true."""

    false: str
    true: str


def _either(words: TwoWords) -> PlainValidator:
    truths = {words.false: False, words.true: True}
    return kind(f'"{words.false}" or "{words.true}"', truths.__getitem__)


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


def _read_data_dir(value: str | Path) -> Path:
    if is_address(str(value)):
        raise ValueError
    return _read_path(value)


def _read_fields(value: object) -> tuple[str, ...]:
    if isinstance(value, str) and not isinstance(value, Words):
        raise TypeError
    return read_fields(value)


def _read_groups(value: object) -> tuple[str, ...]:
    found = _read_hosts(value)
    if not all(re.fullmatch("[!-*,-.0-~]{1,128}", each) for each in found):  # no + and no /
        raise ValueError
    return found


def _read_host(value: str) -> str:
    if not re.fullmatch("[!-~]+", value):
        raise ValueError
    return str(value)


def _read_engine(value: str) -> str:
    if not isinstance(value, str) or why_no_address(value):
        raise TypeError
    return str(value)


def _read_url(value: str) -> str:
    if not re.fullmatch(r"https?://[!-~]+", value):
        raise ValueError
    return str(value)


def _read_member(value: str) -> str:
    if not re.fullmatch("[!-~]{1,128}", value):
        raise ValueError
    return str(value)


def _read_hosts(value: object) -> tuple[str, ...]:
    if isinstance(value, Words):
        return tuple(map(_read_host, value.split()))
    if not isinstance(value, list | tuple):
        raise TypeError
    return tuple(map(_read_host, value))


def _read_project(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    if not value or len(value) > _PROJECT_LENGTH_MAX or not value.isprintable():
        raise ValueError
    return str(value)


def _read_time(value: str) -> int:
    return _within(1, durations.MAX_DURATION_MS, parse_duration_ms(value))


def _read_takeover(value: str) -> int:
    return _within(*_TAKEOVER_MS, parse_duration_ms(value))


def _read_time_or_zero(value: str) -> int:
    return _within(0, durations.MAX_DURATION_MS, parse_duration_ms(value))


def _read_time_or_forever(value: str) -> int | None:
    return None if value == _FOREVER.none else _read_time(value)


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
    if not re.fullmatch(r"(?!\.{1,2}\Z)[!-*,-.0-~]{1,128}", value):
        raise ValueError
    return str(value)


def _read_port_or_off(value: object) -> int | None:
    return None if value == _OFF.none else _within(0, 65535, _read_number(value))


def _number(low: int, high: int = _MAX_NUMBER, *, none: bool = False) -> PlainValidator:
    allowed = f"a whole number from {low} to {high}"
    brief = f"a whole number from {low}" if high == _MAX_NUMBER else allowed
    return kind(
        allowed, lambda value: _within(low, high, _read_number(value)), none=none, brief=brief
    )


def _size(low: int = 1, high: int = _MAX_NUMBER, *, none: bool = False) -> PlainValidator:
    bounds = f" from {format_size_bytes(low)} to {format_size_bytes(high)}"
    return kind(
        f"a size{bounds}: {durations.SIZE_FORM}",
        lambda value: _within(low, high, parse_size_bytes(value)),
        none=none, brief="a size" if high == _MAX_NUMBER else f"a size{bounds}",
    )  # fmt: skip


def _time(low_ms: int = 1, high_ms: int = durations.MAX_DURATION_MS) -> str:
    bounds = f"{format_duration_ms(low_ms)} to {format_duration_ms(high_ms)}"
    return f"a duration from {bounds}: {durations.DURATION_FORM}"


_DURATION: Final = "a duration"
_TIME: Final = _time()
_FOREVER: Final = NoneWord("forever")
_OFF: Final = NoneWord("off")
_SYNC: Final = '"always", "never"'
_CONFIRMS: Final = TwoWords("written", "synced")
_KEY_FORMATS: Final = {name: name for name in ("json", "msgpack")}
_KEY_MATCH: Final = TwoWords("pair", "any")
_KEY_MISSING: Final = TwoWords("reject", "free")
_DEDUPE: Final = TwoWords("id", "same body")

Sync = Literal["always", "never"] | int  # or the largest number of milliseconds between two syncs
Count = Annotated[int, _number(1)]
CountOrNone = Annotated[int | None, _number(1, none=True)]
Bytes = Annotated[int, _size()]
BytesOrZero = Annotated[int, _size(0)]
BytesOrNone = Annotated[int | None, _size(none=True)]
ItemBytes = Annotated[int, _size(1, GIB)]
SegmentBytes = Annotated[int, _size(16 * KIB, GIB)]
BatchBytes = Annotated[int, _size(4 * KIB, GIB)]
MsOrNone = Annotated[int | None, kind(_TIME, _read_time, none=True, brief=_DURATION)]
Ms = Annotated[int, kind(_TIME, _read_time, brief=_DURATION)]
TakeoverMs = Annotated[
    int,
    kind(_time(*_TAKEOVER_MS), _read_takeover, brief="a duration from 200ms to 1h"),
]
MsOrZero = Annotated[int, kind(_time(0), _read_time_or_zero, brief=_DURATION)]
Times = Annotated[float, kind(f"a number from 1 to {_TIMES_MAX}, decimals allowed", _read_times)]
SyncWord = Annotated[Sync, kind(f'{_SYNC} or {_TIME}', _read_sync, brief=f"{_SYNC} or {_DURATION}")]
Confirms = Annotated[bool, _either(_CONFIRMS), _CONFIRMS]
KeyFormat = Annotated[
    str | None, kind('"json", "msgpack"', _KEY_FORMATS.__getitem__, none=True)
]
KeyFields = Annotated[
    tuple[str, ...] | None,
    kind(FIELDS_FORM, _read_fields, none=True, brief="a list of fields"),
]
KeyMatch = Annotated[bool, _either(_KEY_MATCH), _KEY_MATCH]
KeyMissing = Annotated[bool, _either(_KEY_MISSING), _KEY_MISSING]
Dedupe = Annotated[bool, _either(_DEDUPE), _DEDUPE]
Truth = Annotated[bool, kind("true or false", _read_truth)]
QueueOrNone = Annotated[
    str | None,
    kind("a queue's name (1 to 128 printable ASCII characters, no blank, / or +)", _read_queue,
          none=True, brief="a queue"),
]  # fmt: skip
PathOrNone = Annotated[Path | None, kind("a path", _read_path, none=True)]
DataDir = Annotated[
    Path, kind("a path; an engine is named by [fleet] engine", _read_data_dir, brief="a path")
]
HostNames = Annotated[
    tuple[str, ...], kind('a list of host names, for instance ["queue.example"]', _read_hosts)
]
Slices = Annotated[int, _number(1, SLICES_MAX)]
SliceOrNone = Annotated[int | None, _number(1, SLICES_MAX, none=True)]
Groups = Annotated[
    tuple[str, ...],
    kind('a list of patterns of queue names, for instance ["shop.*"]', _read_groups),
]
ProjectOrNone = Annotated[
    str | None,
    kind(f"a project of 1 to {_PROJECT_LENGTH_MAX} characters", _read_project, none=True),
]
EngineOrNone = Annotated[
    str | None,
    kind(
        'an address of PostgreSQL, "postgresql://user@host/database", a password in it '
        'percent-encoded, or of an object store, "s3://bucket/prefix"', _read_engine, none=True,
        brief="an address of PostgreSQL or of an object store",
    ),
]
MemberOrNone = Annotated[
    str | None,
    kind("a name of 1 to 128 printable ASCII characters, no blank", _read_member, none=True,
         brief="a name"),
]
UrlOrNone = Annotated[
    str | None, kind('an address like "http://db1:8008"', _read_url, none=True)
]
HostName = Annotated[str, kind("a host name or an address", _read_host)]
PortOrOff = Annotated[
    int | None, kind(f'a whole number from 0 to 65535, or "{_OFF.none}"', _read_port_or_off), _OFF
]
MsOrForever = Annotated[
    int | None,
    kind(f'{_TIME}, or "{_FOREVER.none}"', _read_time_or_forever,
         brief=f'{_DURATION}, or "{_FOREVER.none}"'),
    _FOREVER,
]  # fmt: skip
Retaining = Annotated[
    Retain,
    kind(RETAIN_FORM, read_retain, brief='a duration, a size, "forever", or "none"'),
]
