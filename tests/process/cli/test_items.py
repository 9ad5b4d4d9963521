"""`put`, `get`, `peek`: exactly the bytes, and a confirm only after they are written out."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path

import pytest

from tests.process.cli.command import Command, counts, eventually
from tests.process.cli.terminal import Terminal
from tests.support.daemon import DaemonProcess

SOURCE = Path(__file__).parents[3]

BINARY = bytes(range(256)) + b"\r\nEND\r\n"


def test_get_prints_the_bytes_of_put_exactly(kestrelpy: Command) -> None:
    stored = kestrelpy("put", "bytes", stdin=BINARY)
    again = kestrelpy("put", "bytes", "-", stdin=b"")

    assert (stored.code, stored.out) == (0, b"stored 1 item in bytes\n"), stored
    assert again.code == 0
    assert kestrelpy("get", "bytes").out == BINARY
    empty = kestrelpy("get", "bytes")
    assert (empty.code, empty.out, empty.err) == (0, b"", "")


def test_text_of_the_command_line_is_stored_as_it_was_typed(kestrelpy: Command) -> None:
    kestrelpy("put", "typed", "zwölf")
    kestrelpy("put", "typed", os.fsdecode(b"\xff"))
    kestrelpy("put", "typed", "--", "--lines")

    assert kestrelpy("get", "typed").out == "zwölf".encode()
    assert kestrelpy("get", "typed").out == b"\xff"
    assert kestrelpy("get", "typed").out == b"--lines"


def test_lines_become_items_without_their_line_ends(kestrelpy: Command) -> None:
    stored = kestrelpy("put", "lines", "--lines", stdin=b"one\ntwo\r\n\nfour")

    assert stored.out == b"stored 4 items in lines\n"
    assert [kestrelpy("get", "lines").out for _ in range(4)] == [b"one", b"two", b"", b"four"]


def test_nothing_there_is_exit_code_1(kestrelpy: Command) -> None:
    kestrelpy("queues", "create", "empty")
    for words in (["get"], ["peek"], ["get", "--peek"], ["get", "--wait", "10ms"]):
        ended = kestrelpy(*words, "empty")

        assert ended.is_sentence(1), ended
        assert "empty: no item is ready" in ended.err
        assert ended.out == b""


def test_peek_leaves_the_item_where_it_is(kestrelpy: Command, daemon: DaemonProcess) -> None:
    kestrelpy("put", "shown", "body")

    assert kestrelpy("peek", "shown").out == b"body"
    assert kestrelpy("get", "shown", "--peek").out == b"body"
    assert counts(daemon, "shown")["items"] == 1


def test_a_body_at_a_terminal_ends_its_line(kestrelpy: Command, tmp_path: Path) -> None:
    for body in ("no line end", "a line\n", ""):
        kestrelpy("put", "screened", stdin=body.encode())
        words = [sys.executable, "-m", "kestrelpy", "get", "screened"]
        environment = {"KESTRELPY_SERVER": kestrelpy.server, "PYTHONPATH": str(SOURCE)}
        with Terminal(words, tmp_path, environment) as terminal:
            assert terminal.end() == 0
            assert terminal.text.replace("\r\n", "\n") == body.removesuffix("\n") + "\n"


def test_get_waits_for_an_item(kestrelpy: Command, daemon: DaemonProcess) -> None:
    daemon.client().set("awaited", b"1")
    daemon.client().get("awaited")  # creates the queue, so that it shows its waiters
    waiting = kestrelpy.start("get", "awaited", "--wait", "1m")
    eventually(lambda: counts(daemon, "awaited")["waiters"] == 1)

    daemon.client().set("awaited", b"at last")

    assert kestrelpy.finish(waiting).out == b"at last"
    assert counts(daemon, "awaited")["open_transactions"] == 0


def test_an_item_that_cannot_be_written_out_stays_in_its_queue(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    kestrelpy("put", "precious", "body")

    process = kestrelpy.start("get", "precious")
    assert process.stdout is not None
    process.stdout.close()  # the reader of our output is gone
    assert process.stderr is not None
    said = process.stderr.read().decode()

    assert process.wait(30) == 1
    assert said.startswith("kestrelpy: the item stays in its queue: standard output: ")
    assert said.count("\n") == 1
    eventually(lambda: counts(daemon, "precious")["items"] == 1)
    assert daemon.client().get("precious") == b"body"


def test_a_full_queue_is_exit_code_1_and_says_how_far_it_got(kestrelpy: Command) -> None:
    ended = kestrelpy("put", "full", "--lines", stdin=b"fits\ndoes not\n")

    assert ended.is_sentence(1), ended
    assert "full: the queue is full; 1 item stored before that" in ended.err
    assert ended.out == b""


def test_an_item_with_an_expiry_expires(kestrelpy: Command, daemon: DaemonProcess) -> None:
    before_put = time.monotonic()
    kestrelpy("put", "milk", "sour", "--expire", "3s")
    assert daemon.client().get("milk/peek") == b"sour"

    eventually(lambda: daemon.client().get("milk/peek") is None, 20)

    assert time.monotonic() - before_put > 2.9


def test_a_long_expiry_is_seconds_too_not_a_date(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    kestrelpy("put", "wine", "good", "--expire", "40d")

    assert daemon.client().get("wine") == b"good"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["put", "a b", "x"], "\"a b\" is not a queue's name"),
        (["put", "ü", "x"], "is not a queue's name"),
        (["put", "q/nonsense", "x"], "refused: unknown option nonsense"),
        (["get", "q+child+child"], "a child has no children"),
        (["put", "", "x"], "the empty text is not a queue's name"),
        (["get", "q", "--wait", "5"], '--wait: "5" is not a duration'),
        (["put", "q", "x", "--expire", "5"], '--expire: "5" is not a duration'),
        (["put", "q", "x", "--expire", "5ms"], '"5ms" must be whole seconds, at least 1s'),
        (["put", "q", "x", "--delay", "5"], '--delay: "5" is not a duration'),
        (["put", "q", "x", "--delay", "5s", "--at", "2030-01-01T00:00Z"], "do not go together"),
        (["put", "q", "x", "--at", "17"], '"17" is not a date with a time'),
        (["put", "q", "x", "--at", "2030-01-01"], '"2030-01-01" is not a date with a time'),
        (["put", "q", "x", "--id", ""], "--id: it must not be empty"),
        (["put", "q", "--lines", "--id", "7"], "--id and --lines do not go together"),
        (["put", "q", "x", "--id", "i" * 250], "takes 255 bytes on the wire, limit 250"),
        (["get", "q", "--wait", "5s", "--peek"], "--peek and --wait do not go together"),
        (["get", "q", "--server", "somewhere"], "'somewhere' is not a server's address"),
        (["get", "q", "--server", "host:0"], "'host:0' is not a server's address"),
    ],
)
def test_wrong_usage_is_one_sentence(kestrelpy: Command, words: list[str], said: str) -> None:
    ended = kestrelpy(*words)

    assert ended.is_sentence(2), ended
    assert said in ended.err


def test_a_server_that_refuses_now_is_exit_code_1(
    kestrelpy: Command, tmp_path: Path, daemon: DaemonProcess
) -> None:
    with DaemonProcess(tmp_path / "data") as other:
        other.client().raw_command("status readonly")

        ended = kestrelpy("put", "q", "x", "--server", f"127.0.0.1:{other.port}")

    assert ended.is_sentence(1), ended
    assert "refused: readonly" in ended.err


def test_a_delayed_item_is_available_when_it_is_due(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    kestrelpy("put", "later", "in an hour", "--delay", "1h")
    kestrelpy("put", "later", "in 2100", "--at", "2100-01-01T00:00:00Z")
    assert counts(daemon, "later")["delayed"] == 2
    kestrelpy("put", "later", "was due", "--at", "2020-01-01 00:00:00+01:00")
    kestrelpy("put", "later", "soon", "--delay", "200ms")

    assert kestrelpy("get", "later").out == b"was due"
    assert kestrelpy("get", "later", "--wait", "20s").out == b"soon"
    assert counts(daemon, "later")["delayed"] == 2


def test_an_id_is_stored_once(kestrelpy: Command, daemon: DaemonProcess) -> None:
    for body in ("first", "again"):
        ended = kestrelpy("put", "once", body, "--id", "a/b c")
        assert (ended.code, ended.out) == (0, b"stored id a/b c in once, now or before\n"), ended

    assert daemon.client().get("once") == b"first"
    assert counts(daemon, "once")["items"] == 0


def test_items_of_one_key_are_leased_one_after_the_other(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    for body in ("first", "second"):
        kestrelpy("put", "keyed", body, "--key", "A,B", "--key", "zwölf")
    kestrelpy("put", "keyed", "other", "--key", "A", "--key", "B")

    holder = daemon.client()
    assert holder.get("keyed/open") == b"first"
    assert kestrelpy("get", "keyed").out == b"other"


def test_a_put_without_an_answer_says_that_nobody_knows(kestrelpy: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        ended = kestrelpy("put", "q", "x", "--server", server, "--timeout", "100ms")

    assert ended.is_sentence(2), ended
    assert "no answer within 100ms (--timeout)" in ended.err
    assert "whether the item is stored is not known" in ended.err


def test_json_says_of_an_item_what_people_see(kestrelpy: Command) -> None:
    assert json.loads(kestrelpy("put", "as-json", "zw\u00f6lf", "--json").out) == {
        "queue": "as-json", "stored": 1,
    }  # fmt: skip
    put = kestrelpy("put", "as-json", "--id", "a", "--json", stdin=b"\xff")
    assert json.loads(put.out) == {"queue": "as-json", "stored": 1, "id": "a"}
    facts = {"queue": "as-json", "bytes": 6, "flags": 0, "body": "zw\u00f6lf"}
    assert json.loads(kestrelpy("peek", "as-json", "--json").out) == facts
    assert json.loads(kestrelpy("get", "as-json", "--json").out) == facts
    binary = {"queue": "as-json", "bytes": 1, "flags": 0, "body_base64": "/w=="}
    assert json.loads(kestrelpy("get", "as-json", "--json").out) == binary
    assert kestrelpy("get", "as-json", "--json").code == 1


def test_json_of_a_move_has_its_count(kestrelpy: Command) -> None:
    kestrelpy("put", "move-json", "a\nb", "--lines")
    words = ("move", "move-json", "moved-json", "--json")
    to = {"queue": "move-json", "to": "moved-json"}
    assert json.loads(kestrelpy(*words, "--dry-run").out) == {**to, "would_move": 2}
    assert json.loads(kestrelpy(*words, "--yes").out) == {**to, "moved": 2}
    redriven = kestrelpy("dead", "redrive", "moved-json", "--all", "--json", "--yes")
    assert json.loads(redriven.out) == {"queue": "moved-json", "to": "moved-json", "redriven": 0}


def test_delayed_items_are_listed_after_the_others(kestrelpy: Command) -> None:
    kestrelpy("put", "listed-late", "now")
    kestrelpy("put", "listed-late", "later", "--delay", "2h", "--key", "K")
    kestrelpy("put", "listed-late", "sooner", "--delay", "1h")
    listed = json.loads(kestrelpy("items", "ls", "listed-late", "--json").out)
    assert [(each["marker"], each["state"]) for each in listed] == [
        (1, "ready"), (None, "delayed"), (None, "delayed"),
    ]  # fmt: skip
    assert [each["number"] for each in listed[1:]] == [3, 2], "the one that is due first"
    assert [each["key"] for each in listed[1:]] == [None, "K"]
    assert listed[2]["due_ms"] - listed[1]["due_ms"] > 3_500_000
    assert len(json.loads(kestrelpy("items", "ls", "listed-late", "-n", "2", "--json").out)) == 2
    assert b"delayed until" in kestrelpy("items", "ls", "listed-late").out


def test_each_row_of_a_listing_has_all_names(kestrelpy: Command) -> None:
    for more in ((), ("--delay", "1h")):
        kestrelpy("put", "all-names", "x", "--key", "A B", *more)
    one, other = json.loads(kestrelpy("items", "ls", "all-names", "--json").out)
    assert one.keys() == other.keys()
    assert one["key"] == other["key"]


def test_whatever_is_done_is_said_in_json(kestrelpy: Command) -> None:
    for words, said in (
        ("queues create done --set lease=1m", {"made": True}),
        ("queues create done --set lease=1m", {"made": False}),
        ("queues pause done", {"paused": True}),
        ("queues resume done", {"paused": False}),
        ("put done x --delay 1h", {"stored": 1}),
        ("put done y --delay 1h", {"stored": 1}),
        ("item retry done 1", {"available": 1}),
        ("item cancel done 1 --yes", {"removed": 1}),
        ("queues flush done --yes", {"flushed": 1}),
        ("queues acknowledge done --yes", {"given_up": 0}),
        ("dead purge done --all --yes", {"purged": 0}),
        ("queues delete done --yes", {"deleted": 0}),
    ):
        ended = kestrelpy(*words.split(), "--json")
        assert (ended.code, ended.err) == (0, ""), ended
        assert json.loads(ended.out) == {"queue": "done", **said}


def test_a_question_is_not_in_what_a_program_reads(kestrelpy: Command) -> None:
    kestrelpy("put", "asked-json", "x")
    ended = kestrelpy("queues", "delete", "asked-json", "--json", stdin=b"y\n")
    assert json.loads(ended.out) == {"queue": "asked-json", "deleted": 1}
    assert "Delete? [y/N]" in ended.err


def test_times_of_status_are_in_ms(kestrelpy: Command) -> None:
    facts = json.loads(kestrelpy("status", "--json").out)
    assert {"uptime_ms", "time_ms"} <= facts.keys()
    assert not {"uptime", "time"} & facts.keys()
    assert abs(facts["time_ms"] - time.time() * 1000) < 60_000
