"""`python -m journal`: lines a person can read, exit codes a script can use, never a traceback.

Promise: verify.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from journal.__main__ import DAMAGED, UNUSABLE, WELL, _percent, _reason, main, report_facts
from journal.files import Disk
from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind
from journal.format.record import Draft
from journal.format.segment import segment_name
from journal.sets.id_set import IdSet
from journal.tools.dump import utc
from journal.tools.repair import Repair
from journal.tools.verify import LOCK, Report, check_journal
from tests.golden.build import GOLDEN
from tests.golden.layout import TIME_MS, SegmentBuilder, draft

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).resolve().parents[3]
OPENING = Checkpoint(name=b"jobs", generation=1)


def journal_of(folder: Path, *drafts: Draft, closed: bool = True) -> SegmentBuilder:
    one = SegmentBuilder(1, 8192, 1, OPENING)
    one.batch(*drafts)
    if closed:
        one.batch(synced=len(drafts))
    one.write_to(folder)
    return one


def put(item: int, body: bytes = b"hello") -> Draft:
    return draft(Kind.PUT, item, item, 0, body)


def damage(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


# -- dump ----------------------------------------------------------------------------------------


def test_dump_prints_where_which_when_and_what(tmp_path: Path, capsys: Capture) -> None:
    journal_of(tmp_path / "jobs.1", put(1), draft(Kind.DONE, 1, 5, 1, time_ms=TIME_MS + 7))
    assert main(["dump", str(tmp_path)]) == WELL
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "jobs.1:",
        "0000000001:264       lsn 1  2026-01-02T03:04:05.000Z  put 1 hello",
        "0000000001:336       lsn 2  2026-01-02T03:04:05.007Z  done 1",
    ]
    assert err == ""


def test_dump_takes_one_queue_s_folder_too(tmp_path: Path, capsys: Capture) -> None:
    journal_of(tmp_path / "jobs.1", put(1))
    journal_of(tmp_path / "other.1", put(1))
    assert main(["dump", str(tmp_path / "jobs.1")]) == WELL
    out = capsys.readouterr().out
    assert "jobs.1:" in out
    assert "other" not in out


def test_dump_begins_at_the_given_lsn(tmp_path: Path, capsys: Capture) -> None:
    journal_of(tmp_path, *(put(n) for n in range(1, 6)))
    assert main(["dump", str(tmp_path), "--lsn-from", "4"]) == WELL
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split("  ")[-1] for line in lines] == ["put 4 hello", "put 5 hello"]


def test_dump_shows_the_beginning_of_a_body_or_all_of_it(tmp_path: Path, capsys: Capture) -> None:
    journal_of(tmp_path, put(1, b"b" * 100))
    assert main(["dump", str(tmp_path)]) == WELL
    assert f"put 1 {'b' * 40}... (100 bytes)\n" in capsys.readouterr().out
    assert main(["dump", str(tmp_path), "--bodies"]) == WELL
    assert f"put 1 {'b' * 100}\n" in capsys.readouterr().out


def test_dump_names_damage_on_stderr(tmp_path: Path, capsys: Capture) -> None:
    one = journal_of(tmp_path, put(1), put(2), put(3))
    damage(tmp_path / segment_name(1), one.at - 64 - 72 * 2 + 5)
    assert main(["dump", str(tmp_path)]) == DAMAGED
    out, err = capsys.readouterr()
    assert out.count("lsn") == 2
    assert "corrupt at byte" in err
    assert "may have held items 2 to 2" in err


# -- verify --------------------------------------------------------------------------------------


def test_verify_counts_what_is_there(tmp_path: Path, capsys: Capture) -> None:
    journal_of(tmp_path / "jobs.1", put(1), put(2), draft(Kind.DONE, 1, 5, 1))
    assert main(["verify", str(tmp_path)]) == WELL
    assert capsys.readouterr().out == (
        "jobs.1: queue jobs, 1 segment, 3 records, 1 live item, synced up to lsn 3, clean\n"
    )


def test_verify_counts_live_items_through_every_end(tmp_path: Path, capsys: Capture) -> None:
    journal_of(
        tmp_path / "jobs.1",
        *(put(n) for n in range(1, 11)),
        draft(Kind.DONE, 1), draft(Kind.EXPIRED, 2), draft(Kind.DISCARDED, 3),
        draft(Kind.RETURNED, 4, 1, 1), draft(Kind.DEAD, 5, 1, 1), draft(Kind.DEAD, 6, 1, 1),
        draft(Kind.DONE, 6),
        draft(Kind.FLUSHED, 9, body=(7).to_bytes(8, "little")),
        draft(Kind.TOKENS, 0, 9),
    )  # fmt: skip
    assert main(["verify", str(tmp_path)]) == WELL
    # 5 is dead, 7 was leased at the flush, 10 was put after it.
    assert ", 3 live items," in capsys.readouterr().out


def test_verify_names_damage_and_says_so_in_its_exit_code(tmp_path: Path, capsys: Capture) -> None:
    one = journal_of(tmp_path / "jobs.1", put(1), put(2), put(3))
    journal_of(tmp_path / "well.1", put(1))
    damage(tmp_path / "jobs.1" / segment_name(1), one.at - 64 - 72 * 2 + 5)
    assert main(["verify", str(tmp_path)]) == DAMAGED
    jobs, named, lost, well = capsys.readouterr().out.splitlines()
    assert jobs.endswith("2 records, 2 live items, synced up to lsn 3, damaged")
    assert named.startswith(f"  {tmp_path}/jobs.1/0000000001.segment: corrupt at byte ")
    assert named.endswith("may have held items 2 to 2")
    assert lost == "  1 item cannot be read: 2"
    assert well.endswith("clean")


def test_a_torn_end_is_named_and_is_no_damage(capsys: Capture) -> None:
    assert main(["verify", str(GOLDEN / "v1" / "jobs.1")]) == WELL
    out = capsys.readouterr().out
    assert "1 record behind the last known sync\n" in out
    assert "  " + str(GOLDEN / "v1" / "jobs.1" / segment_name(3)) + ": torn at byte " in out


def test_verify_reads_on_when_one_queue_cannot_be_read(tmp_path: Path, capsys: Capture) -> None:
    journal_of(tmp_path / "a.1", put(1))
    journal_of(tmp_path / "b.1", put(1))
    (tmp_path / "a.1" / segment_name(1)).unlink()
    (tmp_path / "a.1" / segment_name(1)).mkdir()
    assert main(["verify", str(tmp_path)]) == UNUSABLE
    out, err = capsys.readouterr()
    assert out.startswith("b.1: queue jobs")
    assert err == f"journal: {tmp_path}/a.1/0000000001.segment: reading failed: it is no file\n"


# -- repair --------------------------------------------------------------------------------------


def test_repair_changes_nothing_where_a_daemon_runs_and_mends_where_none_does(
    tmp_path: Path, capsys: Capture
) -> None:
    one = journal_of(tmp_path / "jobs.1", put(1), put(2), put(3))
    path = tmp_path / "jobs.1" / segment_name(1)
    damage(path, one.at - 64 - 72 * 2 + 5)
    before = path.read_bytes()

    lock = Disk().lock(str(tmp_path / LOCK))
    assert main(["repair", str(tmp_path), "--yes"]) == UNUSABLE
    assert capsys.readouterr() == (
        "", f"journal: {tmp_path}: a daemon is running here; stop it first\n"
    )  # fmt: skip
    assert path.read_bytes() == before

    lock.close()
    assert main(["repair", str(tmp_path), "--yes"]) == WELL
    assert capsys.readouterr().out.endswith("clean\n")


def test_repair_changes_nothing_that_was_written_since_it_asked(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = journal_of(tmp_path / "jobs.1", put(1), put(2), put(3))
    path = tmp_path / "jobs.1" / segment_name(1)
    damage(path, one.at - 64 - 72 * 2 + 5)

    def write_meanwhile(question: str) -> bool:
        shutil.rmtree(path.parent)
        journal_of(path.parent, put(1), put(2), put(3), put(4))
        return True

    monkeypatch.setattr("journal.__main__._asked", write_meanwhile)
    assert main(["repair", str(tmp_path)]) == UNUSABLE
    assert "was written since it was checked; nothing was changed" in capsys.readouterr().err
    assert main(["verify", str(tmp_path)]) == WELL
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("where", ["data", "./data", "data/jobs.1", "data/jobs.1/", "."])
def test_repair_touches_no_other_folder_that_takes_the_place_of_this_one(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    folder = tmp_path / "data" / "jobs.1"
    one = journal_of(folder, put(1), put(2), put(3))
    (tmp_path / "data" / LOCK).touch()
    damage(folder / segment_name(1), one.at - 64 - 72 * 2 + 5)
    shutil.copytree(tmp_path / "data", tmp_path / "other")
    before = (folder / segment_name(1)).read_bytes()
    run = Repair.run

    def run_in_another_folder(self: Repair, time_ms: int) -> None:
        os.rename(tmp_path / "data", tmp_path / "away")
        os.rename(tmp_path / "other", tmp_path / "data")
        run(self, time_ms)

    monkeypatch.setattr(Repair, "run", run_in_another_folder)
    monkeypatch.chdir(folder if where == "." else tmp_path)
    assert main(["repair", where, "--yes"]) == UNUSABLE
    assert (folder / segment_name(1)).read_bytes() == before
    assert os.listdir(folder) == [segment_name(1)]
    assert capsys.readouterr().err.startswith("journal: ")


# -- wrong usage ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "journal: the following arguments are required: command (try --help)"),
        (["verify"], "journal verify: the following arguments are required: DIR (try --help)"),
        (["dump", "x", "--from-lsn", "q"],
         "journal dump: argument --from-lsn: invalid int value: 'q' (try --help)"),
        (["dump", "x", "--nonsense"],
         "journal: unrecognized arguments: --nonsense (try --help)"),
        (["verify", "nowhere"],
         "journal: nowhere: no journal here, nor in a folder directly below"),
        (["verify", __file__], f"journal: {__file__}: Not a directory"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_clear_line(
    arguments: list[str], said: str, capsys: Capture, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == UNUSABLE
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"{said}\n")


def test_an_unknown_command_is_answered_with_the_known_ones(capsys: Capture) -> None:
    assert main(["mend", "x"]) == UNUSABLE
    err = capsys.readouterr().err
    assert "'mend'" in err
    assert "dump" in err
    assert "verify" in err


def test_help_is_help(capsys: Capture) -> None:
    assert main(["--help"]) == WELL
    assert "dump" in capsys.readouterr().out


def test_a_percentage_is_shown_while_a_person_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", shown)
    show = _percent("verify jobs")
    for done in (0, 499, 500, 999, 1000):
        show(done, 1000)
    texts = [f"\rverify jobs: {percent}%" for percent in (0, 49, 50, 99)]
    assert shown.getvalue() == "".join(texts) + "\r\033[K", "gone at the end"


def test_times_no_calendar_reaches_are_bare_numbers() -> None:
    assert utc(0) == "1970-01-01T00:00:00.000Z"
    assert utc(TIME_MS + 1) == "2026-01-02T03:04:05.001Z"
    assert utc((1 << 64) - 1) == str((1 << 64) - 1)


# -- never a traceback ---------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_a_file_holds_the_answer_is_lines(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory, capsys: Capture
) -> None:
    folder = tmp_path_factory.mktemp("golden")
    for journal in (path for path in (GOLDEN / "v1").iterdir() if path.is_dir()):
        shutil.copytree(journal, folder / journal.name)
    paths = sorted(folder.rglob("*.segment"))
    path = data.draw(st.sampled_from(range(len(paths))).map(lambda n: paths[n]))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(1, 200))] = data.draw(st.binary(max_size=200))
    path.write_bytes(content)
    for command in ("verify", "dump"):
        assert main([command, str(folder)]) in {WELL, DAMAGED, UNUSABLE}
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "journal", *arguments], cwd=ROOT, capture_output=True, timeout=60,
        env={**os.environ, **environment}, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_as_a_process_it_speaks_ascii_where_the_terminal_does(tmp_path: Path) -> None:
    journal_of(tmp_path / "jobs.1", put(1, "größer".encode()))
    done = run("dump", str(tmp_path), PYTHONIOENCODING="ascii")
    assert done.returncode == WELL
    assert b"put 1 gr\\xf6\\xdfer\n" in done.stdout
    assert done.stderr == b""
    assert run("verify", "nowhere").returncode == UNUSABLE


@pytest.mark.slow
def test_a_closed_pipe_ends_it_quietly(tmp_path: Path) -> None:
    journal_of(tmp_path / "jobs.1", *(put(n) for n in range(1, 90)))
    command = f'"{sys.executable}" -m journal dump "{tmp_path}" | true; echo ${{PIPESTATUS[0]}}'
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    assert done.stdout == b"0\n"
    assert done.stderr == b""


def test_the_facts_of_a_check_are_all_there_for_programs(tmp_path: Path) -> None:
    one = journal_of(tmp_path / "jobs.3", *(put(n) for n in range(1, 5)), closed=False)
    damage(tmp_path / "jobs.3" / segment_name(1), one.at - 64 - 72 * 2 + 5)
    report = check_journal(Disk(), str(tmp_path / "jobs.3"))
    report.snapshots, report.lsn_snapshot, report.unreadable = 2, 1, IdSet.of([2, 3, 9])

    facts = report_facts(report)

    named = {"name": "queue", "items": "live_items", "live_set": "", "past": "", "lsn_next": ""}
    told = {named.get(each.name, each.name) for each in fields(Report)} - {""}
    assert set(facts) == told | {"ending", "unreadable_items"}
    read = json.loads(json.dumps(facts))
    assert read == read | {
        "folder": "jobs.3", "queue": "jobs", "generation": 1, "segments": 1, "snapshots": 2,
        "lsn_snapshot": 1, "records": report.records, "live_items": report.items,
        "unreadable_items": 3, "unreadable": [[2, 3], [9, 9]], "bytes": report.bytes,
        "lsn_synced": report.lsn_synced, "records_behind_sync": report.records_behind_sync,
        "ending": report.ending,
    }  # fmt: skip
    sentences = [each.sentence() for each in (*report.damages, *report.torn)]
    assert sentences
    assert [each["sentence"] for each in (*read["damages"], *read["torn"])] == sentences


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(13, "Permission denied", "jobs.1/a"), "jobs.1/a: Permission denied"),
        (OSError(13, "Permission denied"), "jobs.1: Permission denied"),
        (OSError("no number"), "jobs.1: no number"),
        (ValueError("no journal"), "jobs.1: no journal"),
        (ValueError("jobs.1: no journal"), "jobs.1: no journal"),
    ],
)
def test_an_error_says_where_and_what(error: Exception, said: str) -> None:
    assert _reason(error, "jobs.1") == said
