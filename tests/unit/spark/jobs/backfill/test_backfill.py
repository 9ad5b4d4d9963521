"""Each row of some files is in the queue once, however often the job runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kestrelpy.spark.jobs.backfill.backfill import main
from tests.support.daemon import DaemonProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[list[DaemonProcess]]:
    with DaemonProcess(tmp_path / "a") as one, DaemonProcess(tmp_path / "b") as other:
        yield [one, other]


def servers(daemons: list[DaemonProcess]) -> str:
    return ",".join(f"127.0.0.1:{daemon.port}" for daemon in daemons)


def taken(daemons: list[DaemonProcess], queue: str) -> Counter[bytes]:
    """Take every item of a queue."""
    bodies: Counter[bytes] = Counter()
    for daemon in daemons:
        client = daemon.client()
        while (body := client.get(queue)) is not None:
            bodies[body] += 1
        client.close()
    return bodies


def run(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    code = main([*words, "--json"])
    told = capsys.readouterr()
    assert code == 0, told.err
    facts: dict[str, Any] = json.loads(told.out)
    return facts


@pytest.mark.slow
def test_lines_are_stored_once_over_two_servers_and_a_second_run_adds_what_came(
    spark: SparkSession, daemons: list[DaemonProcess], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = [f"line {n} ä" for n in range(200)] + ["same", "same", ""]
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(lines) + "\n")
    words = [str(file), "--servers", servers(daemons), "--queue", "lines"]

    first = run(capsys, *words)
    file.write_text("\n".join([*lines, "same", "late"]) + "\n")
    second = run(capsys, *words)

    assert (first["rows"], second["rows"], first["name"]) == (203, 205, second["name"])
    wanted = Counter(line.encode() for line in [*lines, "same", "late"])
    assert taken(daemons, "lines") == wanted
    assert run(capsys, *words)["rows"] == 205
    assert taken(daemons, "lines") == Counter()


@pytest.mark.slow
def test_rows_of_parquet_and_csv_are_objects_or_one_column(
    spark: SparkSession, daemons: list[DaemonProcess], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spark.createDataFrame([(1, "x"), (2, None)], "n int, word string").write.parquet(
        str(tmp_path / "rows.parquet")
    )
    (tmp_path / "rows.csv").write_text("n,word\n3,y\n3,z\n")
    where = ["--servers", servers(daemons)]

    run(capsys, str(tmp_path / "rows.parquet"), *where, "--queue", "rows")
    run(capsys, str(tmp_path / "rows.csv"), *where, "--queue", "words", "--value", "word",
        "--id", "n", "--key", "n")  # fmt: skip

    assert taken(daemons, "rows") == Counter([b'{"n":1,"word":"x"}', b'{"n":2}'])
    assert taken(daemons, "words") in (Counter([b"y"]), Counter([b"z"]))  # one id: one item


@pytest.mark.slow
def test_a_run_over_other_servers_is_refused(
    spark: SparkSession, daemons: list[DaemonProcess], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("1\n2\n")
    run(capsys, str(file), "--servers", servers(daemons), "--queue", "lines")

    code = main([str(file), "--servers", servers(daemons[:1]), "--queue", "lines"])

    assert code == 2
    assert "rows would be doubled" in capsys.readouterr().err
    assert taken(daemons, "lines") == Counter([b"1", b"2"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.txt"], "There is no file nowhere.txt."),
        ([__file__], "Say --format with one of text, json, csv, parquet."),
        ([__file__, "--format", "text", "--key", "k"], "--value, --id and --key do not go with it"),
        ([__file__, "--format", "text", "--queue", "a b"], "is not the name of a queue"),
        ([__file__, "--format", "text", "--option", "writeTimout=1s"], "Did you mean writeTimeout"),
        ([__file__, "--format", "text", "--option", "x"], "--option 'x' is not understood"),
    ],
)
def test_bad_input_is_one_sentence_before_spark_starts(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    code = main(["--servers", "127.0.0.1:1", "--queue", "q", *words])

    told = capsys.readouterr()
    assert code == 2
    assert said in told.err
    assert told.err.count("\n") == 1
