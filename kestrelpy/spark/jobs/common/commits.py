"""A folder of tables that changes in commits: all of a run, or nothing of it, whatever is killed.

    OUT/date=2026-11-25/.../part-0.parquet         tables, for every reader of OUT
    OUT/_kestrelpy/<job>/staged/...                the next tables; readers skip names with "_"
                        /commit.json               the files to add and to remove, and the state
                        /state.json                the state after the last commit

    stage ──▶ sync the files ──▶ commit.json ──▶ move, remove ──▶ `then` ──▶ state.json
              a kill before this line:  ▲    after it: the next run goes on from here
              nothing of it counts      └── the commit: one rename, synced

Each step after the commit can be repeated: a file is moved if it is still staged, removed if it is
still there. Until the next run has finished the steps, a reader may see a part of a commit.

One rule: `commit.json` exists only while there are steps to do, and nothing new begins before they
are done.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self

from kestrelpy.spark.errors import KestrelError

_HIDDEN: Final = "_kestrelpy"
_VERSION: Final = 1
_STAGED, _COMMIT, _STATE, _LOCK = "staged", "commit.json", "state.json", "lock"
_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:/")
_DATA: Final = ".parquet"
_FINAL: Final = "final="  # Spark gives files of both the same names
_OPEN: Final = "open-"

State = dict[str, Any]
Then = Callable[[State], None]


class JobCommits:
    """The commits of one job into one folder. One process at a time has it; `close` it."""

    def __init__(self, out: str, job: str) -> None:
        """Raise KestrelError if the folder cannot be made, or another process has it."""
        if _SCHEME.match(out):
            raise KestrelError(
                f"--out {out} is not a folder of this machine. Say a local or mounted folder that "
                "every executor sees; its files are synced and moved by name."
            )
        self.out: Final = os.path.abspath(out)
        self._place: Final = os.path.join(self.out, _HIDDEN, job)
        self.staged: Final = os.path.join(self._place, _STAGED)
        try:
            os.makedirs(self._place, exist_ok=True)
        except OSError as error:
            raise KestrelError(
                f"The folder {error.filename or out} cannot be made: {error.strerror}. Say another "
                "one with --out."
            ) from None
        self._lock: Final = open(self.path(_LOCK), "w")  # noqa: SIM115  # held until `close`
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise KestrelError(
                f"Another run of {job} writes to {out} now. Wait until it has ended, or say "
                "another --out."
            ) from None

    def close(self) -> None:
        """Let other processes have it."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self.close()

    def begin(self, then: Then | None = None) -> State:
        """Finish what a killed run has committed, drop what it has not; return the state.

        `then` gets the state of that commit. Raises KestrelError.
        """
        with _named(self._place):
            if os.path.exists(self.path(_COMMIT)):
                self._finish(self._read(_COMMIT), then)
            shutil.rmtree(self.staged, ignore_errors=True)
            if not os.path.exists(self.path(_STATE)):
                return {}
            return dict(self._read(_STATE)["state"])

    def commit(
        self, state: State, remove: Sequence[str] = (), then: Then | None = None
    ) -> list[str]:
        """Commit the staged files, and remove others of earlier commits; return the added names.

        A staged name may begin with `final=true/` or `final=false/`: see `visible`. Raises
        KestrelError.
        """
        with _named(self._place):
            add = {visible(name): name for name in sorted(self.staged_files())}
            assert len(add) == len(self.staged_files()), "each file has a name of its own"
            for name in add.values():
                _sync(os.path.join(self.staged, name))
            _sync_folders(self.staged)
            said = {"version": _VERSION, "add": add, "remove": [*remove], "state": state}
            self._write(_COMMIT, said)
            self._finish(said, then)
            return [*add]

    def _finish(self, said: Mapping[str, Any], then: Then | None) -> None:
        folders = set()
        for name, staged in said["add"].items():
            source, target = os.path.join(self.staged, staged), os.path.join(self.out, name)
            if os.path.exists(source):
                os.makedirs(os.path.dirname(target), exist_ok=True)
                os.replace(source, target)
            folders.add(os.path.dirname(target))
        for name in said["remove"]:
            path = os.path.join(self.out, name)
            if os.path.exists(path):
                os.unlink(path)
                folders.add(os.path.dirname(path))
        for folder in _with_parents(folders, self.out):
            _sync(folder)
        if then is not None:
            then(dict(said["state"]))
        self._write(_STATE, {"version": _VERSION, "state": said["state"]})
        os.unlink(self.path(_COMMIT))
        _sync(self._place)
        shutil.rmtree(self.staged, ignore_errors=True)

    def path(self, name: str) -> str:
        """Return the path of a file in the folder of the state, for a job's own data."""
        return os.path.join(self._place, name)

    def size(self, name: str) -> int:
        """Return the bytes of a folder of the job's own data."""
        with _named(self._place):
            return sum(each.stat().st_size for each in os.scandir(self.path(name)))

    def sync(self, name: str) -> None:
        """Sync a folder of the job's own data, so that a commit may name it."""
        with _named(self._place):
            for folder, _, names in os.walk(self.path(name)):
                for each in names:
                    _sync(os.path.join(folder, each))
                _sync(folder)

    def remove_others(self, prefix: str, name: str) -> None:
        """Remove the job's own data of this prefix, except `name`."""
        for each in os.listdir(self._place):
            if each.startswith(prefix) and each != name:
                shutil.rmtree(self.path(each), ignore_errors=True)

    def staged_files(self) -> list[str]:
        """Return the staged data files, relative to the folder."""
        return [
            os.path.relpath(os.path.join(folder, name), self.staged)
            for folder, _, names in os.walk(self.staged)
            for name in names
            if name.endswith(_DATA) and not name.startswith((".", "_"))
        ]

    def _read(self, name: str) -> dict[str, Any]:
        path = self.path(name)
        with open(path, encoding="utf-8") as file:
            try:
                said = json.load(file)
            except ValueError:
                said = None
        if not isinstance(said, dict) or "version" not in said:
            raise KestrelError(
                f"{path} is not a state of this job. Restore it, or say another --out."
            )
        if said["version"] != _VERSION:
            raise KestrelError(
                f"{path} is of version {said['version']}, and this version knows {_VERSION}. Use "
                "the version that wrote it, or say another --out."
            )
        return said

    def _write(self, name: str, said: Mapping[str, Any]) -> None:
        path = self.path(name)
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(said, file, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".new", path)
        _sync(self._place)


def visible(staged: str) -> str:
    """Return the name that a staged file gets: without `final=...`, and not that of a final one."""
    first, _, rest = staged.partition(os.sep)
    if not first.startswith(_FINAL):
        return staged
    folder, name = os.path.split(rest)
    return rest if is_final(staged) else os.path.join(folder, f"{_OPEN}{name}")


def is_final(staged: str) -> bool:
    """True if a staged file has rows that will not change."""
    return staged.startswith(f"{_FINAL}true{os.sep}")


def _sync_folders(top: str) -> None:
    for folder, _, _ in os.walk(top):
        _sync(folder)


def _with_parents(folders: set[str], top: str) -> set[str]:
    """Return the folders and those above them, up to `top`: new names stand in those."""
    found = {top}
    for folder in folders:
        while folder not in found and folder.startswith(top):
            found.add(folder)
            folder = os.path.dirname(folder)
    return found


def _sync(path: str) -> None:
    place = os.open(path, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)


@contextmanager
def _named(place: str) -> Iterator[None]:
    """Turn an OSError into one sentence."""
    try:
        yield
    except OSError as error:
        raise KestrelError(
            f"{error.filename or place} cannot be written: {error.strerror or error}. Nothing is "
            "lost: run the job again when it can."
        ) from None
