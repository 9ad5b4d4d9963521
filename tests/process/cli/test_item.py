"""`item show|cancel`, `dead ls|purge` and `queues pause|resume` against a running daemon."""

from __future__ import annotations

import json

from pymemcache.client.base import Client

from tests.process.cli.command import Command, counts
from tests.support.daemon import DaemonProcess


def shown(kestrelpy: Command, queue: str, number: int) -> dict[str, object]:
    facts: dict[str, object] = json.loads(
        kestrelpy("item", "show", queue, str(number), "--json").out
    )
    return facts


def kill(client: Client, queue: str, bodies: list[bytes]) -> None:
    """Store them and let each die of its only attempt (max_attempts = 1)."""
    for body in bodies:
        client.set(queue, body)
    for _ in bodies:
        client.get(f"{queue}/open")
        client.get(f"{queue}/abort")


def test_a_paused_queue_leases_nothing_until_it_is_resumed(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    kestrelpy("put", "still", "x")

    paused = kestrelpy("queues", "pause", "still")
    refused = [
        kestrelpy("get", "still"), kestrelpy("get", "still", "--wait", "10ms"),
        kestrelpy("get", "still/dead"),
        kestrelpy("work", "still", "--once", "--wait", "10ms", "--", "cat"),
    ]  # fmt: skip
    seen = kestrelpy("peek", "still").out
    table = kestrelpy("queues", "ls").out.decode()
    [row] = [line for line in table.splitlines() if line.startswith("still ")]
    why = shown(kestrelpy, "still", 1)["why"]
    resumed = kestrelpy("queues", "resume", "still")

    assert (paused.code, paused.out) == (
        0, b"still is paused: it stores, confirms and shows, and leases nothing\n",
    )  # fmt: skip
    said = "kestrelpy: still is paused and leases no item (kestrelpy queues resume still)\n"
    assert [(each.code, each.err) for each in refused] == [(1, said)] * 4
    assert seen == b"x"
    assert row.split()[-1] == why == "paused"
    assert (resumed.code, resumed.out) == (0, b"still leases again\n")
    assert kestrelpy("get", "still").out == b"x"


def test_an_unknown_queue_is_an_error(kestrelpy: Command) -> None:
    for words in (["queues", "pause", "absent"], ["item", "show", "absent", "1"],
                  ["item", "cancel", "absent", "1", "--yes"]):  # fmt: skip
        ended = kestrelpy(*words)
        assert ended.is_sentence(1), (words, ended)
        assert "kestrelpy: no queue absent\n" in ended.err
    assert kestrelpy("queues", "pause", "a b").is_sentence(2)
    assert kestrelpy("item", "show", "shown-1", "0").code == 2


def test_an_item_is_shown_with_why_it_is_not_delivered(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    for body in (b"first", b"second"):
        client.set("seen", body, flags=7)
    client.get("seen/open")

    leased, ready = shown(kestrelpy, "seen", 1), shown(kestrelpy, "seen", 2)
    text = kestrelpy("item", "show", "seen", "2").out.decode()
    client.get("seen/close")
    gone = kestrelpy("item", "show", "seen", "1")
    never = [
        kestrelpy("item", "show", "seen", "3"), kestrelpy("item", "retry", "seen", "3"),
        kestrelpy("item", "cancel", "seen", "3", "--yes"),
    ]  # fmt: skip

    assert (leased["state"], leased["bytes"], leased["attempts"]) == ("leased", 5, 0)
    assert str(leased["why"]).startswith("leased to 127.0.0.1:")
    assert next(iter(ready)) == "number"
    assert (ready["number"], ready["state"], ready["why"]) == (2, "ready", "it is next")
    assert ready["key"] is ready["holder"] is None
    rows = dict(line.split(maxsplit=1) for line in text.splitlines())
    assert (rows["number"], rows["state"], rows["why"], rows["bytes"]) == (
        "2", "ready", "it is next", "6",
    )  # fmt: skip
    assert "holder" not in rows
    assert (gone.code, gone.err) == (1, "")
    assert gone.out == (
        b"number  1\nstate   gone\nwhy     confirmed, expired or removed\n"
    )
    said = "kestrelpy: queue seen has no item 3, the latest is 2\n"
    assert [(each.code, each.err) for each in never] == [(1, said)] * 3


def test_a_waiting_item_is_cancelled_after_a_yes(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    for body in (b"1", b"2", b"3"):
        client.set("cancelled", body)
    client.get("cancelled/open")

    no = kestrelpy("item", "cancel", "cancelled", "2", stdin=b"n\n")
    yes = kestrelpy("item", "cancel", "cancelled", "2", stdin=b"y\n")
    leased = kestrelpy("item", "cancel", "cancelled", "1", "--yes")
    again = kestrelpy("item", "cancel", "cancelled", "2", stdin=b"y\n")

    assert no.code == 1
    assert "Item 2 of cancelled (1 bytes) goes. Remove it? [y/N]" in no.err
    assert yes.code == 0, yes
    assert yes.out.endswith(b"removed item 2 of cancelled\n")
    assert leased.is_sentence(1)
    assert "item 1 of cancelled does not wait: leased, leased to " in leased.err
    assert again.is_sentence(1)
    assert "item 2 of cancelled does not wait: gone" in again.err
    assert counts(daemon, "cancelled")["items"] == 1


def test_the_dead_are_listed_with_their_reasons(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    kill(daemon.client(), "frail", [b"one", b"three"])

    deaths = json.loads(kestrelpy("dead", "ls", "frail", "--json").out)
    head, *rows = kestrelpy("dead", "ls", "frail").out.decode().splitlines()
    kestrelpy("queues", "create", "unhurt")
    none = kestrelpy("dead", "ls", "unhurt")

    assert [(d["number"], d["attempts"], d["reason"], d["bytes"], d["state"]) for d in deaths] == [
        (1, 1, "abort", 3, "dead"), (2, 1, "abort", 5, "dead"),
    ]  # fmt: skip
    assert head.split() == ["number", "attempts", "bytes", "died", "state", "reason"]
    assert [row.split()[:3] + row.split()[-2:] for row in rows] == [
        ["1", "1", "3", "dead", "abort"], ["2", "1", "5", "dead", "abort"],
    ]  # fmt: skip
    assert (none.code, none.out, none.err) == (0, b"", "no dead letters in unhurt\n")


def test_the_dead_are_purged_one_some_or_all(kestrelpy: Command, daemon: DaemonProcess) -> None:
    client = daemon.client()
    kill(client, "frail-2", [b"%d" % n for n in range(600)])
    client.get("frail-2/dead/open")

    neither = kestrelpy("dead", "purge", "frail-2")
    no = kestrelpy("dead", "purge", "frail-2", "--all", stdin=b"\n")
    some = kestrelpy("dead", "purge", "frail-2", "3", "5", "--yes")
    missing = kestrelpy("dead", "purge", "frail-2", "3", "7", "--yes")
    everything = kestrelpy("dead", "purge", "frail-2", "--all", "--yes")

    assert neither.is_sentence(2)
    assert "say which items, or --all of them" in neither.err
    assert no.code == 1
    assert "600 dead letters of frail-2 go for good. Remove? [y/N]" in no.err
    assert (some.code, some.out) == (0, b"purged 2 dead letters of frail-2\n")
    assert (missing.code, missing.out) == (1, b"purged 1 dead letter of frail-2\n")
    assert missing.is_sentence(1)
    assert "frail-2: not among the dead letters: 3" in missing.err
    assert (everything.code, everything.out) == (1, b"purged 596 dead letters of frail-2\n")
    assert "frail-2: they are leased, so they stay: 1" in everything.err
    assert counts(daemon, "frail-2")["dead"] == 1
    client.get("frail-2/close")
    assert counts(daemon, "frail-2")["dead"] == 0


def test_a_delayed_item_says_until_when_and_is_available_when_it_is_retried(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    client = Client(("127.0.0.1", daemon.port), default_noreply=False)
    assert client.set("much-later/at=9999999999", b"x")

    before = shown(kestrelpy, "much-later", 1)
    for_people = kestrelpy("item", "show", "much-later", "1")
    nothing = kestrelpy("get", "much-later")
    retried = kestrelpy("item", "retry", "much-later", "1")
    again = kestrelpy("item", "retry", "much-later", "1")

    assert (before["state"], before["why"]) == ("delayed", "delayed until 9999999999000")
    assert b"delayed until 2286-11-20 17:46:39Z\n" in for_people.out
    assert nothing.is_sentence(1)
    assert (retried.code, retried.out) == (0, b"item 1 of much-later is available\n")
    assert again.is_sentence(1)
    assert "item 1 of much-later is not delayed: ready" in again.err
    assert kestrelpy("get", "much-later").out == b"x"


def test_a_retry_of_a_dead_item_names_the_redrive(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    client.set("late", b"x")
    client.get("late/open")
    client.get("late/abort/dead=no")

    told = kestrelpy("item", "retry", "late", "1")

    assert told.is_sentence(1)
    assert "(kestrelpy dead redrive late 1 has it tried again)" in told.err
