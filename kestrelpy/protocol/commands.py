"""The commands as slotted classes: where the wire's words end and the house's begin.

    on the wire          in the house
    ---------------      ---------------------------------
    open                 lends: a lease
    close                ending CONFIRM
    abort, defer         ending GIVE_BACK, DEFER
    abort/dead=<why>     ending GIVE_BACK, why: buried
    lease=<duration>     lease_ms: lent by token
    token=<n>            token: the lease that is meant
    peek                 peeks
    after=, since=, n=   view: what an observer sees, by marker
    full                 full: all that is known about an item
    t=<duration>         wait_ms
    delay=, at=          delay: when it becomes available
    declare              declares: settings instead of an item
    q/dead               dead: the dead line
    get without open     take: lend and confirm in one step

One rule: a command that exists is well formed; what is not became a `Bad` with its answer.
"""

from __future__ import annotations

import difflib
from enum import Enum
from typing import Final
from urllib.parse import unquote_to_bytes

from kestrelpy.core.delays import Delay
from kestrelpy.durations import parse_duration_ms
from kestrelpy.errors import ClientError
from kestrelpy.protocol import delays
from kestrelpy.protocol.delays import parse_delay, refuse_delay
from kestrelpy.protocol.markers import View, parse_number, parse_view
from kestrelpy.protocol.tokens import NO_TOKENS, Tokens, parse_tokens

KEY_BYTES_MAX: Final = 250
STORING: Final = "set"  # or another verb that stores
_new: Final = object.__new__
NAME_BYTES_MAX: Final = 128

# Words of the contract whose time has not come; naming them is kinder than "unknown".
_LATER: Final = frozenset({
    "key", "id", "scope", "epoch", "expect", "confirm",
    "at_version", "upto", "from",
})  # fmt: skip
_FLAGS: Final = frozenset({"open", "close", "abort", "defer", "peek", "dead", "full", "declare"})
_VIEWS: Final = frozenset({"after", "since", "n"})
_KNOWN: Final = sorted(_FLAGS | _VIEWS | delays.WORDS | {"t", "lease", "token"})


class Ending(Enum):
    """How a lease of this connection ends."""

    CONFIRM = "close"
    GIVE_BACK = "abort"
    DEFER = "defer"


class Target:
    """A parsed key. `raw` is echoed as sent."""

    __slots__ = (
        "dead", "delay", "ending", "full", "lease_ms", "lends", "name", "options", "peeks", "raw",
        "token", "view", "wait_ms", "why",
    )  # fmt: skip

    def __init__(
        self, raw: bytes, name: bytes, options: frozenset[str], wait_ms: int,
        view: View | None = None, tokens: Tokens = NO_TOKENS, delay: Delay | None = None,
    ) -> None:  # fmt: skip
        self.raw = raw
        self.name = name
        self.options = options
        self.lends = "open" in options
        self.peeks = "peek" in options
        self.dead = "dead" in options and "abort" not in options
        self.lease_ms = tokens.lease_ms
        self.token = tokens.token
        self.why = tokens.why
        self.full = "full" in options
        self.delay = delay
        self.view = view
        self.wait_ms = wait_ms
        self.ending: Ending | None = None
        for ending in Ending:
            if ending.value in options:
                self.ending = ending

    def naming(self, raw: bytes, token: int) -> Target:
        """The same, of another lease."""
        made = _new(Target)
        made.raw, made.name, made.options, made.token = raw, self.name, self.options, token
        made.lends, made.peeks, made.dead, made.full = self.lends, self.peeks, self.dead, self.full
        made.lease_ms, made.why, made.view = self.lease_ms, self.why, self.view
        made.wait_ms, made.ending, made.delay = self.wait_ms, self.ending, self.delay
        return made

    @property
    def takes(self) -> bool:
        """A plain get: hand out and confirm at once."""
        return not (self.lends or self.peeks or self.ending is not None)


class StoreLine:
    """The line of a `set` (or `add`: only into an empty queue), before its body."""

    __slots__ = ("declares", "expiry", "flags", "only_if_empty", "quiet", "size", "target")

    def __init__(
        self,
        target: Target,
        flags: int,
        expiry: int,
        size: int,
        quiet: bool,
        only_if_empty: bool,
    ) -> None:
        self.target = target
        self.flags = flags
        self.expiry = expiry
        self.size = size
        self.quiet = quiet
        self.only_if_empty = only_if_empty
        self.declares = "declare" in target.options


class Store:
    """A line with its body."""

    __slots__ = ("body", "line", "quiet")

    def __init__(self, line: StoreLine) -> None:
        self.line = line
        self.quiet = line.quiet
        self.body = b""


class Fetch:
    """`get`, `gets`."""

    __slots__ = ("numbered", "quiet", "targets")

    def __init__(self, targets: list[Target], numbered: bool) -> None:
        self.targets = targets
        self.numbered = numbered
        self.quiet = False

    def naming(self, raw: bytes, token: int) -> Fetch:
        """The same, of another lease."""
        return Fetch([self.targets[0].naming(raw, token)], self.numbered)


class Delete:
    """`delete q`, or what a token names."""

    __slots__ = ("quiet", "target")

    def __init__(self, target: Target, quiet: bool) -> None:
        self.target = target
        self.quiet = quiet

    def naming(self, raw: bytes, token: int) -> Delete:
        """The same, of another lease."""
        return Delete(self.target.naming(raw, token), self.quiet)


class Remove:
    """`delete q/item=<n>`, `delete q/dead/item=<n>`: one item, that waits or is dead."""

    __slots__ = ("dead", "item", "name", "quiet")

    def __init__(self, name: bytes, item: int, dead: bool, quiet: bool) -> None:
        self.name = name
        self.item = item
        self.dead = dead
        self.quiet = quiet


class Touch:
    """`touch q <seconds>`: renew this connection's lease, or what a token names."""

    __slots__ = ("quiet", "seconds", "target")

    def __init__(self, target: Target, seconds: int, quiet: bool) -> None:
        self.target = target
        self.seconds = seconds
        self.quiet = quiet

    def naming(self, raw: bytes, token: int) -> Touch:
        """The same, of another lease."""
        return Touch(self.target.naming(raw, token), self.seconds, self.quiet)


class Plain:
    """Every other verb, with its words."""

    __slots__ = ("quiet", "verb", "words")

    def __init__(self, verb: bytes, words: list[bytes], quiet: bool = False) -> None:
        self.verb = verb
        self.words = words
        self.quiet = quiet


class Bad:
    """A request that cannot be carried out: its answer, and whether the connection must end."""

    __slots__ = ("closes", "line", "log", "quiet")

    def __init__(
        self, line: bytes, closes: bool = False, quiet: bool = False, log: str = ""
    ) -> None:
        self.line = line
        self.closes = closes
        self.quiet = quiet
        self.log = log


Command = Store | Fetch | Delete | Remove | Touch | Plain | Bad


def parse_target(raw: bytes, verb: str = "get") -> Target:
    """A key, `<queue>[/<option>...]`; raises ClientError that names what is wrong and allowed."""
    if len(raw) > KEY_BYTES_MAX:
        raise ClientError(f"key too long ({len(raw)} bytes, limit {KEY_BYTES_MAX})")
    name, _, rest = raw.partition(b"/")
    check_name(name)
    if not rest:
        return Target(raw, name, frozenset(), 0)
    values: dict[str, str | None] = {}
    for part in rest.split(b"/"):
        if not part:
            continue
        word, value = _split_option(part)
        if word in values:
            raise ClientError(f"option {word} is given twice")
        values[word] = value
    wait_ms = _wait(values["t"]) if "t" in values else 0
    options = frozenset(values)
    view = parse_view(values) if options & _VIEWS else None
    _refuse_contradiction(options)
    delay = parse_delay(values) if options & delays.WORDS else None
    if delay is not None and verb != STORING:
        refuse_delay(min(options & delays.WORDS), options)
    tokens = parse_tokens(values, "get" if verb == STORING else verb)
    return Target(raw, name, options, wait_ms, view, tokens, delay)


def parse_lease(raw: bytes, verb: str) -> Target:
    """The key of a `delete` or `touch`: a queue, or one of its leases; raises ClientError."""
    target = parse_target(raw, verb)
    others = target.options - {"token"}
    if others:
        raise ClientError(f"option {min(others)} does not go with {verb}")
    return target


def parse_removal(raw: bytes, quiet: bool) -> Remove | None:
    """A key with `item=`, as delete takes it; None: it names no item. Raises ClientError."""
    parts = raw.split(b"/")
    named = [part for part in parts[1:] if part.partition(b"=")[0] == b"item"]
    if not named:
        return None
    if len(named) > 1:
        raise ClientError("option item is given twice")
    target = parse_target(b"/".join(part for part in parts if part is not named[0]))
    odd = target.options - {"dead"}
    if odd:
        raise ClientError(f"option {min(odd)} does not go with delete and item")
    _, equals, number = named[0].partition(b"=")
    item = parse_number("item", readable(number) if equals else None)
    return Remove(target.name, item, target.dead, quiet)


def check_name(name: bytes) -> None:
    """Raises ClientError unless `name` may name a queue."""
    if not name:
        raise ClientError("queue name missing")
    if len(name) > NAME_BYTES_MAX:
        raise ClientError(f"queue name too long ({len(name)} bytes, limit {NAME_BYTES_MAX})")
    if not name.isascii() or any(not 0x21 <= byte <= 0x7E for byte in name):
        raise ClientError("bad queue name: printable ASCII without blanks is allowed")
    if b"+" in name:
        raise ClientError(
            "bad queue name: + names a fan-out child, which this version does not have yet"
        )


def readable(word: bytes) -> str:
    """A client's word as it may stand in an answer or a log: printable ASCII."""
    return repr(word)[2:-1]


def refuse_later(word: str) -> None:
    """Raises ClientError for an option of the contract that this version does not have here."""
    if word == "item":
        raise ClientError("option item goes with delete and stats, for instance stats q/item=7")
    if word in _LATER:
        raise ClientError(f"option {word} is not available in this version yet")


def _split_option(part: bytes) -> tuple[str, str | None]:
    word_bytes, equals, value_bytes = part.partition(b"=")
    word = readable(word_bytes)
    value = unquote_to_bytes(value_bytes).decode("utf-8", "backslashreplace") if equals else None
    refuse_later(word)
    if word not in _KNOWN:
        near = difflib.get_close_matches(word.lower(), _KNOWN, n=1, cutoff=0.5)
        hint = f", did you mean {near[0]}?" if near else f", known are {' '.join(_KNOWN)}"
        raise ClientError(f"unknown option {word}{hint}")
    if word in _FLAGS and value is not None and word != "dead":
        raise ClientError(f"option {word} takes no value")
    return word, value


def _wait(value: str | None) -> int:
    if value is None:
        raise ClientError("option t needs a duration, for instance t=5s or t=5000")
    try:
        return parse_duration_ms(value, bare_ms=True)
    except ValueError as error:
        raise ClientError(f"option t: {error}") from None


def _refuse_contradiction(options: frozenset[str]) -> None:
    if "declare" in options and len(options) > 1:
        other = min(options - {"declare"})
        raise ClientError(f"declare and {other} contradict each other: declare goes alone")
    endings = sorted(options & {"close", "abort", "defer"})
    if len(endings) > 1:
        raise ClientError(f"{endings[0]} and {endings[1]} contradict each other")
    if "peek" in options and (endings or "open" in options):
        other = endings[0] if endings else "open"
        raise ClientError(f"peek and {other} contradict each other")
    if "open" in options and endings and endings[0] != "close":
        raise ClientError(f"{endings[0]} and open contradict each other")
    if "full" in options and not options & {"peek", "open"}:
        raise ClientError("option full goes with peek and open")
    views = sorted(options & _VIEWS)
    if views and "peek" not in options:
        raise ClientError(f"option {views[0]} goes with peek, for instance q/peek/after=0")
    if views and "dead" in options:
        raise ClientError(f"dead and {views[0]} contradict each other: it shows the dead anyway")
    if "dead" in options and "defer" in options:
        raise ClientError("option dead does not go with defer in this version yet")
