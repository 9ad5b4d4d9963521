"""Each row of some files is in the queue once, however often the job runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kestrelpy.spark.jobs.backfill import main
from tests.support.daemon import DaemonProcess


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
    daemons: list[DaemonProcess], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"line {n} ä" for n in range(200)] + ["same", "same", ""]
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(lines) + "\n")
    words = [str(file), "--servers", servers(daemons), "--queue", "lines"]

    first = run(capsys, *words)
    file.write_text("\n".join([*lines, "same", "late"]) + "\n")
    second = run(capsys, *words)

    assert [(each["rows"], each["stored"], each["repeated"]) for each in (first, second)] == [
        (203, 203, 0), (205, 2, 203)
    ]  # fmt: skip
    assert first["name"] == second["name"]
    wanted = Counter(line.encode() for line in [*lines, "same", "late"])
    assert taken(daemons, "lines") == wanted
    assert run(capsys, *words)["repeated"] == 205
    assert taken(daemons, "lines") == Counter()


@pytest.mark.slow
def test_rows_leave_the_queue_file_by_file_and_line_by_line(
    daemons: list[DaemonProcess], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = iter(range(3_000))
    for name in ("2.csv", "1.csv", "3.csv"):
        (tmp_path / name).write_text("n,k\n" + "".join(f"{next(numbers)},k\n" for _ in range(1000)))
    files = [str(tmp_path / "2.csv"), str(tmp_path / "[13].csv")]

    for queue, key in (("plain", []), ("keyed", ["--key", "k"])):
        told = run(capsys, *files, "--servers", servers(daemons[:1]), "--queue", queue,
                   "--value", "n", *key)  # fmt: skip
        assert (told["stored"], told["files"], told["in_order"]) == (3_000, 3, True)
        client = daemons[0].client()
        assert [client.get(queue) for _ in range(3_000)] == [b"%d" % n for n in range(3_000)]
        client.close()


@pytest.mark.slow
def test_rows_of_parquet_and_csv_are_objects_or_one_column(
    daemons: list[DaemonProcess], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.parquet"
    rows.mkdir()
    pq.write_table(pa.table({"n": [1, 2], "word": ["x", None]}), rows / "part-0.parquet")
    (rows / "_SUCCESS").write_text("")
    (tmp_path / "rows.csv").write_text("n,word\n3,y\n4,z\n")
    where = ["--servers", servers(daemons)]

    run(capsys, str(rows), *where, "--queue", "rows")
    run(capsys, str(tmp_path / "rows.csv"), *where, "--queue", "words", "--value", "word",
        "--id", "n", "--key", "n")  # fmt: skip

    assert taken(daemons, "rows") == Counter([b'{"n":1,"word":"x"}', b'{"n":2}'])
    assert taken(daemons, "words") == Counter([b"y", b"z"])


@pytest.mark.slow
@pytest.mark.parametrize("key", [[], ["--key", "n"]])
def test_rows_of_one_id_that_differ_are_named_and_the_exit_code_is_1(
    daemons: list[DaemonProcess], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    key: list[str],
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text('n,word\n3,y\n3,y\n3,"z\n"\n4,x\n')
    words = [str(file), "--servers", servers(daemons), "--queue", "words", "--id", "n", *key]

    for stored, repeated in ((2, 1), (0, 3)):
        assert main([*words, "--json"]) == 1
        told = json.loads(capsys.readouterr().out)
        assert (told["rows"], told["stored"], told["repeated"]) == (4, stored, repeated)
        assert told["differing_rows"] == [f"id 3: {file}, line 2, and {file}, line 4"]
    assert main(words) == 1
    assert f"id 3: {file}, line 2, and {file}, line 4" in capsys.readouterr().out


@pytest.mark.slow
def test_a_file_with_a_mistake_at_its_end_stores_nothing(
    daemons: list[DaemonProcess], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "1.csv").write_text("n\n1\n")
    (tmp_path / "2.csv").write_text("n\n" + "1\n" * 2_000 + "1,2\n")
    words = ["--servers", servers(daemons), "--queue", "q"]

    assert main([str(tmp_path / "*.csv"), *words]) == 2
    told = capsys.readouterr().err
    assert f"{tmp_path}/2.csv, line 2002: it has 2 fields, and the header has 1. Nothing" in told
    (tmp_path / "3.csv").write_text("n\n7\n\n")
    assert main([str(tmp_path / "3.csv"), *words, "--id", "n"]) == 2
    assert "3.csv, line 3: The row with id \"\" cannot be written" in capsys.readouterr().err
    (tmp_path / "3.csv").write_text(f"n\n{'7' * 300}\n")
    assert main([str(tmp_path / "3.csv"), *words, "--id", "n"]) == 2
    assert "3.csv, line 2: The row with id" in capsys.readouterr().err
    assert taken(daemons, "q") == Counter()


@pytest.mark.slow
def test_a_run_over_other_servers_is_refused(
    daemons: list[DaemonProcess], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("1\n2\n")
    run(capsys, str(file), "--servers", servers(daemons), "--queue", "lines")

    code = main([str(file), "--servers", servers(daemons[:1]), "--queue", "lines"])

    assert code == 2
    assert "rows would be doubled" in capsys.readouterr().err
    assert taken(daemons, "lines") == Counter([b"1", b"2"])


def test_a_backfill_starts_no_spark() -> None:
    code = (
        "import sys; import kestrelpy.spark.jobs.backfill; "
        "sys.exit(int('pyspark' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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
def test_bad_input_is_one_sentence(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    code = main(["--servers", "127.0.0.1:1", "--queue", "q", *words])

    told = capsys.readouterr()
    assert code == 2
    assert said in told.err
    assert told.err.count("\n") == 1
