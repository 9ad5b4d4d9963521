"""`dead redrive` and `move` against a running daemon."""

from __future__ import annotations

import time

from pymemcache.client.base import Client

from tests.process.cli.command import Command, counts
from tests.support.daemon import DaemonProcess

AGELESS = b", without an expiry of their own\n"


def kill(client: Client, queue: str, bodies: list[bytes]) -> None:
    """Each dies: the queue must have max_attempts = 1."""
    assert client.set(f"{queue}/declare", b"max_attempts = 1")
    for body in bodies:
        client.set(queue, body)
        client.get(f"{queue}/open")
        client.get(f"{queue}/abort")


def all_of(client: Client, queue: str) -> list[bytes]:
    found = []
    while (body := client.get(queue)) is not None:
        found.append(body)
    return found


def test_dead_items_are_redriven_to_another_queue_some_by_text_or_all(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    kill(client, "poison", [b"%d" % n for n in range(10)] + [b"with needle", b"other"])
    client.set("poison", b"reason")
    client.get("poison/open")
    client.get("poison/abort/dead=the%20needle")

    neither = kestrelpy("dead", "redrive", "poison")
    dry = kestrelpy("dead", "redrive", "poison", "--all", "--filter", "needle", "--dry-run")
    no = kestrelpy("dead", "redrive", "poison", "--all", "--to", "again", stdin=b"\n")
    some = kestrelpy("dead", "redrive", "poison", "3", "1", "--to", "again", "--yes")
    missing = kestrelpy("dead", "redrive", "poison", "3", "4", "--to", "again", "--yes")
    found = kestrelpy(
        "dead", "redrive", "poison", "--all", "--filter", "needle", "--to", "found", "--yes"
    )
    rest = kestrelpy("dead", "redrive", "poison", "--all", "--to", "mended", "--yes")
    none = kestrelpy("dead", "redrive", "poison", "--all", "--to", "mended", "--yes")

    assert neither.is_sentence(2)
    assert dry.out.decode().splitlines() == [
        "would redrive 2 dead letters of poison back to its end, without an expiry",
        "  11  abort", "  13  the needle",
    ]  # fmt: skip
    assert no.code == 1
    asked = "13 dead letters of poison go to again, without an expiry of their own. Redrive? [y/N]"
    assert asked in no.err
    assert (some.code, some.out) == (0, b"redrove 2 dead letters of poison to again" + AGELESS)
    assert all_of(client, "again") == [b"2", b"0", b"3"]
    assert (missing.code, missing.out) == (1, b"redrove 1 dead letter of poison to again" + AGELESS)
    assert "poison: not among the dead letters: 3" in missing.err
    assert found.out == b"redrove 2 dead letters of poison to found" + AGELESS
    assert all_of(client, "found") == [b"with needle", b"reason"]
    assert rest.out == b"redrove 8 dead letters of poison to mended" + AGELESS
    assert none.out == b"redrove 0 dead letters of poison to mended\n"
    assert counts(daemon, "poison")["dead"] == 0
    assert counts(daemon, "mended")["items"] == 8


def test_a_filter_reads_the_bodies_of_items_that_were_delayed(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    client.set("late-poison/declare", b"max_attempts = 1")
    client.set("late-poison/delay=200ms", b"needle")
    kill(client, "late-poison", [b"early"])
    assert client.get("late-poison/open/t=10s") == b"needle"
    client.get("late-poison/abort")

    dry = kestrelpy("dead", "redrive", "late-poison", "--all", "--filter", "needle", "--dry-run")

    assert dry.out.decode().splitlines() == [
        "would redrive 1 dead letter of late-poison back to its end, without an expiry",
        "  1  abort",
    ]  # fmt: skip


def test_a_number_of_items_or_all_are_moved_in_sequence(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    for n in range(1000):
        client.set("origin", b"%d" % n, noreply=True)
    client.get("origin/open")

    dry = kestrelpy("move", "origin", "goal", "--dry-run")
    no = kestrelpy("move", "origin", "goal", stdin=b"no\n")
    some = kestrelpy("move", "origin", "goal", "--count", "3", "--yes")
    rest = kestrelpy("move", "origin", "goal", "--yes")
    none = kestrelpy("move", "origin", "goal", "--yes")
    absent = kestrelpy("move", "nowhere-at-all", "goal", "--yes")
    itself = kestrelpy("move", "origin", "origin", "--yes")

    assert dry.out == b"would move 999 items from origin to goal\n"
    assert no.code == 1
    assert some.out == b"moved 3 items from origin to goal\n"
    assert rest.out == b"moved 996 items from origin to goal\n"
    assert (none.code, none.out) == (0, b"moved 0 items from origin to goal\n")
    assert absent.is_sentence(1)
    assert itself.code == 0, "there is nothing left to be moved, so nothing is asked"
    assert all_of(client, "goal") == [b"%d" % n for n in range(1, 1000)]


def test_a_target_that_is_full_leaves_the_rest_and_says_so(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    client.set("narrow/declare", b"max_items = 5")
    for n in range(9):
        client.set("wide", b"%d" % n)

    ended = kestrelpy("move", "wide", "narrow", "--yes")
    again = kestrelpy("move", "wide", "narrow", "--yes")

    assert (ended.code, ended.out) == (1, b"moved 5 items from wide to narrow\n")
    assert "wide: 4 stay" in ended.err
    assert (again.code, again.out) == (1, b"moved 0 items from wide to narrow\n")
    assert "the rest stays: queue narrow is full" in again.err
    assert counts(daemon, "wide")["items"] == 4


def test_to_no_queue_is_one_sentence_and_moves_nothing(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    client.set("unset", b"x")
    client.get("unset/open")
    client.get("unset/abort/dead")

    assert kestrelpy("dead", "redrive", "unset", "--all", "--to", "", "--yes").is_sentence(2)
    assert counts(daemon, "unset")["dead"] == 1


def test_a_rate_is_observed(kestrelpy: Command, daemon: DaemonProcess) -> None:
    client = daemon.client()
    for n in range(40):
        client.set("paced", b"%d" % n)

    wrong = kestrelpy("move", "paced", "slow", "--rate", "fast")
    began = time.monotonic()
    ended = kestrelpy("move", "paced", "slow", "--rate", "20/s", "--yes")

    assert wrong.is_sentence(2)
    assert ended.out == b"moved 40 items from paced to slow\n"
    assert time.monotonic() - began >= 1
