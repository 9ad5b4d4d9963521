"""The verbs of a disk on an engine: what a verb promised is there for the next owner.

That the verbs do what those of a disk do is shown by `test_files.py`, on all of them.

Promise: fleet-cache.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal.engine import Create, EngineAway, EngineFiles, Fenced, cache
from journal.engine.cache import FETCH_BYTES
from journal.engine.engine import PIECE_BYTES
from journal.files import Disk, Files, FolderChanged, Handle, is_shortage
from journal.recovery import Recovery
from journal.sets.id_counts import IdCounts
from journal.sets.id_set import IdSet
from journal.snapshot.job import QueueCopy
from journal.write.segment_file import Sizes
from tests.support import journals
from tests.support.memory_engine import Fate, MemoryEngine, engine_files


def contents(files: Files, folder: str) -> dict[str, bytes]:
    """All files below a folder, by their paths in it."""
    found = dict[str, bytes]()
    for name in files.names(folder):
        path = f"{folder}/{name}"
        if files.mode(path) & 0o040000:
            found |= {f"{name}/{inner}": data for inner, data in contents(files, path).items()}
        else:
            found[name] = files.read(path)
    return found


# -- takeovers ------------------------------------------------------------------------------------


def test_a_takeover_reads_little_of_a_long_journal(tmp_path: Path) -> None:
    engine, root = MemoryEngine(), str(tmp_path / "data")
    folder = f"{root}/jobs.1"
    sizes = Sizes(segment_min=64 << 10, segment_max=64 << 10, batch_max=1 << 20)
    with engine_files(engine, root) as files:
        writer = journals.fresh(files, sizes, folder)
        for _ in range(90):
            writer.put_all(b"x" * 10_000)
        live = IdSet.of(sorted(writer.queue.live))
        state = QueueCopy(writer.queue.checkpoint(), live, len(live), IdCounts(), [])
        job = writer.store.maintenance.begin_snapshot(state, journals.TIME_MS)
        writer.sync()
        job.run(files)
        writer.put_all(b"y" * 100)
        assert len(writer.journal.segments) > 10
    with engine_files(engine, root, "b") as files:
        recovery = Recovery(files, folder)
        kept = [record.item for record in recovery.records()]

    assert kept == [91]
    assert recovery.damages == []
    assert len([each for each in recovery.segments if each.is_covered]) > 10
    assert len(engine.reads) <= 3, "the snapshot, and what follows it in the newest segment"
    assert sum(size for *_, size in engine.reads) < 2 * FETCH_BYTES


# -- syncs without a thread -----------------------------------------------------------------------


def test_a_sync_is_over_when_the_engine_has_all_of_its_files(tmp_path: Path) -> None:
    engine, root = MemoryEngine(), str(tmp_path / "data")
    over = threading.Event()
    errors = list[OSError | None]()
    with engine_files(engine, root, beat_s=60.0) as files:
        handles = [files.create(f"{root}/{name}", b"", 10) for name in "ab"]
        for handle in handles:
            handle.write(0, b"x")
        assert files.sync_later(handles, lambda error: (errors.append(error), over.set())[0])
        assert over.wait(30)
        assert errors == [None]
        assert engine.contents(1) == {"a": b"x".ljust(10, b"\0"), "b": b"x".ljust(10, b"\0")}
        outside = Disk().create(str(tmp_path / "outside"), b"", 1)
        assert not files.sync_later([*handles, outside], errors.append), "no engine has that"
        outside.close()
    assert errors == [None]


def test_without_a_thread_of_the_commits_no_sync_is_promised(tmp_path: Path) -> None:
    root = str(tmp_path / "data")
    with engine_files(MemoryEngine(), root) as files:
        handle = files.create(f"{root}/a", b"", 10)
        assert not files.sync_later([handle], lambda _: None)


def test_the_local_disk_has_each_file_synced_by_a_thread_of_the_caller(tmp_path: Path) -> None:
    handle = Disk().create(str(tmp_path / "a"), b"", 1)
    assert not Disk().sync_later([handle], lambda _: None)
    handle.close()


# -- takeover -----------------------------------------------------------------------------------


def test_the_next_owner_finds_what_was_synced(tmp_path: Path) -> None:
    engine, root = MemoryEngine(), str(tmp_path / "data")
    with engine_files(engine, root) as files:
        files.make_folder(f"{root}/jobs.1")
        handle = files.create(f"{root}/jobs.1/x", b"head", 10)
        handle.write(4, b"ab")
        handle.sync()
        files.create(f"{root}/id", b"42", 2).close()
        handle.write(6, b"??")

    with engine_files(engine, root, "b") as found:
        assert found.names(root) == ["id", "jobs.1"]
        assert found.read(f"{root}/jobs.1/x", 0, 6) == b"headab"
        assert found.size(f"{root}/jobs.1/x") == 10


def test_a_takeover_reads_no_body_before_somebody_asks(tmp_path: Path) -> None:
    engine, root = MemoryEngine(), str(tmp_path / "data")
    with engine_files(engine, root) as files:
        files.create(f"{root}/x", b"x" * 300_000, 300_000).close()

    with engine_files(engine, root, "b") as found:
        assert found.size(f"{root}/x") == 300_000
        assert engine.reads == []
        assert found.read(f"{root}/x", 200_000, 10) == b"x" * 10
        assert sum(size for _, _, size in engine.reads) == 1 << 16


def test_the_former_owner_changes_nothing_and_hears_it_at_once(tmp_path: Path) -> None:
    engine, root = MemoryEngine(), str(tmp_path / "data")
    with engine_files(engine, root) as files, engine_files(engine, root, "b") as found:
        lock = files.lock(f"{root}/lock")
        assert lock.check() == ""
        for verb in (
            lambda: files.create(f"{root}/x", b"", 1),
            lambda: files.create(f"{root}/y", b"", 1),
        ):
            with pytest.raises(OSError, match="b claimed the slice"):
                verb()
        with pytest.raises(FolderChanged, match="b claimed the slice"):
            lock.check()
        assert found.names(root) == []


def test_numbers_of_files_are_never_used_again(tmp_path: Path) -> None:
    engine, root = MemoryEngine(), str(tmp_path / "data")
    for name in "abc":
        with engine_files(engine, root, name) as files:
            files.create(f"{root}/x", b"", 1).close()
            files.remove(f"{root}/x")

    made = [op.file for ops in engine.commits for op in ops if isinstance(op, Create)]
    assert len(set(made)) == 3


# -- what an engine does otherwise ----------------------------------------------------------------


def test_a_large_file_is_committed_in_parts_and_has_its_name_with_the_last(
    tmp_path: Path,
) -> None:
    engine, root = MemoryEngine(), str(tmp_path / "data")
    data = Random(1).randbytes(3 * PIECE_BYTES)
    with engine_files(engine, root) as files:
        seen = []

        def look() -> Fate:
            seen.append(sorted(engine.contents(1)))
            return ""

        engine.fate = look
        files.create(f"{root}/x", data, len(data)).close()

    assert seen == [[], *[["x.new"]] * 4]
    assert engine.contents(1) == {"x": data}


def test_a_write_to_a_file_that_was_removed_reaches_nobody(tmp_path: Path) -> None:
    engine, root = MemoryEngine(), str(tmp_path / "data")
    with engine_files(engine, root) as files:
        handle = files.create(f"{root}/x", b"", 1)
        files.remove(f"{root}/x")
        handle.write(0, b"lost")
        handle.sync()

        assert not handle.is_in_place
        assert engine.contents(1) == {}


def test_a_link_to_the_local_disk_is_a_copy_and_none_is_made_in_the_slice(tmp_path: Path) -> None:
    root, outside = str(tmp_path / "data"), str(tmp_path / "archive")
    os.mkdir(outside)
    with engine_files(MemoryEngine(), root) as files:
        files.create(f"{root}/x", b"0123", 4).close()
        files.link(f"{root}/x", f"{outside}/x")
        files.link(f"{root}/x", f"{outside}/x")
        assert Disk().read(f"{outside}/x") == b"0123"

        Disk().create(f"{outside}/other", b"", 0).close()
        with pytest.raises(FileExistsError):
            files.link(f"{root}/x", f"{outside}/other")
        with pytest.raises(OSError, match="no links") as raised:
            files.link(f"{root}/x", f"{root}/y")
        assert raised.value.errno == errno.EXDEV
        assert files.links(f"{root}/x") == 1


def test_paths_outside_are_those_of_the_local_disk(tmp_path: Path) -> None:
    engine, outside = MemoryEngine(), str(tmp_path / "outside")
    with engine_files(engine, str(tmp_path / "data")) as files:
        files.make_folder(outside)
        files.create(f"{outside}/a", b"old", 9).close()
        files.create_over(f"{outside}/a", f"{outside}/b", b"new")
        files.rename(f"{outside}/b", f"{outside}/c")
        files.link(f"{outside}/c", f"{outside}/d")
        handle = files.open(f"{outside}/c")
        handle.close()

        assert contents(files, outside) == {"c": b"new", "d": b"new"}
        assert (files.size(f"{outside}/c"), files.links(f"{outside}/c")) == (3, 2)
        assert files.free(outside) > 0
        lock = files.lock(f"{outside}/lock")
        assert files.is_owned(f"{outside}/lock")
        assert lock.check() == ""
        lock.close()
        files.remove(f"{outside}/d")
        files.remove_folder(outside)
        assert Disk().names(str(tmp_path)) == ["data.cache-a"]
    assert engine.commits == []


def test_a_file_in_the_room_of_another_takes_its_place(tmp_path: Path) -> None:
    engine, root = MemoryEngine(), str(tmp_path / "data")
    with engine_files(engine, root) as files:
        files.create(f"{root}/old", b"o", 1).close()
        files.create_over(f"{root}/old", f"{root}/new", b"larger")
        files.create_over(f"{root}/new", f"{root}/new", b"again")

    assert engine.contents(1) == {"new": b"again"}


# -- a takeover at any moment -------------------------------------------------------------------

NAMES = ("a", "b", "c")
steps = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.sampled_from(NAMES), st.binary(max_size=9)),
        st.tuples(st.just("write"), st.sampled_from(NAMES), st.integers(0, 12)),
        st.tuples(st.just("sync"), st.sampled_from(NAMES)),
        st.tuples(st.just("rename"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
        st.tuples(st.just("remove"), st.sampled_from(NAMES)),
    ),
    max_size=12,
)


def _run(files: EngineFiles, root: str, step: tuple[object, ...], handles: dict[str, Handle],
         model: dict[str, bytes]) -> bool:  # fmt: skip
    """Do one step on both; return True if it makes this step and all earlier ones durable."""
    verb, name = step[0], str(step[1])
    path = f"{root}/{name}"
    if verb == "create":
        assert isinstance(step[2], bytes)
        handles[name] = files.create(path, step[2], 6)
        model[name] = step[2].ljust(6, b"\0")
        return True
    if name not in model:
        return False
    if verb == "write":
        assert isinstance(step[2], int)
        handles[name].write(step[2], b"wr")
        old = model[name].ljust(step[2], b"\0")
        model[name] = old[: step[2]] + b"wr" + old[step[2] + 2 :]
        return False
    if verb == "sync":
        handles[name].write(0, b"s")
        model[name] = b"s" + model[name][1:]
        handles[name].sync()
    elif verb == "rename":
        files.rename(path, f"{root}/{step[2]}")
        handles[str(step[2])] = handles.pop(name)
        model[str(step[2])] = model.pop(name)
    else:
        files.remove(path)
        del model[name], handles[name]
    return True


def _refusing(refusals: list[bool]) -> Callable[[int, int, bytes], None]:
    """Return a local disk that takes a half of what it refuses."""

    def write(descriptor: int, offset: int, data: bytes) -> None:
        is_refused = bool(refusals and refusals.pop())
        os.pwrite(descriptor, data[: len(data) // 2] if is_refused else data, offset)
        if is_refused:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return write


@settings(max_examples=200, deadline=None)
@given(
    steps, st.lists(st.sampled_from(["", "done", "not done"]), max_size=8), st.booleans(),
    st.lists(st.booleans(), max_size=20),
)  # fmt: skip
def test_the_next_owner_finds_a_prefix_that_has_all_that_was_promised(
    tmp_path_factory: pytest.TempPathFactory,
    todo: list[tuple[object, ...]],
    fates: list[Fate],
    is_evicting: bool,
    refusals: list[bool],
) -> None:
    root = str(tmp_path_factory.mktemp("engine") / "data")
    engine = MemoryEngine(lambda: fates.pop() if fates else "")
    with (
        engine_files(engine, root, cache_bytes=0 if is_evicting else 1 << 20) as files,
        mock.patch.object(cache, "_write", _refusing(refusals)),
    ):
        handles, model = dict[str, Handle](), dict[str, bytes]()
        states, promised = [dict(model)], 0
        for step in todo:
            is_promised = _run(files, root, step, handles, model)
            states.append(dict(model))
            promised = len(states) - 1 if is_promised else promised
            assert contents(files, root) == model

        with engine_files(engine, root, "next") as found:
            assert contents(found, root) in states[promised:]


def test_a_read_of_an_owner_that_is_fenced_or_cut_off_says_nothing_of_the_data() -> None:
    """Such an error is no damage: this process or another one reads again."""
    for error in (Fenced(1, 7, "b claimed the slice"), EngineAway("memory", "no route")):
        assert is_shortage(error)
    assert not is_shortage(OSError(errno.ESTALE, "a stale handle of a network file system"))
