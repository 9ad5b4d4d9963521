"""The commands as slotted classes: the words of the wire and the names in the code.

    on the wire          in the code
    ---------------      ---------------------------------
    open                 opens: leases an item
    close                ending CONFIRM
    abort, defer         ending GIVE_BACK, DEFER
    abort/dead=<why>     ending GIVE_BACK, why: to the dead letters
    lease=<duration>     lease_ms: a lease by token
    token=<n>            token: the lease that is meant; of the command, not of its key
    peek                 peeks
    after=, since=, n=   view: the items to browse, by marker
    full                 full: all that is known about an item
    t=<duration>         wait_ms
    delay=, at=          delay: when it becomes available
    key=<k>[,<k>...]     key: the values of an item's key
    id=, scope=, epoch=  once: deduplication
    expect=<v>, cas      expected: the version of the key
    confirm[=<q>:<n>]    handoff: the item confirmed in the same step
    at_version=<v>       at_version: which item of a key
    from=, since=        begin: where a new child begins
    upto=<marker>        Upto: confirm all items up to there
    declare              declares: settings instead of an item
    q/dead               dead: the dead letters
    get without open     takes: lease and confirm in one step

One rule: a command object is well formed; a malformed request becomes a `Bad` with its reply.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, Protocol

from journal.format import ItemHeader
from kestrelpy.core import Delay
from kestrelpy.operations import parent_of
from kestrelpy.protocol.parse.line_template import Cut
from kestrelpy.protocol.parse.option_values import NO_TOKENS, BrowseView, ChildBegin, Tokens
from kestrelpy.protocol.parse.set_conditions import NOTHING, Once


class Ending(Enum):
    """How a lease of this connection ends."""

    CONFIRM = "close"
    GIVE_BACK = "abort"
    DEFER = "defer"


_new: Final = tuple.__new__  # half the cost of calling a named tuple
_NO_NUMBERS: Final[Mapping[str, int]] = {}
_ENDINGS: Final = tuple((each.value, each) for each in Ending)


class Target:
    """A parsed key. `raw` is echoed as sent. The token in it belongs to the command: see `Fetch`.

    `is_plain` is True for a queue that is no child, without a key or a marker.
    """

    __slots__ = (
        "at_version", "begin", "dead", "delay", "ending", "full", "is_plain", "key", "lease_ms",
        "name", "numbered", "numbers", "once", "opens", "options", "parent", "peeks", "raw", "view",
        "wait_ms", "why",
    )  # fmt: skip

    def __init__(
        self, raw: bytes, name: bytes, options: frozenset[str] = frozenset(),
        numbers: Mapping[str, int] = _NO_NUMBERS, view: BrowseView | None = None,
        tokens: Tokens = NO_TOKENS, delay: Delay | None = None, key: tuple[bytes, ...] = (),
        once: Once = NOTHING, begin: ChildBegin | None = None,
    ) -> None:  # fmt: skip
        self.raw = raw
        self.name = name
        self.parent = parent_of(name)  # of a fan-out child: the queue whose items it reads
        self.once = once
        self.begin = begin
        self.options = options
        self.numbers = numbers  # the values of options that are one number
        self.at_version = numbers.get("at_version", 0)  # 0: the last one
        self.wait_ms = numbers.get("t", 0)
        self.opens = "open" in options
        self.peeks = "peek" in options
        self.dead = "dead" in options and "abort" not in options
        self.lease_ms = tokens.lease_ms
        self.why = tokens.why
        self.full = "full" in options
        self.numbered = False  # True: the reply has the number of the item, as `gets` asks
        self.delay = delay
        self.key = key
        self.view = view
        self.ending: Ending | None = None
        for word, ending in _ENDINGS:
            if word in options:
                self.ending = ending
        self.is_plain = not (self.parent or view or key or begin)

    def sent_as(self, raw: bytes) -> Target:
        """Return the same target for a line that was sent in another form."""
        made = Target(
            raw, self.name, self.options, self.numbers, self.view, NO_TOKENS, self.delay, self.key,
            self.once, self.begin,
        )  # fmt: skip
        made.full, made.lease_ms, made.why = self.full, self.lease_ms, self.why
        made.numbered = self.numbered
        return made

    def number(self, option: str) -> int:
        """Return the value of an option that is one number; 0: the key has no such option."""
        return self.numbers.get(option, 0)

    @property
    def takes(self) -> bool:
        """True for a plain get: hand out and confirm at once."""
        return not (self.opens or self.peeks or self.ending is not None)


class StoreLine:
    """The line of a `set`, `add`, `cas` or `replace`, before its body.

    `expected` is the version that the key must have; None if any will do. `is_plain` is True for a
    set without an id, a hand-off and texts; it may have a key. `is_simple` is True for one with
    nothing but flags and a body: it may be stored together with others. `lifetime_ms` is an expiry
    in milliseconds from now, of a wire that has one: `expiry` is then its seconds (0: none).
    """

    __slots__ = (
        "declares", "expected", "expiry", "flags", "form", "handoff", "header", "is_plain",
        "is_simple", "key", "lifetime_ms", "noreply", "size", "target", "verb",
    )  # fmt: skip

    def __init__(
        self, target: Target, verb: bytes, flags: int, expiry: int, size: int, noreply: bool,
        expected: int | None,
    ) -> None:  # fmt: skip
        self.target = target
        self.verb = verb
        self.flags = flags
        self.expiry = expiry
        self.size = size
        self.noreply = noreply
        self.expected = expected
        self.lifetime_ms = 0
        self.key = target.key
        self.header, _, self.handoff = target.once
        self.declares = "declare" in target.options
        self.is_plain = verb == b"set" and not (self.header or self.handoff)
        self.is_simple = (
            self.is_plain and not (self.key or self.declares or expiry or target.delay)
            and expected is None
        )  # fmt: skip
        self.form: Form | None = None  # of the reply; None: as it is

    def naming(self, varies: Cut) -> StoreLine:
        """Return the same line with another id, key, version or token."""
        made = StoreLine(
            self.target, self.verb, self.flags, self.expiry, self.size, self.noreply, self.expected
        )
        made.declares, made.is_plain, made.is_simple = False, self.is_plain, False
        _, id_, made.key, made.expected, handoff = varies
        if id_ and made.header is not None:
            made.header = _new(ItemHeader, (id_, *made.header[1:]))
        made.handoff = self.handoff if handoff is None else handoff
        return made

    def is_like(self, first: StoreLine, size_max: int) -> bool:
        """True for a simple line of the same queue, flags and noreply, with a body that is not
        larger."""
        return (
            self.is_simple
            and self.size <= size_max
            and self.target.name == first.target.name
            and self.flags == first.flags
            and self.noreply is first.noreply
        )

    @property
    def id(self) -> bytes:
        """The id that it is stored under; b"": none."""
        return self.header.id if self.header is not None else b""

    @property
    def only_if_empty(self) -> bool:
        """True for an `add` without an id and a key: it stores only into an empty queue."""
        return self.verb == b"add" and not self.id and not self.key


class Command:
    """A request. Its class says which verb executes it; what derives from it is compiled too."""

    __slots__ = ("noreply",)

    def __init__(self, noreply: bool = False) -> None:
        self.noreply = noreply


class Store(Command):
    """A line with its body."""

    __slots__ = ("body", "line")

    def __init__(self, line: StoreLine) -> None:
        self.line = line
        self.noreply = line.noreply
        self.body = b""


class Fetch(Command):
    """`get`, `gets`. `token` names the lease that its one key ends; 0: the connection's."""

    __slots__ = ("targets", "token")

    def __init__(self, targets: list[Target], token: int = 0) -> None:
        self.targets = targets
        self.token = token
        self.noreply = False

    def naming(self, token: int, line: bytes) -> Fetch:
        """Return the same request for another lease; `line` is the form that it was sent in."""
        targets = self.targets
        if targets[0].opens:
            targets = [targets[0].sent_as(line.split(None, 2)[1])]
        return Fetch(targets, token)


class Delete(Command):
    """`delete q`, or the confirm of the lease that the token names (0: no token)."""

    __slots__ = ("name", "token")

    def __init__(self, name: bytes, token: int, noreply: bool) -> None:
        self.name = name
        self.token = token
        self.noreply = noreply

    def naming(self, token: int, line: bytes) -> Delete:
        """Return the same request for another lease."""
        return Delete(self.name, token, self.noreply)


class Remove(Command):
    """`delete q/item=<n>`, `delete q/dead/item=<n>`: remove one waiting item or dead letter."""

    __slots__ = ("dead", "item", "name")

    def __init__(self, name: bytes, item: int, dead: bool, noreply: bool) -> None:
        self.name = name
        self.item = item
        self.dead = dead
        self.noreply = noreply


class Upto(Command):
    """`delete q+cursor/upto=<marker>`: confirm all items of that subscription up to there."""

    __slots__ = ("marker", "target")

    def __init__(self, target: Target, marker: int, noreply: bool) -> None:
        self.target = target
        self.marker = marker
        self.noreply = noreply


class Withdraw(Command):
    """`delete q/id=<id>`: remove a waiting item by the id it was stored with."""

    __slots__ = ("id", "name")

    def __init__(self, name: bytes, id_: bytes, noreply: bool) -> None:
        self.name = name
        self.id = id_
        self.noreply = noreply


class Touch(Command):
    """`touch q <seconds>`: renew the lease that a token names (0: the connection's)."""

    __slots__ = ("name", "seconds", "token")

    def __init__(self, name: bytes, token: int, seconds: int, noreply: bool) -> None:
        self.name = name
        self.token = token
        self.seconds = seconds
        self.noreply = noreply

    def naming(self, token: int, line: bytes) -> Touch:
        """Return the same request for another lease."""
        return Touch(self.name, token, self.seconds, self.noreply)


class Plain(Command):
    """Every other verb, with its words."""

    __slots__ = ("verb", "words")

    def __init__(self, verb: bytes, words: list[bytes], noreply: bool = False) -> None:
        self.verb = verb
        self.words = words
        self.noreply = noreply


class Monitor(Command):
    """`monitor q <seconds> [max]`: open items one after the other; `most` 0: as many as allowed."""

    __slots__ = ("most", "name", "wait_ms")

    def __init__(self, name: bytes, wait_ms: int, most: int) -> None:
        self.name = name
        self.wait_ms = wait_ms
        self.most = most
        self.noreply = False


class Confirm(Command):
    """`confirm q <n>`: confirm the oldest open items of this connection."""

    __slots__ = ("count", "name")

    def __init__(self, name: bytes, count: int, noreply: bool) -> None:
        self.name = name
        self.count = count
        self.noreply = noreply


class Form(Protocol):
    """The form in which a request wants its reply."""

    unix_ms: int  # the time of the answer, for what counts from it

    def reply(self, data: bytes) -> bytes:
        """Return the reply in this form; errors stay as they are."""


class Formed(Command):
    """A request of another verb, and the form of its reply."""

    __slots__ = ("command", "form")

    def __init__(self, command: Command, form: Form) -> None:
        self.command = command
        self.form = form
        self.noreply = False


class Mail(Command):
    """`mail <slice> <bytes>`, and a message of one slice to another: routers alone say it."""

    __slots__ = ("body", "number", "size")

    def __init__(self, number: int, size: int) -> None:
        super().__init__(False)
        self.number = number
        self.size = size
        self.body = b""


class Bad(Command):
    """A request that cannot be executed: its reply, and whether the connection must end.

    `unknown` is an option that does not exist: the reply may name the nearest one.
    """

    __slots__ = ("closes", "line", "log", "unknown")

    def __init__(
        self, line: bytes, closes: bool = False, noreply: bool = False, log: str = "",
        unknown: str = "",
    ) -> None:  # fmt: skip
        self.line = line
        self.closes = closes
        self.noreply = noreply
        self.log = log
        self.unknown = unknown
