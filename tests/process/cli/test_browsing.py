"""`items ls` and `items show`: items by marker, and nothing is taken."""

from __future__ import annotations

import json

from tests.process.cli.command import Command, counts
from tests.support.daemon import DaemonProcess


def test_items_are_listed_in_sequence_and_stay(kestrelpy: Command, daemon: DaemonProcess) -> None:
    client = daemon.client()
    for number in range(1200):
        client.set("browsed", b"body %d" % number)
    client.get("browsed/open")

    head, first, second = (
        kestrelpy("items", "ls", "browsed", "-n", "2", "--body").out.decode().splitlines()
    )
    every = json.loads(kestrelpy("items", "ls", "browsed", "--count", "5000", "--json").out)
    later = json.loads(kestrelpy("items", "ls", "browsed", "--after", "1198", "--json").out)

    assert head.split() == [
        "marker", "state", "attempts", "bytes", "stored", "expires", "key", "id", "body",
    ]  # fmt: skip
    assert first.split()[:4] == ["1", "leased", "0", "6B"]
    assert first.endswith("body 0")
    assert second.split()[:4] == ["2", "ready", "0", "6B"]
    assert [each["marker"] for each in every] == list(range(1, 1201))
    assert [each["marker"] for each in later] == [1199, 1200]
    assert "body" not in every[0]
    assert counts(daemon, "browsed")["items"] == 1199


def test_an_item_is_shown_by_its_marker(kestrelpy: Command, daemon: DaemonProcess) -> None:
    kestrelpy("put", "one", "zwölf", "--id", "4711", "--key", "A", "--key", "b,c", "--expire", "1h")
    daemon.client().set("one", b"\xff\r\nEND\r\n", flags=7)

    shown = kestrelpy("items", "show", "one", "1", "--body").out.decode().splitlines()
    facts = json.loads(kestrelpy("items", "show", "one", "1", "--body", "--json").out)
    binary = json.loads(kestrelpy("items", "show", "one", "2", "--body", "--json").out)
    raw = kestrelpy("items", "show", "one", "2", "--body").out

    assert [line.split(maxsplit=1) for line in shown[:5]] == [
        ["marker", "1"], ["state", "ready"], ["attempts", "0"], ["bytes", "6B"], ["flags", "0"],
    ]  # fmt: skip
    assert shown[-2:] == ["", "zwölf"]
    assert (facts["body"], facts["id"], facts["key"]) == ("zwölf", "4711", "A,b%2Cc")
    assert facts["expires_ms"] - facts["stored_ms"] == 3_600_000
    assert (binary["body_base64"], binary["flags"], binary["id"]) == ("/w0KRU5EDQo=", 7, None)
    assert raw.endswith(b"\n\n\xff\r\nEND\r\n")


def test_control_characters_of_a_body_do_not_reach_the_table(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    daemon.client().set("evil", b"\x1b[2Jgone\nnew line" + b"x" * 500)

    out = kestrelpy("items", "ls", "evil", "--body").out

    assert b"\x1b" not in out
    assert b".[2Jgone.new linexxx" in out
    assert out.count(b"\n") == 2


def test_a_marker_without_an_item_is_exit_code_1(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    for body in (b"1", b"2"):
        client.set("holes", body)
    client.get("holes")

    gone = kestrelpy("items", "show", "holes", "1")
    beyond = kestrelpy("items", "show", "holes", "9")
    empty = kestrelpy("items", "ls", "holes", "--after", "2")

    assert gone.is_sentence(1), gone
    assert "holes: there is no item with marker 1; the next one is 2" in gone.err
    assert beyond.is_sentence(1), beyond
    assert beyond.err.endswith("no item with marker 9\n")
    assert (empty.code, empty.out, empty.err) == (0, b"", "no items in holes after marker 2\n")
