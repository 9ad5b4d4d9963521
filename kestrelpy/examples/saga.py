"""A saga: a trip is booked in three steps; if one step fails, the others are undone.

    python -m kestrelpy.examples.saga [--server HOST:PORT]

    saga.flight ──booked──▶ saga.hotel ──booked──▶ saga.card ──paid──▶ done
         ▲                     │  ▲                   │
         └───────undo──────────┘  └───────undo────────┘   no room, no money

Each step is a queue with a worker of its own. A worker does its step, stores the message for the
next step, or for the one before, and confirms. If it dies in between, its message comes again and
the next message is there twice. So a step records what it did for which trip and does nothing
twice; a trip that was undone stays undone.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field

from kestrelpy.examples import fresh

STEPS = ("saga.flight", "saga.hotel", "saga.card")
TRIPS = 12
NO_ROOM = {3, 7}  # the hotel has none for these trips
NO_MONEY = {5}
DIES_ONCE = {2: "saga.flight", 4: "saga.hotel", 7: "saga.hotel"}  # before its confirm


@dataclass
class Books:
    """The state of each trip in one step: "booked" or "undone". In your service: its database."""

    trips: dict[int, str] = field(default_factory=dict)


class Step:
    """The worker of one step."""

    def __init__(self, server: fresh.Server, queue: str, books: Books) -> None:
        self.server, self.queue, self.books = server, queue, books
        self.client = server.client()
        self.died: set[int] = set()

    def work(self, over: threading.Event) -> None:
        """Take a message, do its step, send the next message, confirm."""
        while not over.is_set():
            body, token = self.client.gets(f"{self.queue}/open/lease=1s/t=200ms")
            if body is None:
                continue
            message = json.loads(body)
            trip = message["trip"]
            send_to, what = self.do(trip, message["do"])
            if send_to:
                self.client.set(send_to, json.dumps({"trip": trip, "do": what}))
            if DIES_ONCE.get(trip) == self.queue and trip not in self.died:
                self.died.add(trip)
                self.server.say(f"trip {trip:2}: the worker of {self.queue} dies, unconfirmed")
                continue  # no confirm and no abort: its lease has to end
            self.client.delete(f"{self.queue}/token={int(token)}")  # confirm

    def do(self, trip: int, what: str) -> tuple[str | None, str]:
        """Book or undo; return the queue for the next message, and its command."""
        here, done = STEPS.index(self.queue), self.books.trips
        before = STEPS[here - 1] if here > 0 else None
        after = STEPS[here + 1] if here + 1 < len(STEPS) else None
        if what == "book" and done.get(trip) != "undone" and self.can_book(trip):
            done[trip] = "booked"
            return after, "book"
        if done.get(trip) == "booked":
            self.server.say(f"trip {trip:2}: {self.queue} is undone")
        done[trip] = "undone"
        return before, "undo"

    def can_book(self, trip: int) -> bool:
        """Return True if this step can book the trip."""
        refused = {"saga.hotel": NO_ROOM, "saga.card": NO_MONEY}.get(self.queue, set())
        return trip not in refused


def main() -> None:
    """Book twelve trips; three of them are impossible, and three workers die."""
    with fresh.server(__doc__) as server:
        queue, over = server.client(), threading.Event()
        steps = [Step(server, name, Books()) for name in STEPS]
        threads = [threading.Thread(target=step.work, args=(over,)) for step in steps]
        for thread in threads:
            thread.start()

        for trip in range(1, TRIPS + 1):
            queue.set(STEPS[0], json.dumps({"trip": trip, "do": "book"}))
        fresh.wait_until_empty(queue, *STEPS)
        over.set()
        for thread in threads:
            thread.join()

        cancelled = NO_ROOM | NO_MONEY
        for trip in range(1, TRIPS + 1):
            states = {step.books.trips.get(trip, "undone") for step in steps}
            assert states == ({"undone"} if trip in cancelled else {"booked"}), (trip, states)
        server.say(
            f"{TRIPS - len(cancelled)} trips are booked in all three steps, "
            f"{len(cancelled)} in none; nothing is half done"
        )


if __name__ == "__main__":
    main()
