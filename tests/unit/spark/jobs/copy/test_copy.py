"""Each item of a fleet is in the other one once, however often the job runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kestrelpy.spark.jobs.copy import main
from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw
from tests.unit.spark.jobs.backfill.test_backfill import servers, taken

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[list[DaemonProcess]]:
    with (
        DaemonProcess(tmp_path / "a") as one, DaemonProcess(tmp_path / "b") as other,
        DaemonProcess(tmp_path / "c") as third,
    ):  # fmt: skip
        yield [one, other, third]


def test_items_are_copied_once_with_flags_and_keys_and_the_source_keeps_them(
    spark: SparkSession, daemons: list[DaemonProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = daemons[:2], daemons[2:]
    for number, daemon in enumerate(source):
        client = daemon.client()
        client.get("jobs+audit/peek")
        for n in range(20):
            client.set("jobs", b"%d-%d" % (number, n % 15), flags=7)
        client.set("jobs/key=K", b"keyed")
        client.get("jobs/open")
    words = ["--servers", servers(source), "--queues", "jobs*", "--to", servers(target)]

    first = main(words)
    client = source[0].client()
    client.set("jobs", b"late")
    second = main(words)

    told = capsys.readouterr().out.splitlines()
    assert (first, second) == (0, 0)
    assert [line.partition(" ")[0] for line in told] == ["42", "1"]
    assert told[1].startswith("1 item copied, 42 were there already (--name ")
    assert target[0].client().gets("jobs/key=K/peek")[0] == b"keyed"
    with Raw(("127.0.0.1", target[0].port)) as raw:
        raw.send(b"get jobs/peek\r\n")
        assert raw.line().startswith(b"VALUE jobs/peek 7 ")
    copied = taken(target, "jobs")
    wanted = Counter(b"%d-%d" % (number, n % 15) for number in (0, 1) for n in range(20))
    assert copied == wanted + Counter([b"keyed", b"keyed", b"late"])
    assert b"queue_jobs+audit_items" not in target[0].client().stats()
    assert int(source[0].client().stats("jobs")[b"queue_jobs_total_items"]) == 22


def test_keys_are_copied_value_by_value_and_those_of_a_rule_are_made_again(
    spark: SparkSession, daemons: list[DaemonProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    rule = "key_format = 'json'\nkey = ['n']\n"
    source, target = daemons[0].client(), daemons[1].client()
    for client in (source, target):
        client.set("jobs/declare", rule)
    for words in ("A,B", "a%2Cb", "5", "%FF"):
        source.set(f"jobs/key={words}", words)
    source.set("jobs", '{"n": 5}')

    assert main(["--servers", servers(daemons[:1]), "--queues", "jobs", "--to",
                 servers(daemons[1:2])]) == 0  # fmt: skip

    assert "\n1 item with a key that a rule made: the target needs" in capsys.readouterr().out
    keys = [line.split(b" ")[9] for line in browsed(daemons[1])]
    assert sorted(keys) == sorted(line.split(b" ")[9] for line in browsed(daemons[0]))
    assert set(keys) == {b"A,B", b"a%2Cb", b'"5"', b"%FF", b"5"}


def browsed(daemon: DaemonProcess) -> list[bytes]:
    """The lines of all items of `jobs`."""
    lines = []
    with Raw(("127.0.0.1", daemon.port)) as raw:
        raw.send(b"gets jobs/peek/after=0/n=100/full\r\n")
        while (line := raw.line()) != b"END":
            lines.append(line)
            raw.line()
    return lines


def test_a_queue_that_was_made_again_is_another_source_and_a_server_on_both_sides_is_refused(
    spark: SparkSession, daemons: list[DaemonProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    client = daemons[0].client()
    words = ["--servers", servers(daemons[:1]), "--queues", "jobs", "--to", servers(daemons[1:2])]
    for body in (b"1", b"2"):
        client.set("jobs", body)
        assert main([*words, "--to-queue", "both"]) == 0
        client.delete("jobs")

    client.set("jobs", b"3")
    refused = main(["--servers", servers(daemons[:1]), "--queues", "jobs", "--to",
                    servers(daemons[:2])])  # fmt: skip

    assert taken(daemons[1:2], "both") == Counter([b"1", b"2"])
    assert refused == 2
    assert "is on both sides" in capsys.readouterr().err
