"""Rounds of `kill -9` under load, for tests that compare answers to clients with the items there.

A round lasts a random time, and how much happens in it depends on the machine. So a test expects
nothing of one round: it says what it needs to see, and there are rounds until then.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from pymemcache.exceptions import MemcacheUnexpectedCloseError

from tests.support.daemon import DaemonProcess
from tests.support.raw import Ended, Raw, wait_until

ROUNDS_MAX = 20  # times as many as were wanted
JOIN_SECONDS = 30.0


def new_seed() -> int:
    """Return a seed for a test; the environment may name one to run again."""
    seed = int(os.environ.get("KESTRELPY_TEST_SEED", random.randrange(1 << 32)))
    print(f"seed {seed}")
    return seed


def rounds(wanted: int, enough: Callable[[], bool]) -> Iterator[int]:
    """Yield the numbers of rounds: as many as are wanted, and more until enough was seen."""
    for number in range(wanted * ROUNDS_MAX):
        if number >= wanted and enough():
            return
        yield number
    assert enough(), f"{wanted * ROUNDS_MAX} rounds saw too little to prove anything"


def kill_under(daemon: DaemonProcess, works: Sequence[Callable[[], None]], seconds: float) -> None:
    """Do all of these works at once, each again and again, and kill the daemon after `seconds`.

    A work ends when the daemon is gone. If it ends with another error, that is raised here.
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


# The figures of a queue in `stats` that are 0 when all items were fetched and no client waits.
_UNDER_WAY = (
    "items", "bytes", "mem_items", "mem_bytes", "delayed", "leased", "dead", "waiters",
    "open_transactions", "keys_in_flight", "keys_blocked",
)  # fmt: skip
_HELD = ("items", "delayed", "leased", "dead")  # by some queue


def fetch_all(daemon: DaemonProcess) -> None:
    """Fetch all items of all queues, dead ones as well, and end all leases by token.

    Delayed items, and items leased without a token, are waited for.
    """
    with Raw(("127.0.0.1", daemon.port)) as raw:

        def is_over() -> bool:
            facts = raw.stats()
            names = [name for name in facts if name.startswith("queue_") and name.count("_") > 1]
            for queue in sorted({name.split("_", 2)[1] for name in names}):
                for name, token in raw.stats(f"stats {queue}/open".encode()).items():
                    if name.endswith("_token") and token != "-":
                        raw.ask(f"delete {queue}/token={token}\r\n".encode(), b"DELETED\r\n")
                for line in (queue, f"{queue}/dead"):
                    while raw.values(line.encode()):
                        pass
            return not any(int(facts[name]) for name in names if name.split("_", 2)[2] in _HELD)

        wait_until(is_over, "all is fetched")


def leave_nothing(daemon: DaemonProcess) -> None:
    """Fetch everything, without other clients; check that nothing is left, also after a restart."""
    with contextlib.closing(daemon.client()) as client:
        assert client.set("last-of-all", b"x")  # there is a queue to be asked of, whatever was done
    fetch_all(daemon)
    see_nothing_left(daemon, restarts=True)


def see_nothing_left(daemon: DaemonProcess, *, restarts: bool = False) -> None:
    """Check that `stats` counts nothing in any queue, and no connection but its own.

    `restarts`: check the same after a restart.
    """
    with contextlib.closing(daemon.client()) as client:

        def left() -> dict[str, int]:
            facts = {name.decode(): value for name, value in client.stats().items()}
            queues = [n for n in facts if n.startswith("queue_") and n.count("_") > 1]
            asked = [name for name in queues if name.split("_", 2)[2] in _UNDER_WAY]
            assert asked, "there are queues to be asked"
            found = {name: int(facts[name]) for name in asked}
            found["connections"] = int(facts["curr_connections"]) - 1
            return {name: count for name, count in found.items() if count}

        with contextlib.suppress(AssertionError):
            wait_until(lambda: not left(), "nothing is left")  # the last to hang up is noticed soon
        assert left() == {}, left()
    if restarts:
        assert daemon.stop() == 0
        daemon.start()
        see_nothing_left(daemon)
