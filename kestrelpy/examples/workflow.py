"""A workflow: three steps, each tried again on its own; hopeless items become dead letters.

    python -m kestrelpy.examples.workflow [--server HOST:PORT]

    flow.fetch ──▶ flow.resize ──▶ flow.publish ──▶ done
      │ fails: again after 100 ms, 200 ms, 400 ms ...     (retry_delay, retry_backoff)
      └ fails five times, or can never work ──▶ a dead letter ──redrive──▶ tried again

Each step is a queue. Only a failed step is tried again; the results of the steps before it stay,
because they travel in the message. The publisher declares how the queues retry.

A worker stores the next message, then confirms this one: if it dies in between, a step runs twice.
So a step must be safe to repeat; here it writes the same result over the first one.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from urllib.parse import quote

from pymemcache.client.base import PooledClient

from kestrelpy.examples import fresh

RETRIES = """
max_attempts = 5
retry_delay = "100ms"
retry_backoff = 2
"""
PICTURES = ("sea.jpg", "sky.jpg", "virus.exe", "hill.jpg", "vain.jpg")
FAILS = Counter({  # how often, before it works
    ("flow.fetch", "sky.jpg"): 1, ("flow.resize", "hill.jpg"): 3, ("flow.publish", "sea.jpg"): 2,
    ("flow.publish", "vain.jpg"): 1000,
})  # fmt: skip

site: dict[str, str] = {}  # what is published
done: Counter[tuple[str, str]] = Counter()  # how often each step succeeded, by picture


class Hopeless(Exception):
    """A step that would fail every time: do not try again."""


def fetch(picture: str, _: str) -> str:
    """Run the first step."""
    if not picture.endswith(".jpg"):
        raise Hopeless(f"{picture} is no picture")
    return f"[{picture}]"


def resize(_: str, pixels: str) -> str:
    """Run the second step, with the result of the first."""
    return f"small {pixels}"


def publish(picture: str, pixels: str) -> str:
    """Run the third step."""
    site[picture] = pixels
    return ""


STEPS: dict[str, Callable[[str, str], str]] = {
    "flow.fetch": fetch, "flow.resize": resize, "flow.publish": publish,
}  # fmt: skip
FOLLOWING = {"flow.fetch": "flow.resize", "flow.resize": "flow.publish"}


def work(server: fresh.Server, queue: PooledClient, step: str, over: threading.Event) -> None:
    """Run the worker of one step."""
    while not over.is_set():
        body, token = queue.gets(f"{step}/open/lease=10s/t=200ms")
        if body is None:
            continue
        message, token = json.loads(body), int(token)
        picture = message["picture"]
        try:
            if FAILS[step, picture] > 0:
                FAILS[step, picture] -= 1
                raise ConnectionError("no answer")
            result = STEPS[step](picture, message["result"])
        except Hopeless as error:
            server.say(f"{picture}: {step} is hopeless: {error}")
            why = quote(str(error).encode()[:60], safe="")  # a whole key has 250 bytes at most
            queue.get(f"{step}/abort/dead={why}/token={token}")
        except ConnectionError as error:
            server.say(f"{picture}: {step} failed: {error}")
            queue.get(f"{step}/abort/token={token}")  # again, when the queue's settings say so
        else:
            done[step, picture] += 1
            if step in FOLLOWING:
                queue.set(FOLLOWING[step], json.dumps({"picture": picture, "result": result}))
            queue.delete(f"{step}/token={token}")  # confirm


def main() -> None:
    """Send five pictures: one is no picture, one cannot be published, two fail at first."""
    with fresh.server(__doc__) as server:
        queue, over = server.client(), threading.Event()
        for step in STEPS:
            fresh.declare(queue, step, RETRIES)
        threads = [
            threading.Thread(target=work, args=(server, queue, step, over)) for step in STEPS
        ]
        for thread in threads:
            thread.start()

        for picture in PICTURES:
            queue.set("flow.fetch", json.dumps({"picture": picture, "result": ""}))
        fresh.wait_until_empty(queue, *STEPS)
        assert sorted(site) == ["hill.jpg", "sea.jpg", "sky.jpg"]
        server.say(f"published: {', '.join(sorted(site))}")
        for step in STEPS:
            fresh.say_dead(server, queue, step)

        # A person has looked, and fixed the cause for vain.jpg. `kestrelpy dead redrive` sends:
        FAILS.clear()
        count = queue.raw_command("redrive flow.publish all")
        server.say(f"repaired and redriven: {count.decode()}")
        fresh.wait_until_empty(queue, *STEPS)
        over.set()
        for thread in threads:
            thread.join()

        assert sorted(site) == ["hill.jpg", "sea.jpg", "sky.jpg", "vain.jpg"]
        assert set(done.values()) == {1}, "a step that succeeded was not done again"
        server.say(f"published: {', '.join(sorted(site))}")


if __name__ == "__main__":
    main()
