"""Requests of clients, and the replies to them, read in order.

One rule: the request says how its reply is read; bytes that no request explains are a violation.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.books import Thing
    from tests.simulation.handing import Hand
    from tests.simulation.shelf import Pass

LINES = {
    "set": (b"STORED", b"NOT_STORED"),
    "add": (b"STORED", b"NOT_STORED"),
    "cas": (b"STORED", b"NOT_STORED", b"EXISTS", b"NOT_FOUND"),
    "replace": (b"STORED", b"NOT_STORED"),
    "delete": (b"DELETED", b"NOT_FOUND"),
    "touch": (b"TOUCHED", b"NOT_FOUND"),
    "flush": (b"END",),
    "get": (b"END",),
    "gets": (b"END",),
    "stats": (b"END",),
    "pause": (b"OK", b"NOT_FOUND"),
    "resume": (b"OK", b"NOT_FOUND"),
    "move": (b"NOT_FOUND",),
    "redrive": (b"NOT_FOUND",),
}
_VALUE = re.compile(rb"VALUE (\S+) (\d+) (\d+)(?: (\d+))?")
# With `full`: stored, expires, attempts, state, key, id.
_FULL = re.compile(rb"(VALUE \S+ \d+ \d+ \d+) \d+ (?:\d+|-) \d+ ([a-z]+) \S+ \S+")
MOVES = ("move", "redrive")
_STAT = re.compile(rb"STAT (\S+) (.*)")
# The errors by which the server refuses, for now or for good.
NO_ROOM = re.compile("disk full|nothing is stored")
SHORT = re.compile("it is tried again|try again")
# The lease is over: of the connection, or of the token.
INVALID = re.compile(r"lease expired|token [0-9]+ of \S+ is not valid")
JOURNAL = re.compile(r"journal failed|(opening|writing|syncing|preparing).* failed")


class NotWellFormed(Exception):
    """The server sent bytes that answer no request."""


@dataclass(eq=False)
class Reply:
    """One answer. `word` is VALUE for an item; `error` the text after an ERROR word."""

    word: str
    error: str = ""
    number: int = 0
    flags: int = 0
    body: bytes = b""
    stats: dict[str, str] = field(default_factory=dict)
    state: str = ""  # of an item shown with `full`
    more: list[Reply] = field(default_factory=list)  # items after the first

    def __str__(self) -> str:
        if self.word == "VALUE":
            first = f"item {self.flags}" + (f" number {self.number}" if self.number else "")
            first += f" {self.state}" if self.state else ""
            return ", ".join((first, *map(str, self.more)))
        return f"{self.word} {self.error}".strip()


@dataclass(eq=False)
class Request:
    """One command. Times are microseconds of the run, 0: not yet."""

    verb: str
    queue: str
    options: str = ""
    item: Thing | None = None  # of a set or add
    noreply: bool = False
    expiry: int = 0
    seconds: int = 0
    body: bytes = b""  # of a declaration
    rest: str = ""  # of a line that has more than a key
    arrived_us: int = 0
    left_us: int = 0
    talk: Talk | None = None
    reply: Reply | None = None
    found: list[Thing] = field(default_factory=list)  # items that a flush or delete surely finds
    was_sure: bool = False  # for the end of a lease: was the item surely held when it came?
    hand: Hand | None = None  # the hand-off that this begins, if its old item is known
    alone: int = 0  # the count of closes then: if it has not grown, no other close ended the item
    reading: Pass | None = None  # the pass that this belongs to
    version: int = -1  # for a write: the version that it expects

    def __post_init__(self) -> None:
        parts = self.options.split("/")
        self.opens = "open" in parts
        self.peeks = "peek" in parts
        self.dead = "dead" in parts
        self.declares = "declare" in parts
        named = dict(part.split("=", 1) for part in parts if "=" in part)
        self.token = int(named.get("token", 0))
        self.lease_us = int(named["lease"].removesuffix("ms")) * 1000 if "lease" in named else 0
        self.id = named.get("id", "")
        self.stream = named.get("key", "") if self.peeks else ""  # a look at the key's last item
        self.at_version = int(named.get("at_version", 0))
        self.cancels = self.verb == "delete" and bool(self.id)
        self.wipes = self.verb in ("flush", "delete") and not (self.token or self.cancels)
        self.hands_off = "confirm" in parts or "confirm" in named
        self.hand_queue, _, token = named.get("confirm", "").rpartition(":")
        self.hand_token = int(token or 0)
        self.delay_us = int(named["delay"].removesuffix("ms")) * 1000 if "delay" in named else 0
        views = [int(part[6:]) for part in parts if part.startswith("after=")]
        self.after = views[0] if views else -1  # an observer's marker
        self.behind = self.after  # and that of the item before, in one answer
        self.is_full = "full" in parts
        self.most = int(named.get("n", 1))
        self.ending = next((p for p in parts if p in ("close", "abort", "defer")), "")
        self.confirms = self.ending == "close" or (self.verb == "delete" and self.token > 0)
        fetches = self.verb in ("get", "gets")
        self.takes = fetches and not (self.opens or self.peeks or self.ending)
        self.fetches = fetches and (self.opens or self.takes)

    @property
    def key(self) -> bytes:
        return (self.queue + ("/" + self.options if self.options else "")).encode()

    @property
    def data(self) -> bytes:
        """The bytes of the request on the wire."""
        noreply = b" noreply" if self.noreply else b""
        verb = self.verb.encode()
        if self.item is not None:
            body = self.item.body
            behind = b" %d" % self.version if self.verb == "cas" else b""
            return b"%b %b %d %d %d%b%b\r\n%b\r\n" % (
                verb, self.key, self.item.number, self.expiry, len(body), behind, noreply, body,
            )  # fmt: skip
        if self.declares:
            return b"set %b 0 0 %d\r\n%b\r\n" % (self.key, len(self.body), self.body)
        if self.verb == "touch":
            return b"touch %b %d%b\r\n" % (self.key, self.seconds, noreply)
        if self.verb == "stats" and self.options:
            return b"stats %b\r\n" % self.options.encode()
        rest = f" {self.rest}".encode() if self.rest else b""
        return b"%b %b%b%b\r\n" % (verb, self.key, rest, noreply)

    def __str__(self) -> str:
        if self.item is not None:
            extra = f" {len(self.item.body)} bytes"
            extra += f" behind version {self.version}" if self.verb == "cas" else ""
            extra += f" expires in {self.expiry} s" if self.expiry else ""
            extra += " noreply" if self.noreply else ""
            return f"{self.verb} {self.key.decode()} item {self.item.number}{extra}"
        rest = f" {self.rest}" if self.rest else ""
        rest += f" {self.seconds}" if self.seconds else ""
        return f"{self.verb} {self.key.decode()}{rest}"


class Talk:
    """One connection as the checker sees it: its requests without an answer, its held item."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.asked: deque[Request] = deque()
        self.buffer = b""
        self.held: Thing | None = None
        self.held_queue = ""
        self.held_arrived_us = 0
        self.until_us = 0  # the lease of the held item may be over then ...
        self.over_us = 0  # ... and certainly is then
        self.at_end = False
        self.overdue: set[str] = set()  # a hand-off was told that its lease is over: a close may be
        self.open_failed_us = 0  # when an open, or a refused hand-off, had its journal's error
        self.held_to_end = False  # it certainly held an item when its client ended it
        self.is_over = False
        self.answered: list[Request] = []  # answered, for the client to see

    @property
    def may_hold(self) -> bool:
        """True if an open may be refused because an item is open."""
        return self.held is not None or self.open_failed_us > 0

    def parse(self) -> Request | None:
        """Return the next request that has its whole answer; raise NotWellFormed."""
        if not self.buffer:
            return None
        if not self.asked:
            raise NotWellFormed(f"said without being asked: {self.buffer[:80]!r}")
        request = self.asked[0]
        reply = self._reply(request)
        if reply is None:
            return None
        request.reply = reply
        return self.asked.popleft()

    def _line(self, at: int) -> tuple[bytes, int] | None:
        end = self.buffer.find(b"\r\n", at)
        return None if end < 0 else (self.buffer[at:end], end + 2)

    def _reply(self, request: Request) -> Reply | None:
        found = self._line(0)
        if found is None:
            return None
        line, at = found
        if line in LINES[request.verb]:
            self.buffer = self.buffer[at:]
            return Reply(line.decode())
        word, _, text = line.partition(b" ")
        if word in (b"SERVER_ERROR", b"CLIENT_ERROR"):
            self.buffer = self.buffer[at:]
            return Reply(word.decode(), text.decode())
        if request.verb in MOVES and line.isdigit():
            self.buffer = self.buffer[at:]
            return Reply("COUNT", line.decode())
        if word == b"STAT" and request.verb == "stats":
            return self._stats()
        if word != b"VALUE" or request.verb not in ("get", "gets"):
            raise NotWellFormed(f"{line[:100]!r} does not answer {request}")
        return self._values(request)

    def _values(self, request: Request) -> Reply | None:
        """Return the items of one answer; None: its END has not come."""
        replies: list[Reply] = []
        at = 0
        while (found := self._line(at)) is not None:
            line, at = found
            if line == b"END" and replies:
                if len(replies) > request.most:
                    raise NotWellFormed(f"{len(replies)} items answer {request}")
                self.buffer = self.buffer[at:]
                replies[0].more = replies[1:]
                return replies[0]
            reply, size = self._value(request, line)
            if len(self.buffer) < at + size + 2:
                return None
            reply.body = self.buffer[at : at + size]
            at += size + 2
            if self.buffer[at - 2 : at] != b"\r\n":
                raise NotWellFormed(f"no end of the body that answers {request}")
            replies.append(reply)
        return None

    def _value(self, request: Request, line: bytes) -> tuple[Reply, int]:
        """Return an item without its body, and the size of the body."""
        full = _FULL.fullmatch(line) if request.is_full else None
        match = _VALUE.fullmatch(full[1] if full else line)
        if not match or request.is_full != bool(full):
            raise NotWellFormed(f"{line[:100]!r} does not answer {request}")
        if match[1] != request.key:
            raise NotWellFormed(f"key {match[1]!r} in the answer to {request}")
        if (match[4] is not None) != (request.verb == "gets"):
            raise NotWellFormed(f"a number too many or too few in the answer to {request}")
        state = full[2].decode() if full else ""
        number, flags, size = int(match[4] or 0), int(match[2]), int(match[3])
        return Reply("VALUE", "", number, flags, state=state), size

    def _stats(self) -> Reply | None:
        end = self.buffer.find(b"END\r\n")
        if end < 0:
            return None
        stats = {}
        for line in self.buffer[:end].split(b"\r\n")[:-1]:
            match = _STAT.fullmatch(line)
            if not match:
                raise NotWellFormed(f"{line!r} among stats")
            stats[match[1].decode()] = match[2].decode()
        self.buffer = self.buffer[end + 5 :]
        return Reply("STATS", stats=stats)
