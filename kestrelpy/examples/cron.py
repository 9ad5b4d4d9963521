"""A cron-like job: the daemon puts an item at each run time, and a worker does the job.

    python -m kestrelpy.examples.cron [--server HOST:PORT]

    [schedules.report] ──every second──▶ cron.report ──▶ a worker, one report at a time

Each run time is put exactly once, whatever is killed. Run times that passed while the daemon was
down are put when it is back (`catch_up`: all, the last one, or none). A failed job is given back
and tried again, like any item; a job that takes longer than the time to the next one does not
overlap it (`max_leased = 1`).
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
    """Return the first run time: the last one, less one second for each item before.

    It never changes if each run time is put once.
    """
    while True:
        last = queue.stats("schedules")[b"schedule_report_last"]
        total = queue.stats(QUEUE)[f"queue_{QUEUE}_total_items".encode()]
        if queue.stats("schedules")[b"schedule_report_last"] == last:
            return int(last - total + 1)


def report(server: fresh.Server, queue: PooledClient, number: int) -> None:
    """Wait for the next item, and do its job."""
    body, token = queue.gets(f"{QUEUE}/open/lease=10s/t=10s")
    if body is None:
        raise SystemExit(f"nothing comes: put this into kestrelpy.toml, and reload\n{CONFIG}")
    server.say(f"{number}: {body.decode()}")
    queue.delete(f"{QUEUE}/token={int(token)}")  # confirm


def main() -> None:
    """Make six reports; the daemon is killed after the second and is down for a while."""
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
