"""Items on the wire."""

from __future__ import annotations

from journal.format.key import text_of
from kestrelpy.core.item import Item
from kestrelpy.protocol.verbs.value_line import Shape, date_words, full_value, state_words, value

ITEM = Item(7, 7, b"body", 3, 1000, 2000)


def test_the_lines_of_an_answer_are_those_of_one_item() -> None:
    for numbered in (False, True):
        shape = Shape(b"q/peek", numbered, False)
        [line] = shape.lines([ITEM.put])
        assert line + b"END\r\n" == value(b"q/peek", ITEM, b"END\r\n", 7 * numbered)
    [line] = Shape(b"q/peek", True, True).lines([ITEM.put])
    words = b"%b %b" % (date_words(ITEM.expires_ms), state_words(b"lent", 2))
    whole = line + words + b"\r\nbody\r\nEND\r\n"
    assert whole == full_value(b"q/peek", ITEM, b"END\r\n", 7, b"lent", 2)


def test_an_absent_value_is_a_dash() -> None:
    item = Item(7, 7, b"", 0, 1000, 0)
    assert full_value(b"q", item, b"", 7, b"ready", 0) == (
        b"VALUE q 0 0 7 1000 - 0 ready - -\r\n\r\n"
    )


def test_keys_and_ids_stay_one_word_each() -> None:
    words = state_words(b"ready", 0, text_of(b"a b\r\n%\xff"), b"-")
    assert words == b"0 ready a%20b%0D%0A%25%FF -"
