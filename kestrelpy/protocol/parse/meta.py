"""Meta commands: `mg`, `ms` and `md` are get, set and delete in other words, as are the answers.

    mg jobs/open v f k      get jobs/open               VA 5 f0 kjobs/open | hello
    mg jobs/close           get jobs/close              HD
    mg jobs/token=7 T60     touch jobs/token=7 60       HD
    ms jobs 5 T60 | hello   set jobs 0 60 5 | hello     HD
    ms a/key=K 1 C3 | x     cas a/key=K 0 0 1 3 | x     EX
    md jobs/token=7 q       delete jobs/token=7         (nothing, or NF)

One rule: a meta command becomes the request that the older verb makes, so nothing is decided twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kestrelpy.durations import MAX_DURATION_MS
from kestrelpy.errors import ClientError
from kestrelpy.operations import readable
from kestrelpy.protocol.parse.commands import Fetch, Formed, Touch
from kestrelpy.protocol.parse.options import parse_deletion, parse_lease, parse_naming

META: Final = frozenset({b"mg", b"md", b"ma"})  # those without a body
NOT_SUPPORTED: Final = "not supported by a queue"
SECONDS_MAX: Final = MAX_DURATION_MS // 1000
OPAQUE_BYTES_MAX: Final = 32
_DIGITS_MAX: Final = 20  # a number with more digits is a mistake
_FLAGS: Final = {b"mg": b"cfhklOqstTv", b"ms": b"cCFkMOqT", b"md": b"kOq"}
_IGNORED: Final = b"LP"  # hints for a proxy
_WITH_VALUE: Final = b"OTFCM"
_MODES: Final = {b"S": b"set", b"E": b"add", b"R": b"replace", b"A": b"append", b"P": b"prepend"}
_FORMS: Final = {
    b"mg": "mg <queue>[/option] <flags>", b"md": "md <queue>[/option] <flags>",
    b"ms": "ms <queue>[/option] <bytes> <flags>",
}  # fmt: skip
_HIT, _MISS, _NOT_FOUND = b"HD", b"EN", b"NF"
_WORDS: Final = {
    b"END\r\n": _MISS, b"STORED\r\n": _HIT, b"NOT_STORED\r\n": b"NS", b"EXISTS\r\n": b"EX",
    b"NOT_FOUND\r\n": _NOT_FOUND, b"DELETED\r\n": _HIT, b"TOUCHED\r\n": _HIT,
}  # fmt: skip
_ITEM: Final = b"VALUE "
# Flags of mg that need all that is known about an item, and where that stands in its VALUE line.
_FULL: Final = b"thl"
_STORED_WORD, _EXPIRES_WORD, _ATTEMPTS_WORD = 5, 6, 7


class _Silent(bytes):
    """No bytes at all, and still the reply to a request: it becomes the error if the log fails."""

    __slots__ = ()


SILENT: Final = _Silent()


class MetaForm:
    """How one meta command wants its reply."""

    __slots__ = ("_ends", "_flags", "_key", "_tail", "_verb", "unix_ms")

    def __init__(self, verb: bytes, key: bytes, flags: Mapping[bytes, bytes], ends: bool) -> None:
        """`ends`: the request only ends a lease, and succeeds without an item."""
        self._verb = verb
        self._key = key
        self._flags = flags
        self._ends = ends
        self.unix_ms = 0  # the time of the answer
        self._tail = b"".join(self._fixed(flag) for flag in flags)

    def reply(self, data: bytes) -> bytes:
        """Return the reply in meta words; errors stay as they are."""
        if data.startswith(_ITEM):
            return self._item(data)
        word = _WORDS.get(data)
        if word is None:
            return data
        if self._verb == b"mg":
            if word == _MISS and self._ends:
                word = _HIT
            elif word == _NOT_FOUND:
                word = _MISS
        if b"q" in self._flags and word == (_MISS if self._verb == b"mg" else _HIT):
            return SILENT
        return b"%b%b\r\n" % (word, self._tail)

    def _fixed(self, flag: bytes) -> bytes:
        """Return what the reply repeats of a flag, with an item or without."""
        if flag == b"k":
            return b" k" + self._key
        if flag == b"O":
            return b" O" + self._flags[flag]
        # The number of an item is known when it is fetched: memcached's clients take a 0.
        return b" c0" if flag == b"c" and self._verb == b"ms" else b""

    def _item(self, data: bytes) -> bytes:
        end = data.index(b"\r\n")
        words = data[:end].split(b" ")
        size = int(words[3])
        tail = []
        for flag in self._flags:
            if flag == b"f":
                tail.append(b" f" + words[2])
            elif flag == b"s":
                tail.append(b" s" + words[3])
            elif flag == b"c":
                tail.append(b" c" + words[4])
            elif flag == b"t":
                tail.append(b" t%d" % self._ttl(words[_EXPIRES_WORD]))
            elif flag == b"h":  # "hit before": it was delivered before, and came back
                tail.append(b" h%d" % (words[_ATTEMPTS_WORD] != b"0"))
            elif flag == b"l":  # a waiting item has no last access: the time since it was stored
                tail.append(b" l%d" % (max(0, self.unix_ms - int(words[_STORED_WORD])) // 1000))
            else:
                tail.append(self._fixed(flag))
        if b"v" not in self._flags:
            return b"HD%b\r\n" % b"".join(tail)
        body = data[end + 2 : end + 2 + size]
        return b"VA %d%b\r\n%b\r\n" % (size, b"".join(tail), body)

    def _ttl(self, expires: bytes) -> int:
        """Return the seconds until the item expires; -1: never."""
        return max(0, -((self.unix_ms - int(expires)) // 1000)) if expires != b"-" else -1


def parse_meta(verb: bytes, words: list[bytes]) -> Formed:
    """Parse the line of an `mg` or `md`; raise ClientError."""
    if verb == b"ma":
        raise ClientError("ma has no meaning for a queue: an item is no counter")
    if len(words) < 2:
        raise ClientError(f"{verb.decode()} needs a key: {_FORMS[verb]}")
    key, flags = words[1], _parse_flags(verb, words[2:])
    if verb == b"md":
        return Formed(parse_deletion(key, False), MetaForm(verb, key, flags, False))
    if b"T" in flags:
        return Formed(_touch(key, flags), MetaForm(verb, key, flags, True))
    fetch, ends = _fetch(key, flags)
    return Formed(fetch, MetaForm(verb, key, flags, ends))


def parse_meta_set(words: list[bytes]) -> tuple[bytes, list[bytes], MetaForm]:
    """Parse the line of an `ms`; return the older verb, the words of its line, and the form of the
    reply. Raise Refused."""
    key, flags = words[1], _parse_flags(b"ms", words[3:])
    mode = flags.get(b"M", b"S")
    verb = _MODES.get(mode.upper())
    if verb is None:
        raise ClientError(
            f"flag M is {readable(mode)}: S (set), E (add) and R (replace) are allowed"
        )
    if verb in (b"append", b"prepend"):
        raise ClientError(NOT_SUPPORTED)
    line = [verb, key, flags.get(b"F", b"0"), flags.get(b"T", b"0"), words[2]]
    if b"C" in flags:
        if verb != b"set":
            raise ClientError("flags C and M contradict each other: C says what is expected")
        line[0] = b"cas"
        line.append(flags[b"C"])
    return line[0], line, MetaForm(b"ms", key, flags, False)


def _parse_flags(verb: bytes, words: list[bytes]) -> dict[bytes, bytes]:
    """Return the flags with their values, in the order in which they came; raise ClientError."""
    flags: dict[bytes, bytes] = {}
    for word in words:
        flag, value = word[:1], word[1:]
        if flag in _IGNORED:
            continue
        shown = readable(flag)
        if flag == b"b":
            raise ClientError(
                "flag b: base64 keys are not accepted, the name of a queue is printable ASCII"
            )
        if flag not in _FLAGS[verb]:
            known = " ".join(_FLAGS[verb].decode())
            raise ClientError(
                f"flag {shown} of {verb.decode()} has no meaning for a queue, known are {known}"
            )
        if flag in flags:
            raise ClientError(f"flag {shown} is given twice")
        if value and flag not in _WITH_VALUE:
            raise ClientError(f"flag {shown} takes no value")
        if not value and flag in _WITH_VALUE and flag != b"O":
            raise ClientError(f"flag {shown} needs a value")
        flags[flag] = value
    if len(flags.get(b"O", b"")) > OPAQUE_BYTES_MAX:
        raise ClientError(f"flag O: at most {OPAQUE_BYTES_MAX} bytes are allowed")
    return flags


def _fetch(key: bytes, flags: Mapping[bytes, bytes]) -> tuple[Fetch, bool]:
    target, token = parse_naming(key, "get")
    if target.full:
        raise ClientError("option full goes with gets: mg has flags for what it shows")
    if "n" in target.options:
        raise ClientError("option n goes with get and gets: mg answers one item")
    if (target.takes or target.opens) and b"v" not in flags:
        raise ClientError("mg without flag v would take an item unseen: add v, or use peek")
    if target.lease_ms and b"c" not in flags:
        raise ClientError("option lease goes with flag c: the answer names the token")
    if any(flag in _FULL for flag in flags):
        target = target.sent_as(target.raw)
        target.full = True
    ends = target.ending is not None and not target.opens
    target.numbered = b"c" in flags
    return Fetch([target], token), ends


def _touch(key: bytes, flags: Mapping[bytes, bytes]) -> Touch:
    """`mg q T60`: renew the lease."""
    for other in b"v", b"f", b"s", b"t", b"c", b"h", b"l":
        if other in flags:
            raise ClientError(
                f"flags T and {other.decode()} contradict each other: T renews a lease and shows "
                "no item"
            )
    name, token = parse_lease(key, "touch")
    return Touch(name, token, parse_seconds(flags[b"T"]), False)


def parse_seconds(word: bytes) -> int:
    """Return the seconds of a touch; raise ClientError."""
    if not word.isdigit() or len(word) > _DIGITS_MAX or not 0 < int(word) <= SECONDS_MAX:
        raise ClientError(f"bad seconds: a whole number from 1 to {SECONDS_MAX} is allowed")
    return int(word)
