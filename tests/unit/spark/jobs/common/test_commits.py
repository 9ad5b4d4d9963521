"""A commit counts whole or not at all, whatever step a kill comes before."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.jobs.common import commits as module
from kestrelpy.spark.jobs.common.commits import JobCommits, State


class Killed(BaseException):
    """The process ends here."""


def stage(commits: JobCommits, **files: str) -> None:
    for name, text in files.items():
        path = Path(commits.staged) / f"date=1/{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def seen(out: Path) -> dict[str, str]:
    """Return the files that a reader of the folder finds."""
    return {path.stem: path.read_text() for path in out.glob("date=*/*.parquet")}


def test_a_commit_adds_removes_and_leaves_its_state(tmp_path: Path) -> None:
    with JobCommits(str(tmp_path), "job") as commits:
        assert commits.begin() == {}
        stage(commits, a="1", b="2")
        commits.commit({"n": 1})
        stage(commits, c="3")
        commits.commit({"n": 2}, ["date=1/a.parquet", "date=1/never.parquet"])

    with JobCommits(str(tmp_path), "job") as commits:
        assert commits.begin() == {"n": 2}
    assert seen(tmp_path) == {"b": "2", "c": "3"}


def test_a_kill_before_any_call_of_the_system_leaves_all_of_a_commit_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    die_at = 0

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def made(*words: Any, **more: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == die_at:
                raise Killed
            return call(*words, **more)

        return made

    outcomes, confirmed = set(), list[int]()
    for die_at in range(1, 60):
        out = tmp_path / f"{die_at}"
        counts: list[int] = []

        def then(state: State, counts: list[int] = counts) -> None:
            counts.append(state["n"])

        with JobCommits(str(out), "job") as commits:
            commits.begin()
            stage(commits, old="0")
            commits.commit({"n": 1})
        with monkeypatch.context() as patch:
            for name in ("replace", "unlink", "fsync", "makedirs"):
                patch.setattr(module.os, name, counted(getattr(os, name)))
            calls = 0
            try:
                with JobCommits(str(out), "job") as commits:
                    commits.begin()
                    stage(commits, a="1", b="2")
                    commits.commit({"n": 2}, ["date=1/old.parquet"], then)
            except Killed:
                was_killed = True
            else:
                was_killed = False
        with JobCommits(str(out), "job") as commits:
            state = commits.begin(then)
        outcomes.add((state["n"], *sorted(seen(out).items())))
        assert not list(out.rglob("staged")), die_at
        confirmed.append(len(counts))
        assert (state["n"] == 2) == bool(counts), die_at
        shutil.rmtree(out)
        if not was_killed:
            break

    assert not was_killed, "not every call was tried"
    assert outcomes == {(1, ("old", "0")), (2, ("a", "1"), ("b", "2"))}
    assert max(confirmed) == 2  # it may be told again


def test_a_second_process_and_a_folder_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with JobCommits(str(tmp_path), "job"):
        with pytest.raises(KestrelError, match="Another run of job writes to"):
            JobCommits(str(tmp_path), "job")
        JobCommits(str(tmp_path), "other").close()
    with pytest.raises(KestrelError, match="cannot be made: "):
        JobCommits(str(tmp_path / "file"), "job")
    with pytest.raises(KestrelError, match=r"s3://b/t is not a folder of this machine"):
        JobCommits("s3://b/t", "job")


def test_a_state_of_a_later_version_or_none_at_all_is_refused(tmp_path: Path) -> None:
    with JobCommits(str(tmp_path), "job") as commits:
        path = Path(commits.path("state.json"))
        path.write_text('{"version": 2, "state": {}}')
        with pytest.raises(KestrelError, match="of version 2, and this version knows 1"):
            commits.begin()
        path.write_text("{")
        with pytest.raises(KestrelError, match="is not a state of this job"):
            commits.begin()


def test_files_that_may_change_have_names_of_their_own() -> None:
    assert module.visible("final=true/date=1/part-0.parquet") == "date=1/part-0.parquet"
    assert module.visible("final=false/date=1/part-0.parquet") == "date=1/open-part-0.parquet"
    assert module.visible("date=1/part-0.parquet") == "date=1/part-0.parquet"
