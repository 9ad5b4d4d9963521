"""Queues are spread over other slices, and the power is cut at each step of that."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from random import Random

import pytest

from journal.errors import JournalError
from kestrelpy.config import Config, load_config
from kestrelpy.fleet import RESLICE_NOTE, files_below
from kestrelpy.placement import Placement
from kestrelpy.server import clock
from kestrelpy.server.directory import Beat, TokenFile, note_backup, read_server_id
from kestrelpy.server.reslice.reslice import STAGE, Resliced, reslice
from tests.support.memory_disk import Fate, MemoryDisk, PowerCut
from tests.support.server_harness import ServerHarness
from tests.support.slices_harness import SlicesHarness

DATA = "data"
NAMES = ("jobs", "mail", "shop.1", "shop.2", "orders", "L" * 100)
FEW = ("jobs", "shop.1")  # of tests with many runs
CONFIG = load_config(None, environ={}, overrides={})
ONE, THREE, TWO = Placement(1), Placement(3), Placement(2)
GROUPED = Placement(3, ["shop.*"])
Contents = dict[str, bytes]


@cache
def stopped(names: tuple[str, ...] = NAMES) -> MemoryDisk:
    """The disk of a server that has stopped, and had these queues."""
    stage = ServerHarness()
    for name in names:
        stage.say("a", f"get {name}+audit".encode())
        stage.say("a", f"set {name} 0 0 3".encode(), b"one")
    stage.say("a", b"set gone 0 0 3", b"one")
    stage.say("a", b"delete gone")
    stage.work()
    stage.kill()
    return stage.disk


def made(placement: Placement = ONE, names: tuple[str, ...] = NAMES) -> MemoryDisk:
    """The disk of a stopped server with these slices."""
    disk = stopped(names).kill_clone()
    run(disk, placement)
    return disk


def run(disk: MemoryDisk, placement: Placement, config: Config = CONFIG) -> Resliced:
    """Let the queues be where `placement` says."""
    return reslice(disk, DATA, config, placement, lambda done, total: None)


def folders_of(placement: Placement) -> list[str]:
    """The folder of each slice, by number."""
    if placement.slices == 1:
        return [DATA]
    return [f"{DATA}/slices-{placement.slices}/{n}" for n in range(1, placement.slices + 1)]


def queues_in(disk: MemoryDisk, folder: str) -> dict[str, Contents]:
    """The bytes of each queue's folder there."""
    return {
        name: {path: disk.read(f"{folder}/{name}/{path}")
               for path, _ in files_below(disk, f"{folder}/{name}")}
        for name in disk.names(folder) if "." in name and not name.endswith(".new")
    }  # fmt: skip


def check(disk: MemoryDisk, placement: Placement, names: tuple[str, ...] = NAMES) -> None:
    """Each queue is once, whole, where the placement says, and nothing else is there."""
    folders, expected = folders_of(placement), queues_in(stopped(names), DATA)
    found = dict[str, Contents]()
    for number, folder in enumerate(folders, 1):
        assert read_server_id(disk, folder)
        here = queues_in(disk, folder)
        assert not found.keys() & here.keys()
        found |= here
        for name in names:
            is_here = any(each.startswith(prefix_of(name)) for each in here)
            assert is_here is (placement.slice_of(name.encode()) == number)
    assert found == expected
    ids = [read_server_id(disk, folder) for folder in folders]
    assert len(set(ids)) == len(ids)
    rest = {each for each in disk.names(DATA) if each != "lock" and not each.endswith(".new")}
    if placement.slices > 1:
        assert rest == {f"slices-{placement.slices}"}
    else:
        assert rest - expected.keys() <= {"server-id", "tokens", "running-clock"}


def prefix_of(name: str) -> str:
    return "%4C%4C" if name[0] == "L" else name.replace(".", "%2E") + "."


def is_whole(disk: MemoryDisk, placement: Placement) -> bool:
    try:
        check(disk, placement, FEW)
    except AssertionError:
        return False
    return True


WAYS = [(ONE, THREE), (THREE, ONE), (THREE, TWO), (THREE, GROUPED)]


@pytest.mark.parametrize(("before", "after"), WAYS)
def test_each_queue_is_where_its_slice_is(before: Placement, after: Placement) -> None:
    disk = made(before)
    check(disk, before)
    done = run(disk, after)
    check(disk, after)
    assert (done.before, done.slices, done.queues) == (before.slices, after.slices, len(NAMES))
    assert done.moved == sum(
        before.slice_of(each.encode()) != after.slice_of(each.encode()) for each in NAMES
    )
    assert run(disk, after) == Resliced(after.slices, after.slices, len(NAMES), 0, went_on=False)


SLICED = Config.model_validate({"queues": {"jobs": {"sliced": True}}})


@pytest.mark.parametrize("after", [ONE, TWO, THREE])
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_sliced_queue_is_refused_with_the_remedy(after: Placement, is_whole: bool) -> None:
    """Also if it has a folder in one slice alone."""
    disk = made(THREE)
    home = THREE.slice_of(b"jobs")
    if is_whole:  # another slice has a part as well
        other = home % 3 + 1
        for name in disk.names(f"{DATA}/slices-3/{home}"):
            if name.startswith("jobs."):
                for path, _ in files_below(disk, f"{DATA}/slices-3/{home}/{name}"):
                    target = f"{DATA}/slices-3/{other}/{name}/{path}"
                    disk.make_folder(os.path.dirname(target))
                    disk.link(f"{DATA}/slices-3/{home}/{name}/{path}", target)
    before = disk.kill_clone()
    with pytest.raises(JournalError, match=r"queue jobs is sliced, .* empty the queue, and delete"):
        run(disk, after, SLICED)
    assert disk.names(DATA) == before.names(DATA)


def test_a_queue_that_is_to_be_sliced_leaves_a_server_without_slices() -> None:
    disk = made(ONE)
    run(disk, THREE, SLICED)
    check(disk, THREE)


@pytest.mark.parametrize("fate", ["random", "kept", "lost"])
@pytest.mark.parametrize(("before", "after"), WAYS)
def test_a_run_goes_on_after_a_power_cut_at_any_step(
    before: Placement, after: Placement, fate: Fate
) -> None:
    whole, steps, halves = made(before, FEW), 0, 0
    for step in range(1, 10_000):
        disk = whole.kill_clone()
        disk.cut_power_at(step)
        try:
            run(disk, after)
            break
        except PowerCut:
            steps += 1
        left = disk.crash_clone(Random(step), fate)
        if RESLICE_NOTE not in left.names(DATA):  # a server may start
            assert is_whole(left, before) or is_whole(left, after), step
        else:
            halves += 1
        run(left, after)
        check(left, after, FEW)
    assert steps > 50
    assert halves > 20


@pytest.mark.parametrize(("before", "after"), WAYS)
def test_a_killed_run_that_was_not_whole_may_be_given_up(
    before: Placement, after: Placement
) -> None:
    whole, given_up = made(before, FEW), 0
    for step in range(1, 10_000):
        disk = whole.kill_clone()
        disk.cut_power_at(step)
        try:
            run(disk, after)
            break
        except PowerCut:
            left = disk.kill_clone()
        done = run(left, before)  # it goes on, or nothing was begun for sure
        check(left, after if done.went_on else before, FEW)
        assert STAGE not in left.names(DATA)
        given_up += not done.went_on
    assert given_up > 20


def test_what_belongs_to_a_slice_as_a_whole_is_that_of_all_slices() -> None:
    disk = made(THREE)
    words = folders_of(THREE)
    now_ms = clock.now_ms() + clock.wall_clock_offset_ms()
    for number, folder in enumerate(words, 1):
        tokens = TokenFile(disk, folder)
        tokens.read(0)
        tokens.save(1000 * number, 10**9 * number)
        Beat(disk, folder).save(now_ms - 1000 * number)
        note_backup(disk, folder, 5 + number)
    first = [read_server_id(disk, each) for each in words]
    run(disk, TWO)
    assert [read_server_id(disk, each) for each in folders_of(TWO)] == first[:2]
    for folder in folders_of(TWO):
        tokens = TokenFile(disk, folder)
        assert tokens.read(0) == ""
        assert (tokens.below, tokens.generation >= 3 * 10**9) == (3000, True)
        assert Beat(disk, folder).read() == (now_ms - 1000, "")
        assert disk.read(f"{folder}/last-backup") == b"6\n"


def test_a_slice_that_was_never_backed_up_makes_all_of_them_so() -> None:
    disk = made(THREE)
    note_backup(disk, folders_of(THREE)[0], 5)
    run(disk, TWO)
    assert not any("last-backup" in disk.names(each) for each in folders_of(TWO))


def test_slices_whose_clock_was_set_back_one_without_the_other_wait() -> None:
    disk = made(THREE)
    now_ms = clock.now_ms() + clock.wall_clock_offset_ms()
    Beat(disk, folders_of(THREE)[0]).save(now_ms + 3_600_000)
    with pytest.raises(JournalError, match=r"the clock was set back, .* run this again in 1h"):
        run(disk, TWO)
    check_untouched(disk)
    for each in folders_of(THREE)[1:]:
        Beat(disk, each).save(now_ms + 3_600_000)
    run(disk, TWO)
    assert Beat(disk, folders_of(TWO)[1]).read()[0] >= now_ms + 3_600_000


def test_one_slice_keeps_its_running_clock() -> None:
    disk = made(ONE)
    now_ms = clock.now_ms() + clock.wall_clock_offset_ms()
    Beat(disk, DATA).save(now_ms + 3_600_000)
    run(disk, TWO)
    assert all(Beat(disk, each).read()[0] >= now_ms + 3_600_000 for each in folders_of(TWO))


def check_untouched(disk: MemoryDisk, placement: Placement = THREE) -> None:
    """Nothing was begun."""
    assert {RESLICE_NOTE, STAGE}.isdisjoint(disk.names(DATA))
    assert all(disk.names(each) for each in folders_of(placement))


def test_items_that_are_half_moved_are_counted_and_refused() -> None:
    town = SlicesHarness()
    town.connect(1)
    town.connect(2)
    town.put("a1", b"1")
    town.put("a1", b"2")
    town.deliver()
    town.say(1, b"move a1 b1 10")
    for _ in range(10):  # the letters arrive, and no answer does
        town.slices[1].work()
        town.step(1, is_answer=False)
        town.slices[2].work()
    for number in (1, 2):
        disk = town.slices[number].disk.kill_clone()
        with pytest.raises(JournalError, match=r"^2 items are half moved .* start the server once"):
            run(disk, THREE)
        check_untouched(disk, ONE)
    town.deliver()
    for number in (1, 2):
        run(town.slices[number].disk.kill_clone(), THREE)


Change = Callable[[MemoryDisk], object]


def file_of(path: str) -> Change:
    def change(disk: MemoryDisk) -> None:
        disk.make_folder(os.path.dirname(path))
        disk.create(path, b"x", 1).close()

    return change


def damage(disk: MemoryDisk) -> None:
    for folder in folders_of(THREE):
        for name in disk.names(folder):
            if name.startswith("jobs."):
                disk.damage(f"{folder}/{name}/0000000001.segment", 64, b"damaged" * 100)


def twice(disk: MemoryDisk) -> None:
    jobs = next(each for each in queues_in(stopped(), DATA) if each.startswith("jobs."))
    for folder in folders_of(THREE):
        disk.make_folder(f"{folder}/{jobs}")
        for path, data in queues_in(stopped(), DATA)[jobs].items():
            if path not in disk.names(f"{folder}/{jobs}"):
                disk.create(f"{folder}/{jobs}/{path}", data, len(data)).close()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (file_of(f"{DATA}/slices-3/2/notes.txt"), r"slices-3/2/notes.txt: no file of kestrelpy"),
        (file_of(f"{DATA}/slices-9/1/lock"), r"its queues are in \d and in \d slices"),
        (file_of(f"{DATA}/jobs.5/0000000001.segment"), r"in 3 slices, and in none"),
        (damage, r"`kestrelpy journal repair` sets that aside"),
        (twice, r"queue jobs is in data/slices-3/1 and in data/slices-3/2"),
        (lambda disk: disk.remove_folder(f"{DATA}/slices-3"), "no data directory of kestrelpy"),
        (file_of(f"{DATA}/{RESLICE_NOTE}"), r"data/reslice: it cannot be read"),
    ],
)  # fmt: skip
def test_what_cannot_be_moved_is_named_and_stays(change: Change, why: str) -> None:
    disk = made(THREE)
    change(disk)
    with pytest.raises(JournalError, match=why):
        run(disk, TWO)
    assert STAGE not in disk.names(DATA)
    assert not any(name.startswith("slices-2") for name in disk.names(DATA))
