"""A cron-like job: the daemon puts an item at each time, and a worker does what it stands for.

    python -m kestrelpy.examples.cron [--server HOST:PORT]

    [schedules.report] ──every second──▶ cron.report ──▶ a worker, one report at a time

Each time is put exactly once, whatever is killed and whenever; times that passed while the daemon
was away are put when it is back (`catch_up`: all, the last one, or none). A job that fails is
given back and tried again, as any item is; one that takes longer than the pause between two times
does not overlap the next (`max_leased = 1`).
"""

from __future__ import annotations

import time

from pymemcache.client.base import PooledClient

from kestrelpy.examples import fresh

QUEUE = "cron.report"
CONFIG = f"""
[schedules.report]
cron = "* * * * * *"    # six fields begin with the second; five with the minute, as in crontab
queue = "{QUEUE}"
body = "the daily report"
catch_up = "all"

[queues."{QUEUE}"]
max_leased = 1
"""
REPORTS = 6
AWAY_SECONDS = 2.5


def first_time(queue: PooledClient) -> int:
    """The last time that was put, less one second for each item before: the same for ever, if each
    was put once."""
    while True:
        last = queue.stats("schedules")[b"schedule_report_last"]
        total = queue.stats(QUEUE)[f"queue_{QUEUE}_total_items".encode()]
        if queue.stats("schedules")[b"schedule_report_last"] == last:
            return int(last - total + 1)


def report(server: fresh.Server, queue: PooledClient, number: int) -> None:
    """Wait for the next item, and do what it stands for."""
    body, token = queue.gets(f"{QUEUE}/open/lease=10s/t=10s")
    if body is None:
        raise SystemExit(f"nothing comes: put this into kestrelpy.toml, and reload\n{CONFIG}")
    server.say(f"{number}: {body.decode()}")
    queue.delete(f"{QUEUE}/token={int(token)}")  # confirm


def main() -> None:
    """Six reports; the daemon is killed after the second and is away for a while."""
    with fresh.server(__doc__, CONFIG) as server:
        queue = server.client()
        report(server, queue, 1)
        first = first_time(queue)
        report(server, queue, 2)
        if server.folder is not None:
            server.kill()
            server.say(f"the daemon was killed (kill -9), and is away for {AWAY_SECONDS} s")
            time.sleep(AWAY_SECONDS)
            server.start()
            server.say("it is back")
            queue = server.client()  # the old connections are broken
        for number in range(3, REPORTS + 1):
            report(server, queue, number)

        assert first_time(queue) == first
        server.say("each second was put once")


if __name__ == "__main__":
    main()
