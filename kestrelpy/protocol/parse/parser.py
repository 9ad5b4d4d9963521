"""Bytes to commands: the memcache text protocol, with limits.

    line  verb SP key ... CRLF|LF      find LF once, where the last search ended
    body  <bytes> CRLF|LF              sliced once; an oversized one is skipped, never kept
    run   the sets that follow and are like it: their bodies alone

One rule: after any input the parser knows where the next command begins, or says that the
connection must end. Its memory is bounded by one line, or by one body within its queue's limit,
however small the pieces are in which the bytes come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kestrelpy.errors import ClientError, Refused
from kestrelpy.operations import check_name
from kestrelpy.protocol.parse.commands import (
    Bad,
    Command,
    Confirm,
    Delete,
    Fetch,
    Mail,
    Monitor,
    Plain,
    Store,
    StoreLine,
    Touch,
)
from kestrelpy.protocol.parse.foreign import FOREIGN, is_http, refuse_foreign, refuse_http
from kestrelpy.protocol.parse.line_template import Cut, cut
from kestrelpy.protocol.parse.meta import (
    META,
    NOT_SUPPORTED,
    parse_meta,
    parse_meta_set,
    parse_seconds,
)
from kestrelpy.protocol.parse.option_values import TOKEN_DIGITS_MAX, cut_token
from kestrelpy.protocol.parse.options import (
    KEY_BYTES_MAX,
    STORES,
    STORING,
    UnknownOption,
    parse_deletion,
    parse_lease,
    parse_naming,
    parse_target,
    why_no_option,
)
from kestrelpy.protocol.parse.requests import Requests
from kestrelpy.protocol.parse.set_conditions import parse_version, refuse_verb

LINE_BYTES_MAX: Final = 8 << 10
BODY_BYTES_ABSURD: Final = 1 << 30
# A body below this size is taken as it comes; the queue checks its own limit.
BODY_BYTES_SMALL: Final = 64 << 10
# All settings together take 1 KiB; 64 KiB of invalid ones take 10 ms to parse.
DECLARATION_BYTES_MAX: Final = 4 << 10
# Keys per request: they are parsed in a few milliseconds, and client libraries send no more at
# once.
GET_KEYS_MAX: Final = 100
# Cached lines, for all connections together: at most a few MiB, since a line with many keys is not
# cached.
LINES_KEPT: Final = 4096
LINE_BYTES_KEPT: Final = 300
_CR: Final = 13
_LF: Final = 10
_CAS_WORDS: Final = 6  # without noreply, and with its version
# With any token its key is not too long.
TOKEN_LINE_BYTES_KEPT: Final = KEY_BYTES_MAX - TOKEN_DIGITS_MAX
_FLAGS_BELOW: Final = 1 << 32
_UNREADABLE: Final = 1 << 62  # a byte count that is none
_NUMBER_BELOW: Final = 1 << 53

_STORING: Final = frozenset(b"set add replace append prepend cas".split())
_STORING_INITIALS: Final = frozenset(b"%c" % letter for letter in b"sarpcSARPC")
_PLAIN: Final = frozenset(
    b"flush flush_all flush_expired flush_all_expired stats dump_stats status reload version "
    b"verbosity shutdown quit pause resume retry acknowledge move redrive mn dump_config client "
    b"mail unwait".split()
)


Known = Fetch | Delete | Touch
Lines = dict[bytes, Known | StoreLine]


class Parser(Requests):
    """The parser of the memcache text protocol."""

    __slots__ = (
        "_at", "_data", "_known", "_left", "_limit_of", "_line", "_lines", "_parts", "_pending",
        "_searched", "_takes_mail",
    )  # fmt: skip

    def __init__(
        self, limit_of: Callable[[bytes], int], lines: Lines, takes_mail: bool = False
    ) -> None:
        """`limit_of` returns a queue's item limit in bytes; `lines` is a cache that all connections
        share. `takes_mail`: slices send messages here, and no client does."""
        self._takes_mail = takes_mail
        self._limit_of = limit_of
        self._lines = lines
        self._line = b""  # the last line that was in the cache, with its end
        self._known: Known | StoreLine | None = None  # its meaning
        self._data = b""
        self._at = 0
        self._searched = 0
        self._pending: Store | Mail | Bad | None = None
        self._parts: bytearray | None = None
        self._left = 0

    def feed(self, data: bytes) -> None:
        """Add bytes."""
        if self._left:
            taken = min(self._left, len(data))
            self._left -= taken
            if self._parts is not None:
                self._parts += data[:taken]
            data = data[taken:]
            if not data:
                return
        if self._at < len(self._data):
            self._data = self._data[self._at :] + data
            self._searched -= self._at
        else:
            self._data = data
            self._searched = 0
        self._at = 0

    def take_rest(self) -> bytes:
        """Return the bytes that are not parsed yet, and drop them: another parser gets them."""
        rest = self._data[self._at :]
        self.clear()
        return rest

    @property
    def buffered(self) -> int:
        """Bytes taken in and not yet parsed."""
        return len(self._data) - self._at

    @property
    def held_bytes(self) -> int:
        """Bytes held in memory: lines and bodies that are not executed yet."""
        return len(self._data) - self._at + (0 if self._parts is None else len(self._parts))

    @property
    def is_in_body(self) -> bool:
        """True while a body is coming in."""
        return self._pending is not None

    @property
    def is_skipping(self) -> bool:
        """True while a body comes in that is refused, and dropped."""
        return isinstance(self._pending, Bad)

    @property
    def missing_bytes(self) -> int:
        """Bytes of the body that are still to come."""
        return self._left

    def take_line(self, line: bytes) -> bool:
        """Take this line if it comes next; return whether it did."""
        if self._pending is not None or not self._data.startswith(line, self._at):
            return False
        self._at = self._searched = self._at + len(line)
        return True

    def drop_body(self, refusal: Refused) -> bool:
        """Drop a body that is coming in: it is refused when it is complete.

        Return whether there was one.
        """
        if not isinstance(self._pending, Store):
            return False
        self._pending, self._parts = bad(refusal, self._pending.noreply), None
        return True

    @property
    def begun(self) -> Command | None:
        """The set or the message whose body is coming in, and is held; None: there is none."""
        return None if self._parts is None else self._pending

    def let_pass(self) -> None:
        """Hold nothing of the body that is coming in."""
        self._parts = None

    def clear(self) -> None:
        """Drop everything: the client is gone."""
        self._data, self._at, self._searched = b"", 0, 0
        self._pending = self._parts = None
        self._left = 0

    def forget(self) -> None:
        """Drop the parsed bytes: an idle connection costs no buffer."""
        if self._at:
            self._data = self._data[self._at :]
            self._searched -= self._at
            self._at = 0

    def next(self) -> Command | None:
        """Return the next command; None if it is not complete yet."""
        if self._pending is not None:
            return self._finish_body()
        data, at = self._data, self._at
        known, end = self._known, at + len(self._line)
        if known is not None and data[at:end] == self._line:
            self._at = self._searched = end
            return self._take_body(known, end) if isinstance(known, StoreLine) else known
        if at >= len(data):
            return None
        end = data.find(b"\n", self._searched if self._searched > at else at)
        if end < 0 or end - at > LINE_BYTES_MAX:
            if data[at] in FOREIGN:
                return refuse_foreign(data[at])
            if len(data) - at > LINE_BYTES_MAX:
                return Bad(b"CLIENT_ERROR line too long (limit 8192 bytes)", closes=True)
            self._searched = len(data)
            return None
        self._at = self._searched = end + 1
        line = data[at:end]
        known = self._lines.get(line)
        if known is not None:
            self._line, self._known = data[at : end + 1], known
            return self._take_body(known, end + 1) if isinstance(known, StoreLine) else known
        if line[:1] in _STORING_INITIALS:
            varies = cut(line)
            if varies is not None:
                known = self._lines.get(varies[0])
                if isinstance(known, StoreLine):
                    return self._take_body(known.naming(varies), end + 1)
        else:
            varies = None
            template, token = cut_token(line)
            if token:
                known = self._lines.get(template)
                if known is not None and not isinstance(known, StoreLine):
                    return known.naming(token, line)
        if data[at] in FOREIGN:
            return refuse_foreign(data[at])
        words = line.split()
        if not words:
            return Bad(b"ERROR")
        verb = words[0].lower()
        if is_http(words):
            return refuse_http("memcache")
        if verb in _STORING:
            return self._store(verb, words, line, varies)
        if verb in (b"get", b"gets"):
            command = self._fetch(verb, words)
            if isinstance(command, Fetch) and len(command.targets) == 1:
                self._remember(line, command)
            return command
        if verb == b"ms":
            return self._meta_set(words)
        other = self._other(verb, words)
        if isinstance(other, Delete | Touch) and other.token:
            self._remember(line, other)
        return other

    def run(
        self, line: StoreLine, most: int, most_bytes: int, limit: int
    ) -> tuple[list[bytes], int]:
        """Return the bodies of the complete sets that come next and are like the last, `line`, and
        their bytes together.

        There are `most` of them at most, none is larger than `limit`, and the run ends when it has
        `most_bytes`.
        """
        data, at = self._data, self._at
        head, meaning = self._line if self._known is line else b"", line
        bodies: list[bytes] = []
        size = 0
        while len(bodies) < most and size < most_bytes:
            begin = at + len(head)
            if begin == at or data[at:begin] != head:
                begin = data.find(b"\n", at) + 1
                known = self._lines.get(data[at : begin - 1]) if begin else None
                if not isinstance(known, StoreLine) or not known.is_like(line, limit):
                    break
                head, meaning = data[at:begin], known
            end = begin + meaning.size
            if end + 2 > len(data) or data[end] != _CR or data[end + 1] != _LF:
                break
            bodies.append(data[begin:end])
            size += meaning.size
            at = end + 2
        if bodies:
            self._at = self._searched = at
            self._line, self._known = head, meaning
        return bodies, size

    def _remember(self, line: bytes, meaning: Known | StoreLine) -> None:
        """Cache the meaning of a line: a client sends the same few lines again and again.

        A line with a token is cached without it. A browse is not cached: the next one names another
        marker or another key.
        """
        if isinstance(meaning, Fetch) and (meaning.targets[0].view or meaning.targets[0].key):
            return
        if not isinstance(meaning, StoreLine) and meaning.token:
            template, token = cut_token(line)
            if token != meaning.token or len(line) > TOKEN_LINE_BYTES_KEPT:
                return
            line = template
        self._cache_line(line, meaning)

    def _cache_line(self, line: bytes, meaning: Known | StoreLine) -> None:
        if len(line) <= LINE_BYTES_KEPT:
            if len(self._lines) >= LINES_KEPT:
                self._lines.clear()
            self._lines[line] = meaning

    def _remember_cut(self, varies: Cut, meaning: StoreLine) -> None:
        """Cache a line without its id, key, version or token."""
        named = (meaning.id, meaning.key, meaning.expected, meaning.handoff)
        bare = meaning.handoff is not None and not meaning.handoff.token
        if varies[1:] == (*named[:3], None if bare else named[3]):
            self._cache_line(varies[0], meaning)

    # -- storing ----------------------------------------------------------------------------

    def _store(
        self, verb: bytes, words: list[bytes], line: bytes, varies: Cut | None
    ) -> Command | None:
        """Parse `<verb> <key> <flags> <expiry> <bytes> [<version>] [noreply]`, then the body."""
        noreply = words[-1] == b"noreply"
        size = _size(words, 4)
        if size > BODY_BYTES_ABSURD:
            return _lost(verb + b" <key> <flags> <expiry> <bytes>", size, noreply)
        try:
            meaning = self._store_line(verb, words, size, noreply)
        except Refused as refused:
            return self._begin_body(bad(refused, noreply), size)
        if size > BODY_BYTES_SMALL:
            if (large := self._too_large(meaning)) is not None:
                return self._begin_body(large, size)
        elif varies is None:
            self._remember(line, meaning)
        elif verb != b"cas" or len(words) == _CAS_WORDS:
            self._remember_cut(varies, meaning)
        return self._take_body(meaning, self._at)

    def _meta_set(self, words: list[bytes]) -> Command | None:
        """Parse `ms <key> <bytes> <flags>`, then the body."""
        size = _size(words, 2)
        if size > BODY_BYTES_ABSURD:
            return _lost(b"ms <key> <bytes> <flags>", size, False)
        try:
            verb, line, form = parse_meta_set(words)
            meaning = self._store_line(verb, line, size, False)
        except Refused as refused:
            return self._begin_body(bad(refused), size)
        meaning.form = form
        large = self._too_large(meaning) if size > BODY_BYTES_SMALL else None
        if large is not None:
            return self._begin_body(large, size)
        return self._take_body(meaning, self._at)

    def _mail(self, words: list[bytes]) -> Command | None:
        """Parse `mail <slice> <bytes>`, then the message."""
        size = _size(words, 2)
        if size > BODY_BYTES_ABSURD or not words[1].isdigit():
            return _lost(b"mail <slice> <bytes>", size, False)
        self._parts = bytearray()
        return self._begin_body(Mail(int(words[1]), size), size)

    def _too_large(self, line: StoreLine) -> Bad | None:
        """Return the refusal of a body over its queue's limit, which is skipped."""
        limit = self._limit_of(line.target.name)
        if line.size <= limit:
            return None
        text = f"SERVER_ERROR item too large ({line.size} bytes, limit {limit})"
        return Bad(text.encode(), noreply=line.noreply)

    def _store_line(self, verb: bytes, words: list[bytes], size: int, noreply: bool) -> StoreLine:
        """Return the parsed line; raise Refused, and the body is skipped."""
        if verb in (b"append", b"prepend"):
            raise ClientError(NOT_SUPPORTED)
        target = parse_target(words[1], STORING)
        declares = "declare" in target.options and verb == b"set"
        odd = target.options - STORES
        if odd and not declares:
            raise ClientError(why_no_option(min(odd), verb.decode()))
        if declares and target.parent:
            raise ClientError("a child's settings stand in the configuration file, not here")
        refuse_verb(verb, target.once, target.key)
        if declares and size > DECLARATION_BYTES_MAX:
            raise ClientError(
                f"declaration too large ({size} bytes, limit {DECLARATION_BYTES_MAX})"
            )
        flags, expiry = words[2], words[3]
        if not flags.isdigit() or len(flags) > 10 or int(flags) >= _FLAGS_BELOW:
            raise ClientError("bad flags: a number below 4294967296 is allowed")
        expected = target.once.expected
        if verb == b"cas":  # some clients drop a version of 0
            expected = parse_version(words[5]) if len(words) > 5 + noreply else 0
        return StoreLine(target, verb, int(flags), _seconds(expiry), size, noreply, expected)

    def _take_body(self, line: StoreLine, at: int) -> Command | None:
        """Return the command if its body is complete; else it waits for the rest."""
        command = Store(line)
        data = self._data
        end = at + line.size
        if data[end : end + 2] == b"\r\n":
            command.body = data[at:end]
            self._at = self._searched = end + 2
            return command
        self._parts = bytearray()
        return self._begin_body(command, line.size)

    def _begin_body(self, command: Store | Mail | Bad, size: int) -> Command | None:
        """Begin a body that is not complete yet, or is to be skipped."""
        here = self._data[self._at : self._at + size]
        self._pending = command
        self._left = size - len(here)
        self._at += len(here)
        self._searched = self._at
        if self._parts is not None:
            self._parts += here
        return self._finish_body()

    def _finish_body(self) -> Command | None:
        if self._left:
            return None
        data, at = self._data, self._at
        if data[at : at + 1] == b"\n":
            self._at = at + 1
        elif data[at : at + 2] == b"\r\n":
            self._at = at + 2
        elif data[at : at + 2] in (b"", b"\r"):
            return None
        else:
            noreply = self._pending is not None and self._pending.noreply
            line = b"CLIENT_ERROR bad data chunk"
            if self._parts is not None:
                many = len(self._parts)
                line += b": %d bytes were announced, and no line end follows them" % many
            return Bad(line, closes=True, noreply=noreply)
        self._searched = self._at
        command, self._pending = self._pending, None
        parts, self._parts = self._parts, None
        if isinstance(command, Store | Mail) and parts is not None:
            command.body = bytes(parts)
        return command

    # -- other commands ---------------------------------------------------------------------

    def _fetch(self, verb: bytes, words: list[bytes]) -> Command:
        name = verb.decode()
        try:
            if len(words) < 2:
                raise ClientError(f"{name} needs a key: {name} <queue>[/option]")
            if len(words) > GET_KEYS_MAX + 1:
                raise ClientError(f"too many keys ({len(words) - 1}, limit {GET_KEYS_MAX})")
            named = [parse_naming(word, name) for word in words[1:]]
        except Refused as refused:
            return bad(refused)
        targets = [target for target, _ in named]
        numbered = verb == b"gets"
        for target in targets:
            target.numbered = numbered
        if not numbered and any(t.full for t in targets):
            return Bad(b"CLIENT_ERROR option full goes with gets: what it adds follows the number")
        if not numbered and any(t.lease_ms for t in targets):
            return Bad(b"CLIENT_ERROR option lease goes with gets: its answer names the token")
        if len(targets) == 1:
            return Fetch(targets, named[0][1])
        if sum(t.opens for t in targets) > 1:
            return Bad(b"CLIENT_ERROR only one key of a get may open")
        for word in ("t", "n", "lease", "token"):
            if any(word in t.options for t in targets):
                return Bad(b"CLIENT_ERROR %b= goes with one key only" % word.encode())
        return Fetch(targets)

    def _other(self, verb: bytes, words: list[bytes]) -> Command | None:
        if verb == b"mail" and self._takes_mail:
            return self._mail(words)
        noreply = len(words) > 1 and words[-1] == b"noreply"
        try:
            if verb == b"delete":
                return self._delete(words, noreply)
            if verb == b"touch":
                return self._touch(words, noreply)
            if verb == b"monitor":
                return _monitor(words[1:])
            if verb == b"confirm":
                return _confirm(words[1 : len(words) - noreply], noreply)
            if verb in META:
                noreply = False
                return parse_meta(verb, words)
        except Refused as refused:
            return bad(refused, noreply)
        if verb in (b"incr", b"decr"):
            return Bad(b"CLIENT_ERROR " + NOT_SUPPORTED.encode(), noreply=noreply)
        if verb in _PLAIN:
            return Plain(verb, words[1 : len(words) - noreply], noreply)
        if verb[0] in FOREIGN:
            return refuse_foreign(verb[0])
        return Bad(b"ERROR", noreply=noreply)

    def _delete(self, words: list[bytes], noreply: bool) -> Command:
        arguments = words[1 : len(words) - noreply]
        # Older clients send "delete <key> 0", with the time of a delete that no longer exists.
        if not arguments or arguments[1:] not in ([], [b"0"]):
            raise ClientError("delete needs a queue: delete <queue>")
        return parse_deletion(arguments[0], noreply)

    def _touch(self, words: list[bytes], noreply: bool) -> Command:
        arguments = words[1 : len(words) - noreply]
        if len(arguments) != 2:
            raise ClientError("touch needs a queue and seconds: touch <queue> <seconds>")
        name, token = parse_lease(arguments[0], "touch")
        return Touch(name, token, parse_seconds(arguments[1]), noreply)


def _seconds(word: bytes) -> int:
    digits = word[1:] if word[:1] == b"-" else word
    if not digits.isdigit() or len(digits) > 16 or int(digits) >= _NUMBER_BELOW:
        raise ClientError("bad expiry: whole seconds are allowed")
    return int(word)


def _monitor(arguments: list[bytes]) -> Monitor:
    if len(arguments) not in (2, 3):
        raise ClientError("monitor needs a queue and seconds: monitor <queue> <seconds> [max]")
    most = _count("max", arguments[2], 1) if len(arguments) > 2 else 0
    name, seconds = _queue_name("monitor", arguments[0]), _count("seconds", arguments[1], 0)
    return Monitor(name, seconds * 1000, most)


def _confirm(arguments: list[bytes], noreply: bool) -> Confirm:
    if len(arguments) != 2:
        raise ClientError("confirm needs a queue and a count: confirm <queue> <n>")
    return Confirm(_queue_name("confirm", arguments[0]), _count("count", arguments[1], 0), noreply)


def _queue_name(verb: str, key: bytes) -> bytes:
    check_name(key.partition(b"/")[0])
    if b"/" in key:
        raise ClientError(f"{verb} takes a queue without options")
    return key


def _count(what: str, word: bytes, least: int) -> int:
    if not word.isdigit() or len(word) > 9 or int(word) < least:
        raise ClientError(f"bad {what}: a whole number from {least} to 999999999 is allowed")
    return int(word)


def _size(words: list[bytes], at: int) -> int:
    """Return the byte count; one that cannot be read counts as absurd."""
    if len(words) <= at or not words[at].isdigit() or len(words[at]) > 10:
        return _UNREADABLE
    return int(words[at])


def _lost(form: bytes, size: int, noreply: bool) -> Bad:
    """Return the reply to a byte count that cannot be used: where the body ends is unknown."""
    why = form if size == _UNREADABLE else b"above 1 GiB"
    return Bad(b"CLIENT_ERROR bad byte count: " + why, closes=True, noreply=noreply)


def bad(refused: Refused, noreply: bool = False) -> Bad:
    """Return the reply to a line that is refused."""
    unknown = refused.option if isinstance(refused, UnknownOption) else ""
    return Bad(refused.line(), noreply=noreply, unknown=unknown)
