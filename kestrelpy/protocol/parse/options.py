"""The options of a key, `<queue>[/<option>...]`: the list of all, and which go together.

A key becomes a `Target`, or is refused. `option_values` parses the value of each option.

One rule: contradictions are refused here, before any state is looked at.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from journal.format import SENT_TEXTS
from kestrelpy.durations import parse_duration_ms
from kestrelpy.errors import ClientError
from kestrelpy.operations import check_name, parent_of, readable
from kestrelpy.protocol.parse import set_conditions as once
from kestrelpy.protocol.parse.commands import Delete, Remove, Target, Upto, Withdraw
from kestrelpy.protocol.parse.option_values import (
    DELAY_OPTIONS,
    KEY_OPTION,
    parse_begin,
    parse_delay,
    parse_key,
    parse_number,
    parse_tokens,
    parse_view,
    refuse_delay,
)
from kestrelpy.protocol.parse.set_conditions import NOTHING, parse_once, parse_whole

KEY_BYTES_MAX: Final = 250
STORING: Final = "set"  # stands for every verb that stores
_VIEWS: Final = frozenset({"after", "since", "n"})
_BEGINS: Final = frozenset({"from", "since"})


class Option(NamedTuple):
    """What a key with this option may be, and how its value is read.

    A verb finds a value that `number` reads by `Target.number`.
    """

    home: str = "get"  # the verbs that a refusal names for this option
    is_fetched: bool = True  # a get may have it
    is_stored: bool = False  # a verb that stores may have it
    takes_value: bool = True
    needs: tuple[str, ...] = ()  # it goes with one of these only
    number: Callable[[str, str | None], int] | None = None


def _condition(home: str) -> Option:
    """Return an option that sets a condition of a storing verb."""
    return Option(home, is_fetched=False, is_stored=True)


# A new option of get: a row here, the verb that heeds it, and docs/protocol.md.
OPTIONS: Final = {
    "open": Option(takes_value=False),
    "close": Option(takes_value=False),
    "abort": Option(takes_value=False),
    "defer": Option(takes_value=False),
    "peek": Option(takes_value=False),
    "full": Option(takes_value=False, needs=("peek", "open")),
    "dead": Option(),
    "t": Option(),
    "lease": Option(),
    "token": Option(),
    "after": Option(),
    "since": Option(),
    "n": Option(),
    "from": Option(),
    "at_version": Option(
        "peek, for instance gets acc/key=A/peek/at_version=3", number=parse_number
    ),
    "delay": Option(is_stored=True),
    "at": Option(is_stored=True),
    "key": Option("set and peek, for instance set jobs/key=A,B 0 0 <bytes>", is_stored=True),
    "declare": Option(
        "set, for instance set jobs/declare 0 0 <bytes>", is_fetched=False, takes_value=False
    ),  # it goes alone, so it is not among those that are stored with others
    "upto": Option("delete, for instance delete orders+cursor/upto=17", is_fetched=False),
    "confirm": _condition("set, add, cas and replace, for instance set done/confirm 0 0 <bytes>"),
    "epoch": _condition("set, for instance set jobs/id=4711/scope=s1/epoch=7 0 0 <bytes>"),
    "expect": _condition("set, for instance set acc/key=A/expect=3 0 0 <bytes>"),
    "id": _condition(
        "set, add, cas, replace and delete, for instance set jobs/id=4711 0 0 <bytes>"
    ),
    "scope": _condition("set, for instance set jobs/id=4711/scope=s1/epoch=7 0 0 <bytes>"),
    **{
        row.name: _condition(
            f"set, add, cas and replace, for instance set jobs/{row.name}=a 0 0 <bytes>"
        )
        for row in SENT_TEXTS
    },
}
STORES: Final = frozenset(word for word, option in OPTIONS.items() if option.is_stored)
_KNOWN: Final = sorted(OPTIONS)

_PAGE: Final = "docs/protocol.md"
# The longest option is half as long; the time of a comparison grows with both lengths.
_MEANT_BYTES_MAX: Final = 20


class UnknownOption(ClientError):
    """An option that does not exist; `nearest` finds the one that may have been meant."""

    def __init__(self, option: str) -> None:
        super().__init__(f"unknown option {option}")
        self.option = option


def nearest(option: str) -> str:
    """Return the end of the refusal of an unknown option: the nearest known one, or the page."""
    # A lower cutoff proposes `from` for foo.
    near = difflib.get_close_matches(option[:_MEANT_BYTES_MAX].lower(), _KNOWN, n=1, cutoff=0.6)
    return f", did you mean {near[0]}?" if near else f", {_PAGE} lists all of them"


def parse_target(raw: bytes, verb: str = "get") -> Target:
    """Parse a key, `<queue>[/<option>...]`; raise ClientError with the mistake and the allowed
    values."""
    return parse_naming(raw, verb)[0]


def parse_naming(raw: bytes, verb: str = "get") -> tuple[Target, int]:
    """Parse a key and the token in it (0: none); raise ClientError."""
    if len(raw) > KEY_BYTES_MAX:
        raise ClientError(f"key too long ({len(raw)} bytes, limit {KEY_BYTES_MAX}){_why_long(raw)}")
    name, _, rest = raw.partition(b"/")
    check_name(name)
    if not rest:
        return Target(raw, name), 0
    values: dict[str, str | None] = {}
    sent: dict[str, bytes] = {}
    for part in rest.split(b"/"):
        if not part:
            continue
        word, value = _split_option(part)
        if word in values:
            raise ClientError(f"option {word} is given twice")
        values[word] = value
        sent[word] = part
    options = frozenset(values)
    key = parse_key(sent[KEY_OPTION]) if KEY_OPTION in options else ()
    numbers = {"t": _wait(values["t"])} if "t" in values else {}
    is_child = bool(parent_of(name))
    begin = None
    if "from" in options or ("since" in options and is_child and "peek" not in options):
        _refuse_begin(options, is_child)
        begin = parse_begin(values)
    view = parse_view(values) if options & _VIEWS and begin is None else None
    _refuse_contradiction(options, begin is not None)
    if view is not None and is_child and "since" in options:
        begin = parse_begin({"since": values["since"]})  # of a child that this creates
    delay = parse_delay(values) if options & DELAY_OPTIONS else None
    if delay is not None and verb != STORING:
        refuse_delay(min(options & DELAY_OPTIONS), options)
    tokens = parse_tokens(values, verb if verb in ("delete", "touch") else "get")
    if verb != STORING:
        _refuse_stored(options, verb)
    said = parse_once(values, sent) if options & once.WORDS else NOTHING
    for word, text in values.items():
        if (read := OPTIONS[word].number) is not None:
            numbers[word] = read(word, text)
    target = Target(raw, name, options, numbers, view, tokens, delay, key, said, begin)
    return target, tokens.token


def parse_lease(raw: bytes, verb: str) -> tuple[bytes, int]:
    """Parse the key of a `delete` or `touch`: a queue, and the token of one of its leases (0:
    none).

    Raise ClientError.
    """
    target, token = parse_naming(raw, verb)
    others = target.options - {"token"}
    if others:
        raise ClientError(f"option {min(others)} does not go with {verb}")
    return target.name, token


def parse_deletion(raw: bytes, noreply: bool) -> Delete | Remove | Upto | Withdraw:
    """Parse what a delete names: a queue, a lease, an item, an id or a marker; raise
    ClientError."""
    parts = raw.split(b"/")
    named = [part for part in parts[1:] if part.partition(b"=")[0] in (b"item", b"id", b"upto")]
    if not named:
        return Delete(*parse_lease(raw, "delete"), noreply)
    if len(raw) > KEY_BYTES_MAX:
        parse_target(raw)
    word, equals, value = named[0].partition(b"=")
    option = word.decode()
    for other in named[1:]:
        again = other.partition(b"=")[0].decode()
        if again == option:
            raise ClientError(f"option {option} is given twice")
        raise ClientError(f"{option} and {again} contradict each other")
    target = parse_target(b"/".join(part for part in parts if part is not named[0]), "delete")
    odd = target.options - ({"dead"} if option == "item" else set())
    if odd:
        raise ClientError(f"option {min(odd)} does not go with delete and {option}")
    if option == "item":
        item = parse_number("item", readable(value) if equals else None)
        return Remove(target.name, item, target.dead, noreply)
    if option == "upto":
        return Upto(target, parse_whole("upto", readable(value) if equals else None), noreply)
    id_ = unquote_to_bytes(value)
    if not id_:
        raise ClientError("option id needs a value, for instance id=4711")
    return Withdraw(target.name, id_, noreply)


def refuse_later(word: str) -> None:
    """Raise ClientError for an option that belongs to another verb."""
    if word == "item":
        raise ClientError("option item goes with delete and stats, for instance stats q/item=7")


def why_no_option(option: str, verb: str) -> str:
    """Return why this option does not go with this verb, and the verbs it goes with."""
    return f"option {option} does not go with {verb}, but with {OPTIONS[option].home}"


def _why_long(raw: bytes) -> str:
    """Return the remedy for a key that is too long."""
    if b"/id=" in raw:
        return ": hash a longer id yourself, for instance to the 64 hex digits of SHA-256"
    return ""


def _split_option(part: bytes) -> tuple[str, str | None]:
    word_bytes, equals, value_bytes = part.partition(b"=")
    word = readable(word_bytes)
    value = unquote_to_bytes(value_bytes).decode("utf-8", "backslashreplace") if equals else None
    refuse_later(word)
    option = OPTIONS.get(word)
    if option is None:
        raise UnknownOption(word)
    if value is not None and not option.takes_value:
        raise ClientError(f"option {word} takes no value")
    return word, value


def _wait(value: str | None) -> int:
    if value is None:
        raise ClientError("option t needs a duration, for instance t=5s or t=5000")
    try:
        return parse_duration_ms(value, bare_ms=True)
    except ValueError as error:
        raise ClientError(f"option t: {error}") from None


def _refuse_begin(options: frozenset[str], is_child: bool) -> None:
    """Raise ClientError if `from=` or `since=` does not say where a child begins."""
    if not is_child:
        raise ClientError(
            "option from goes with a fan-out child, for instance orders+audit/from=17: where it "
            "begins if this mentions it first"
        )
    for other in ("after", "n", "dead"):
        if other in options:
            raise ClientError(f"{min(options & _BEGINS)} and {other} contradict each other")


def _refuse_stored(options: frozenset[str], verb: str) -> None:
    """Raise ClientError for options of storing verbs in a request that does not store."""
    for word, option in OPTIONS.items():
        if word in options and not option.is_fetched:
            raise ClientError(why_no_option(word, verb))
    if "key" in options and "peek" not in options:
        raise ClientError(why_no_option("key", verb))


def _refuse_contradiction(options: frozenset[str], begins: bool) -> None:
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
    for word in sorted(options):
        needs = OPTIONS[word].needs
        if needs and options.isdisjoint(needs):
            raise ClientError(f"option {word} goes with {' and '.join(needs)}")
    views = [] if begins else sorted(options & _VIEWS)
    if views and "peek" not in options:
        raise ClientError(f"option {views[0]} goes with peek, for instance q/peek/after=0")
    if views and "dead" in options:
        raise ClientError(f"dead and {views[0]} contradict each other: it shows the dead anyway")
    if "dead" in options and "defer" in options:
        raise ClientError("option dead does not go with defer in this version yet")
    _refuse_by_key(options, views)


def _refuse_by_key(options: frozenset[str], views: list[str]) -> None:
    if "at_version" in options and not {"peek", "key"} <= options:
        raise ClientError(
            "option at_version goes with peek and key, for instance acc/key=A/peek/at_version=3"
        )
    if "peek" in options and "key" in options:
        for other in (*views, "dead", "t"):
            if other in options:
                raise ClientError(
                    f"key and {other} contradict each other: a key with peek shows one item of it"
                )
