"""A disk that fills under a running daemon: storing is refused, fetching and confirming go on.

Spec 1.9. The disk is a tmpfs of a few mebibytes; other files on it take the rest, as a log without
rotation would, and take all room at once that the daemon frees.

Promise full-disk: a small disk that other programs fill and leave full, also across stops and
    kills, with none, one or two snapshots; bursts of small items under eight workers as it fills,
    with and without ids, with items that leave late; a snapshot that finds no room; a power cut
    while one is written over another; every subscription of a fan-out to its last item.
Promises: token, no-new-queue.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess
from tests.support.faults import SmallDisk, small_disk
from tests.support.raw import Raw, wait_until

DISK_BYTES = 4 << 20
BODY_BYTES = 1000
CONFIG = """
[journal]
segment_min = "16KiB"
segment_max = "64KiB"
[queue_defaults]
max_attempts = "none"
[queues.memory]
durable = false
"""
# More records than a segment of the least size holds: giving back must not use up the room that
# the confirms need.
GIVEN_BACK = 500
# A queue cannot store more than the disk holds, so storing until it refuses comes to an end.
ITEMS_MAX = DISK_BYTES // BODY_BYTES

pytestmark = pytest.mark.slow

@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", DISK_BYTES) as mounted:
        yield mounted


@pytest.fixture
def daemon(disk: SmallDisk, tmp_path: Path) -> Iterator[DaemonProcess]:
    process = DaemonProcess(disk.folder / "data", config=CONFIG)
    with process:
        yield process


def connect(daemon: DaemonProcess) -> Raw:
    raw = Raw(("127.0.0.1", daemon.port))
    raw.sock.settimeout(10)  # a set that is neither stored nor refused is found out sooner
    return raw


def body(number: int) -> bytes:
    return b"%0*d" % (BODY_BYTES, number)


def store(raw: Raw, queue: bytes, number: int) -> bytes:
    """Store item `number`; return the answer."""
    raw.send(b"set %b 0 0 %d\r\n%b\r\n" % (queue, BODY_BYTES, body(number)))
    return raw.line()


def store_some(raw: Raw, queue: bytes, count: int) -> None:
    for number in range(count):
        assert store(raw, queue, number) == b"STORED"


def store_small(raw: Raw, count: int) -> None:
    """Store thousands of items whose confirms need more room than they do."""
    for _ in range(count // 1000):
        raw.ask(b"set jobs 0 0 1\r\n0\r\n" * 1000, b"STORED\r\n" * 1000)


def store_until_refused(raw: Raw, queue: bytes, first: int) -> tuple[int, bytes]:
    """Store items from `first` on until one is refused: the number of that one, and the answer."""
    for number in range(first, first + ITEMS_MAX):
        answer = store(raw, queue, number)
        if answer != b"STORED":
            return number, answer
    raise AssertionError("a full disk refused nothing")


def drain(raw: Raw, queue: bytes, disk: SmallDisk | None = None) -> list[int]:
    """Open and confirm item after item to the last; their numbers. The `disk` is kept full."""
    found: list[int] = []
    request = b"get %b/open\r\n" % queue
    while True:
        raw.send(request)
        line = raw.line()
        if line == b"END":
            return found
        assert line.startswith(b"VALUE "), line
        found.append(int(raw.line()))
        raw.expect(b"END\r\n")
        if disk is not None and len(found) % 10 == 0:
            disk.fill()
        request = b"get %b/close/open\r\n" % queue


def is_full(answer: bytes) -> bool:
    return answer.startswith(b"SERVER_ERROR disk full")


def test_storing_is_refused_and_everything_stored_is_fetched_and_confirmed_to_the_last_item(
    daemon: DaemonProcess, disk: SmallDisk
) -> None:
    with connect(daemon) as raw:
        store_some(raw, b"jobs", 100)
        disk.fill()

        refused, answer = store_until_refused(raw, b"jobs", 100)
        assert is_full(answer), answer
        assert disk.free_bytes < 1 << 16, "it was refused although there was room"
        told = raw.stats()
        assert told["health"] == told["queue_jobs_state"] == "disk_full"
        assert told["queue_jobs_reason"].startswith("disk_full")

        assert drain(raw, b"jobs") == list(range(refused))
        raw.ask(b"get jobs/open\r\n", b"END\r\n")
    wait_until(lambda: any("no room" in line for line in daemon.lines), "a line in the log")


def test_everything_is_confirmed_though_what_it_gives_back_is_taken_by_others_at_once(
    daemon: DaemonProcess, disk: SmallDisk
) -> None:
    with connect(daemon) as raw:
        # Small items: their confirms take more room than any segment has left.
        store_small(raw, 4000)
        disk.fill()
        store_until_refused(raw, b"jobs", 0)

        found = drain(raw, b"jobs", disk)
        assert found[:4000] == [0] * 4000
        assert found[4000:] == list(range(len(found) - 4000))
        disk.make_room()
        wait_until(lambda: store(raw, b"jobs", 0) == b"STORED", "storing resumes")


@pytest.mark.parametrize("count", [0, 1, 2])
def test_everything_is_confirmed_with_however_many_snapshots_and_no_room_for_another(
    daemon: DaemonProcess, disk: SmallDisk, count: int
) -> None:
    """A segment that the one snapshot does not include waits for the next one."""
    with connect(daemon) as raw:
        store_small(raw, 5000)
    daemon.stop()
    for snapshot in sorted(disk.folder.glob("data/jobs.*/*.snapshot"))[count:]:
        snapshot.unlink()
    daemon.start()
    with connect(daemon) as raw:
        raw.ask(b"set jobs 0 0 1\r\n0\r\n", b"STORED\r\n")
        wait_until(lambda: is_at_rest(disk), "the room for the confirms is reserved")
        disk.fill()
        assert drain(raw, b"jobs", disk) == [0] * 5001


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_start_on_a_full_disk_keeps_the_room_for_the_confirms(
    daemon: DaemonProcess, disk: SmallDisk, end: str
) -> None:
    with connect(daemon) as raw:
        store_small(raw, 5000)
        wait_until(lambda: is_at_rest(disk), "the room for the confirms is reserved")
        disk.fill()
    for _ in range(2):
        if end == "stop":
            assert daemon.stop() == 0
        else:
            daemon.kill()
        disk.fill()
        daemon.start()
        disk.fill()
    with connect(daemon) as raw:
        assert drain(raw, b"jobs", disk) == [0] * 5000


def is_at_rest(disk: SmallDisk) -> bool:
    """True if no file is written for some moments."""
    before = disk.free_bytes
    time.sleep(0.2)
    return disk.free_bytes == before


@pytest.mark.parametrize(
    ("leave_bytes", "has_ids"), [(0, False), (70_000, True), (300_000, False), (300_000, True)]
)
def test_all_of_a_burst_is_confirmed_that_was_accepted_while_the_disk_became_full(
    daemon: DaemonProcess, disk: SmallDisk, leave_bytes: int, has_ids: bool
) -> None:
    """Eight workers, each with more small items than the room for the confirms of all.

    With ids a segment stays until snapshots cover it, and there may be no room for any.
    """
    bursts, sets = 30, 300
    with connect(daemon) as raw:
        store_small(raw, 1000)
        disk.fill(leave_bytes)

        def store_bursts(worker: int) -> int:
            with connect(daemon) as own:
                stored = 0
                for burst in range(bursts):
                    ids = (b"%d.%d.%d" % (worker, burst, at) for at in range(sets))
                    own.send(b"".join(
                        b"set jobs%b 0 0 1\r\n0\r\n" % (b"/id=" + each if has_ids else b"")
                        for each in ids
                    ))  # fmt: skip
                    answers = [own.line() for _ in range(sets)]
                    stored += answers.count(b"STORED")
                    if any(map(is_full, answers)):
                        return stored
                raise AssertionError("a full disk refused nothing")

        with ThreadPoolExecutor(8) as workers:
            stored = sum(f.result() for f in [workers.submit(store_bursts, n) for n in range(8)])
        disk.fill()
        assert drain(raw, b"jobs", disk) == [0] * (1000 + stored)


def fill_until_a_snapshot_fails(raw: Raw, daemon: DaemonProcess, disk: SmallDisk) -> int:
    """Store items of jobs as the disk fills, until a snapshot finds no room; return their number.

    An earlier snapshot may take the room itself. Then the disk is filled again.
    """
    stored = 0
    for _ in range(10):
        disk.fill(150_000)  # two segments
        stored, _ = store_until_refused(raw, b"jobs", stored)
        time.sleep(0.5)  # for the snapshot; one that takes longer costs another round
        if any("no snapshot" in line for line in daemon.lines):
            disk.fill()
            return stored
        disk.make_room()
        wait_until(lambda: store(raw, b"jobs", stored) == b"STORED", "storing resumes")  # noqa: B023
        stored += 1
    raise AssertionError("each snapshot found room")


def test_a_snapshot_that_the_disk_has_no_room_for_loses_nothing_and_is_written_once_it_has(
    daemon: DaemonProcess, disk: SmallDisk
) -> None:
    """The snapshot is as large as several segments: each delayed item is an entry."""
    delayed = 3000
    with connect(daemon) as raw:
        for _ in range(delayed // 500):
            raw.ask(b"set jobs/delay=1h 0 0 1\r\n0\r\n" * 500, b"STORED\r\n" * 500)
        refused = fill_until_a_snapshot_fails(raw, daemon, disk)
    daemon.kill()
    daemon.start()
    with connect(daemon) as raw:
        assert drain(raw, b"jobs", disk) == list(range(refused))
        assert raw.stats()["queue_jobs_delayed"] == str(delayed)
        assert not list(disk.folder.glob("data/jobs.*/*.snapshot.new"))
        disk.make_room()
        before = set(disk.folder.glob("data/jobs.*/*.snapshot"))
        wait_until(
            lambda: store(raw, b"jobs", 0) == b"STORED"
            and set(disk.folder.glob("data/jobs.*/*.snapshot")) != before, "a snapshot",
        )  # fmt: skip


def test_storing_resumes_by_itself_when_there_is_room_again(
    daemon: DaemonProcess, disk: SmallDisk
) -> None:
    with connect(daemon) as raw:
        store_some(raw, b"jobs", 10)
        disk.fill()
        refused, _ = store_until_refused(raw, b"jobs", 10)
        disk.make_room()

        wait_until(lambda: store(raw, b"jobs", refused) == b"STORED", "storing resumes")
        for number in range(refused + 1, refused + 101):
            assert store(raw, b"jobs", number) == b"STORED"
        assert raw.stats()["health"] == "ok"
        assert drain(raw, b"jobs") == list(range(refused + 101))
    assert any("there is room again" in line for line in daemon.lines)


def test_on_a_full_disk_leases_by_connection_go_on_and_what_is_given_back_comes_again(
    daemon: DaemonProcess, disk: SmallDisk
) -> None:
    with connect(daemon) as raw:
        store_some(raw, b"jobs", 20)
        disk.fill()
        refused, _ = store_until_refused(raw, b"jobs", 20)

        for _ in range(GIVEN_BACK):
            raw.send(b"get jobs/open\r\n")
            assert raw.line().startswith(b"VALUE ")
            assert int(raw.line()) == 0
            raw.ask(b"get jobs/abort\r\n", b"END\r\nEND\r\n")
        with connect(daemon) as gone:
            gone.send(b"get jobs/open\r\n")
            assert gone.line().startswith(b"VALUE ")
        wait_until(lambda: raw.stats()["queue_jobs_leased"] == "0", "given back at the hang-up")
        assert drain(raw, b"jobs", disk) == list(range(refused))


def test_on_a_full_disk_nothing_new_is_leased_by_token_and_what_is_leased_ends_as_always(
    daemon: DaemonProcess, disk: SmallDisk
) -> None:
    with connect(daemon) as raw:
        store_some(raw, b"jobs", 40)
        for token in range(1, 21):
            raw.send(b"gets jobs/open/lease=600s\r\n")
            assert raw.line().endswith(b" %d" % token)
            raw.line()
            raw.expect(b"END\r\n")
        disk.fill()
        refused, _ = store_until_refused(raw, b"jobs", 40)

        for request in (b"gets jobs/open/lease=60s", b"gets jobs/open/lease=60s/t=10s"):
            raw.send(request + b"\r\n")
            assert is_full(raw.line())
        raw.send(b"touch jobs/token=1 60\r\n")
        assert is_full(raw.line())
        raw.send(b"gets jobs/close/open/token=1/lease=60s\r\n")
        assert is_full(raw.line()), "and nothing was confirmed:"
        raw.ask(b"get jobs/close/token=1\r\n", b"END\r\n")
        raw.ask(b"delete jobs/token=2\r\n", b"DELETED\r\n")
        for token in range(3, 21):
            raw.ask(b"get jobs/abort/token=%d\r\n" % token, b"END\r\n")
        assert drain(raw, b"jobs", disk) == list(range(2, refused))
        disk.make_room()
        wait_until(lambda: store(raw, b"jobs", 0) == b"STORED", "storing resumes")
        raw.send(b"gets jobs/open/lease=60s\r\n")
        assert raw.line().startswith(b"VALUE ")


def test_on_a_full_disk_other_queues_answer_and_can_be_drained_too(
    daemon: DaemonProcess, disk: SmallDisk
) -> None:
    with connect(daemon) as raw:
        for queue in (b"jobs", b"other", b"memory"):
            store_some(raw, queue, 10)
        disk.fill()
        store_until_refused(raw, b"jobs", 10)

        assert store(raw, b"memory", 10) == b"STORED", "a queue in memory needs no disk"
        assert drain(raw, b"memory") == list(range(11))
        assert is_full(store(raw, b"new", 0)), "a queue that is new has no room to begin"
        refused, answer = store_until_refused(raw, b"other", 10)
        assert is_full(answer), answer
        assert drain(raw, b"other") == list(range(refused))


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_daemon_starts_on_a_full_disk_with_everything_that_was_stored(
    daemon: DaemonProcess, disk: SmallDisk, end: str
) -> None:
    with connect(daemon) as raw:
        store_some(raw, b"jobs", 30)
        store_some(raw, b"other", 30)
        disk.fill()
        refused, _ = store_until_refused(raw, b"jobs", 30)
        raw.send(b"get jobs\r\n")
        assert raw.line().startswith(b"VALUE ")
    if end == "stop":
        assert daemon.stop() == 0
    else:
        daemon.kill()
    disk.fill()

    daemon.start()

    with connect(daemon) as raw:
        assert drain(raw, b"jobs", disk) == list(range(1, refused))
        assert drain(raw, b"other") == list(range(30))
        disk.make_room()
        wait_until(lambda: store(raw, b"jobs", 0) == b"STORED", "storing resumes")


def test_a_new_queue_is_refused_on_a_disk_without_inodes_and_the_others_go_on(
    tmp_path: Path
) -> None:
    with (
        small_disk(tmp_path / "disk", DISK_BYTES, "nr_inodes=30") as disk,
        DaemonProcess(disk.folder / "data", config=CONFIG) as daemon, connect(daemon) as raw,
    ):
        store_some(raw, b"jobs", 3)
        with contextlib.suppress(OSError):
            for number in range(30):
                (disk.folder / f"filler-{number}").touch()
        wait_until(lambda: "health_reason" in raw.stats(), "health says it")
        assert raw.stats()["health"] in ("no_new_queue", "disk_full")
        reason = f"no_new_queue_is_made:_the_file_system_of_{daemon.data_dir}_has_no_inode_left"
        assert raw.stats()["health_reason"] == reason
        assert store(raw, b"new", 0).endswith(b" has no inode left")
        assert drain(raw, b"jobs") == [0, 1, 2]
        for filler in disk.folder.glob("filler-*"):
            filler.unlink()
        wait_until(lambda: raw.stats()["health"] == "ok", "health is well again")
        assert store(raw, b"new", 0) == b"STORED"


def test_min_disk_free_is_left_to_others(disk: SmallDisk) -> None:
    least = 2 << 20
    config = CONFIG + '[server]\nmin_disk_free = "2MiB"\n'
    with DaemonProcess(disk.folder / "data", config=config) as daemon, connect(daemon) as raw:
        store_some(raw, b"jobs", 10)

        refused, answer = store_until_refused(raw, b"jobs", 10)
        assert is_full(answer), answer
        assert disk.free_bytes >= least
        assert disk.free_bytes < least + (1 << 19), "it was refused although there was room"
        assert raw.stats()["queue_jobs_state"] == "disk_full"
        assert drain(raw, b"jobs") == list(range(refused))
        wait_until(lambda: store(raw, b"jobs", 0) == b"STORED", "its own segments made room")
