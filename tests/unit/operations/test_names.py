"""Names of queues and of their children: a + has one meaning."""

from __future__ import annotations

import pytest

from kestrelpy.errors import ClientError
from kestrelpy.operations.names import NAME_BYTES_MAX, check_name, parent_of, readable


@pytest.mark.parametrize(
    "name",
    [
        b"q", b"a:b.c-d_e", b"!~", b"orders+audit", b"q" * NAME_BYTES_MAX, b"a=b?", b"...", b".a",
        b"a+..",
    ],
)
def test_printable_ascii_is_a_name(name: bytes) -> None:
    check_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (b"", "queue name missing"),
        (b"q" * (NAME_BYTES_MAX + 1), "queue name too long (129 bytes, limit 128)"),
        (b"a b", "bad queue name: printable ASCII without blanks is allowed"),
        (b"a\x7f", "bad queue name: printable ASCII without blanks is allowed"),
        (b"a\x00", "bad queue name: printable ASCII without blanks is allowed"),
        (b"\xc3\xbc", "bad queue name: printable ASCII without blanks is allowed"),
        (b"a+b+c", "a child has no children: a child's name is <queue>+<child>, with one +"),
        (b"+b", "bad queue name: + names a fan-out child, <queue>+<child>"),
        (b"a+", "bad queue name: + names a fan-out child, <queue>+<child>"),
        (b".", "bad queue name: . and .. are no names"),
        (b"..", "bad queue name: . and .. are no names"),
        (b"..+b", "bad queue name: . and .. are no names"),
    ],
)
def test_anything_else_is_refused_with_the_reason(name: bytes, reason: str) -> None:
    with pytest.raises(ClientError) as caught:
        check_name(name)

    assert str(caught.value).startswith(reason)


def test_a_child_reads_the_queue_before_the_plus() -> None:
    assert parent_of(b"orders+audit") == b"orders"
    assert parent_of(b"orders") == b""


def test_any_word_is_shown_in_printable_ascii() -> None:
    assert readable(b"open") == "open"
    assert readable(b"a\r\n\xff") == r"a\r\n\xff"
    assert readable(b"it's") == "it's"
