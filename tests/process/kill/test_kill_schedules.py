"""`kill -9` around the second in which a schedule puts: each second is put once, by one life or the
next. On the real process and the real clock; its journal is the witness.

Promise: schedule.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest
from pymemcache.exceptions import MemcacheServerError

from journal.files import Disk
from journal.format.kinds import Kind, Tag
from journal.format.meta import decode_meta
from journal.tools.view import JournalView
from tests.support.daemon import DaemonProcess
from tests.support.kills import leave_nothing, new_seed

ROUNDS = 8
CONFIG = '[schedules.tick]\ncron = "* * * * * *"\nqueue = "jobs"\ncatch_up = "all"\n'


def times_put(data: Path, queue: str = "jobs") -> list[int]:
    """The times that the journal has puts for, in its order."""
    (folder,) = (each for each in data.iterdir() if each.name.startswith(f"{queue}."))
    metas = [
        decode_meta(record.meta)
        for record in JournalView(Disk(), str(folder), False).records()
        if record.kind == Kind.PUT
    ]
    return [int(meta[Tag.EPOCH]) for meta in metas]


@pytest.mark.slow
def test_each_second_is_put_once_over_kills_in_that_very_second(tmp_path: Path) -> None:
    chance = random.Random(new_seed())
    same_second = 0
    with DaemonProcess(tmp_path / "data", config=CONFIG) as daemon:
        for _ in range(ROUNDS):
            time.sleep(1 - time.time() % 1)  # however quick a start is, another second begins
            client = daemon.client()
            assert client.get("jobs/t=5s/open") is not None
            time.sleep(chance.choice((0, 0.005, 0.3, 0.99)))
            killed = time.time()
            daemon.kill()
            daemon.start()
            same_second += int(time.time()) == int(killed)
        time.sleep(1.1)  # a second passes in which nothing is killed
        assert daemon.stop() == 0
    found = times_put(tmp_path / "data")

    twice = [epoch for epoch, count in Counter(found).items() if count > 1]
    assert twice == []
    assert found == list(range(found[0], found[-1] + 1)), "none is missing"
    assert len(found) > ROUNDS
    print(f"{same_second} of {ROUNDS} starts were over in the second of the kill")

    with DaemonProcess(tmp_path / "data") as daemon:  # and no schedule puts any more
        leave_nothing(daemon)


@pytest.mark.slow
def test_a_reload_takes_schedules_over_and_a_wrong_one_changes_nothing(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data", config="") as daemon:
        client = daemon.client()
        assert client.stats("schedules") == {}
        daemon.config_file.write_text(CONFIG)
        client.raw_command(b"reload")
        assert client.get("jobs/t=5s") == b""

        daemon.config_file.write_text(CONFIG.replace("* * * * * *", "* * * * * 9"))
        with pytest.raises(MemcacheServerError, match="field 6 of 6, the day-of-week, must be"):
            client.raw_command(b"reload")

        assert client.get("jobs/t=5s") == b""

        daemon.config_file.write_text("")
        client.raw_command(b"reload")
        client.close()
        leave_nothing(daemon)
