"""The reservation pattern: a command that is sent again and again is handled once.

    python -m kestrelpy.examples.reservation [--server HOST:PORT]

    commands ──open──▶ reserve ──add /id=──▶ reserved ──open──▶ handle ──set /confirm=──▶ done
    the same again ──▶ reserve: seen, only confirmed

A sender repeats a command if it gets no answer, and a queue delivers one again if a worker dies.
The first handler does no work: it copies each command under the command's own id, so that the
second queue has it once. The second handler works; one step stores its answer and confirms the
command. Both are processes that are killed at random.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import time
import uuid
from collections import Counter
from typing import Any

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheClientError

from kestrelpy.examples import fresh

COMMANDS = "reserve.commands"
RESERVED = "reserve.reserved"
DONE = "reserve.done"
COUNT = 40
KILLS = 8


def reserve(address: tuple[str, int]) -> None:
    """Copy each command, with its id and the queue that it came from."""
    queue = Client(address, timeout=60, default_noreply=False)
    while True:
        body, token = queue.gets(f"{COMMANDS}/open/lease=1s/t=1s")
        if body is None:
            continue
        command = json.loads(body)
        command["follows"] = COMMANDS
        queue.add(f"{RESERVED}/id={command['id']}", json.dumps(command))  # False: it is there
        queue.delete(f"{COMMANDS}/token={int(token)}")


def handle(address: tuple[str, int]) -> None:
    """Handle the reserved commands."""
    queue = Client(address, timeout=60, default_noreply=False)
    while True:
        body, token = queue.gets(f"{RESERVED}/open/lease=1s/t=1s")
        if body is None:
            continue
        command = json.loads(body)
        time.sleep(0.01)  # the work
        answer = json.dumps({"id": command["id"], "did": command["do"]})
        try:
            queue.set(f"{DONE}/confirm={RESERVED}:{int(token)}", answer)
        except MemcacheClientError:  # not valid any more: another handler has it
            continue


def main() -> None:
    """Send forty commands, each up to three times, while both handlers are killed."""
    processes = multiprocessing.get_context("spawn")
    with fresh.server(__doc__) as server:
        queue, chance, run = server.client(), random.Random(1), uuid.uuid4().hex[:8]
        commands = [{"id": f"{run}-{number}", "do": f"ship {number}"} for number in range(COUNT)]
        sent = [each for each in commands for _ in range(chance.randrange(1, 4))]
        chance.shuffle(sent)
        for command in sent:
            queue.set(COMMANDS, json.dumps(command))

        def start(work: Any) -> Any:
            handler = processes.Process(target=work, args=(server.address,), daemon=True)
            handler.start()
            return handler

        handlers = {work: start(work) for work in (reserve, handle)}
        for number in range(KILLS):
            time.sleep(chance.uniform(0.3, 0.9))
            work = (reserve, handle)[number % 2]
            handlers[work].kill()
            handlers[work].join()
            handlers[work] = start(work)
        server.say(f"{KILLS} handlers were killed in the middle of something")
        fresh.wait_until_empty(queue, COMMANDS, RESERVED)
        for handler in handlers.values():
            handler.kill()
            handler.join()

        done = Counter[str]()
        while (body := queue.get(DONE)) is not None:
            done[json.loads(body)["id"]] += 1
        assert done == Counter(command["id"] for command in commands), done
        server.say(f"{len(sent)} commands sent, {len(done)} different ones, each handled once")


if __name__ == "__main__":
    main()
