"""Rounds of `kill -9` under load, for tests that compare what clients were told with what is there.

A round lasts as long as chance wants, and how much happens in it is the machine's affair. So
nothing is expected of one round: who needs to have seen something says so, and there are rounds
until then.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from pymemcache.exceptions import MemcacheUnexpectedCloseError

from tests.support.daemon import DaemonProcess
from tests.support.raw import Ended

ROUNDS_MAX = 20  # times as many as were wanted
JOIN_SECONDS = 30.0


def new_seed() -> int:
    """Of all chance in a test; the environment names one that shall be run again."""
    seed = int(os.environ.get("KESTRELPY_TEST_SEED", random.randrange(1 << 32)))
    print(f"seed {seed}")
    return seed


def rounds(wanted: int, enough: Callable[[], bool]) -> Iterator[int]:
    """Numbers of rounds: as many as are wanted, and more while not enough was seen."""
    for number in range(wanted * ROUNDS_MAX):
        if number >= wanted and enough():
            return
        yield number
    assert enough(), f"{wanted * ROUNDS_MAX} rounds saw too little to prove anything"


def kill_under(daemon: DaemonProcess, works: Sequence[Callable[[], None]], seconds: float) -> None:
    """Do all of these at once, each again and again, and kill the daemon so many seconds on.

    A work ends when the daemon is gone. What else ends it is raised here.
    """
    failures: list[Exception] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except (OSError, MemcacheUnexpectedCloseError, Ended):
            return  # the daemon is gone
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    time.sleep(seconds)  # the moment of the kill is what is random here
    daemon.kill()
    for thread in threads:
        thread.join(JOIN_SECONDS)
        assert not thread.is_alive(), "a client does not see that the daemon is gone"
    if failures:
        raise failures[0]
