"""Dead letters of many servers, back to their queues or to another queue of their server.

    python -m kestrelpy.spark.jobs.redrive --servers a:22133,b:22133 --queues 'log.*' --to retry

    look     stats                   which queues have dead letters, on all servers
    choose   stats q/dead            by number, time of death, reason
    move     redrive q 3,5,8 [to]    some hundred at once, at the rate; the reply: how many arrived

The server moves: its own promise is that an item is in one of the two queues, once, whatever
crashes. If a reply is lost, the job looks at the dead letters again and asks only for those that
are still there *with the same time of death*: an item that came back and died again meanwhile is
another death, and stays. So the job may be killed and run again at any time. With `--died-before`
a second run redrives no item that died after the first one.

Exit code 1: some stay that were chosen (a full target, a server that went away); 0: none does.

One rule: an item is redriven for a death that this job has seen, and once for each.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.jobs.common.fleet import ServerFigures, add_flags, fleet_options, look
from kestrelpy.spark.jobs.common.job import BREACH, HOLDS, Outcome, Progress, counted, perform
from kestrelpy.spark.live import LiveConnection, patience_of, retried
from kestrelpy.spark.offsets import Address
from kestrelpy.spark.options import Options

_AT_ONCE: Final = 400  # of one request: this many numbers fit into a line
_NAME: Final = re.compile(r"(?!\.{1,2}\Z)[!-.0-~]{1,128}")  # printable, without blank and slash
_RATE: Final = re.compile("([1-9][0-9]{0,8})(?:/s)?")
_DEATH: Final = re.compile(r"([0-9]+)_([a-z_]+)")
_NONE: Final = "-"


@dataclass(frozen=True, slots=True)
class Choice:
    """Which dead letters go where, and how fast. `to` None: to the queue where they died."""

    to: str | None = None
    reason: str | None = None  # contained in the reason
    attempts_least: int = 0
    rate: str | None = None
    is_dry_run: bool = False

    def check(self) -> None:
        """Raise KestrelError for what cannot be."""
        if self.to is not None and not _NAME.fullmatch(self.to):
            raise KestrelError(
                f"--to {self.to!r} is not the name of a queue. It has 1 to 128 printable "
                "characters, without blank and slash."
            )
        if self.to is not None and "+" in self.to:
            raise KestrelError(f"--to {self.to} names a child. Items go to a queue.")
        _ = self.per_second

    @property
    def per_second(self) -> int:
        """Items a second over all servers; 0: as fast as they go. Raises KestrelError."""
        if self.rate is None:
            return 0
        found = _RATE.fullmatch(self.rate)
        if found is None:
            raise KestrelError(
                f"--rate {self.rate!r} must be a whole number a second, for instance 100/s."
            )
        return int(found[1])


@dataclass(frozen=True, slots=True)
class Death:
    """A dead letter; its number and time together name one death."""

    number: int
    died_ms: int
    attempts: int
    reason: str


@dataclass(slots=True)
class RedriveBatch:
    """The chosen dead letters of one queue, and what became of them."""

    address: Address
    server: str
    queue: str
    deaths: list[Death] = field(default_factory=list)
    moved: int = 0
    error: str = ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(prog="redrive", description=__doc__.splitlines()[0])
    add_flags(parser, must_name_queues=True)
    parser.add_argument("--to", metavar="QUEUE", help="default: the queue where they died")
    parser.add_argument("--reason", metavar="TEXT", help="only with this in their reason")
    parser.add_argument("--attempts", type=int, default=0, metavar="N", help="only with N or more")
    parser.add_argument("--died-from", metavar="TIME", help="only since, like 2026-01-31T12:00")
    parser.add_argument("--died-before", metavar="TIME", help="only before")
    parser.add_argument("--rate", metavar="N/s", help="at most N a second")
    parser.add_argument("--dry-run", action="store_true", help="only count them")
    said = parser.parse_args(argv)
    choice = Choice(said.to, said.reason, said.attempts, said.rate, said.dry_run)
    times = {"startingTimestamp": said.died_from, "endingTimestamp": said.died_before}
    return command(
        said.servers, said.queues, said.option, times, choice, said.as_json, said.summary
    )


def command(
    servers: str, queues: str, words: Sequence[str], times: dict[str, str | None],
    choice: Choice, as_json: bool, summary: str | None,
) -> int:  # fmt: skip
    """Redrive and print what became of it; return the exit code."""

    def act(progress: Progress) -> Outcome:
        choice.check()
        options = fleet_options(servers, queues, words, times)
        return outcome(redrive(options, choice, progress), choice)

    return perform("redrive", act, as_json, summary)


def redrive(options: Options, choice: Choice, progress: Progress) -> list[RedriveBatch]:
    """Move the chosen dead letters; return each queue's. Raises KestrelError before any moved."""
    progress.step("looking at dead letters")
    batches = [
        batch for server in look(options) for batch in _chosen(server, options, choice)
    ]
    if choice.is_dry_run:
        return batches
    total, done = sum(len(batch.deaths) for batch in batches), 0
    pace = _Pace(choice.per_second)
    for batch in batches:
        try:
            for count in _moved(batch, options, choice, pace):
                done += count
                progress.step(f"redriving: {done:,} of {total:,}, {batch.queue} of {batch.address}")
        except KestrelError as error:  # the other servers go on
            batch.error = str(error)
    return batches


# -- choosing --------------------------------------------------------------------------------------


def _chosen(server: ServerFigures, options: Options, choice: Choice) -> Iterator[RedriveBatch]:
    for name, figures in server.queues.items():
        if figures.dead and options.chooses(name):
            deaths = [
                death for death in _deaths(server.address, name, options)
                if _is_wanted(death, options, choice)
            ]  # fmt: skip
            if deaths:
                yield RedriveBatch(server.address, server.server, name, deaths)


def _deaths(address: Address, queue: str, options: Options) -> list[Death]:
    """Ask for the dead letters of a queue, the oldest first. Raises KestrelError."""
    patience = patience_of(options)

    def once() -> list[Death]:
        wire = LiveConnection(address, patience)
        try:
            return deaths_in(wire.stats(f"{queue}/dead"), queue)
        finally:
            wire.close()

    return retried(address, patience, once)


def deaths_in(stats: dict[str, str], queue: str) -> list[Death]:
    """Return the dead letters that an answer to `stats <queue>/dead` lists."""
    facts: dict[int, dict[str, str]] = {}
    for key, value in stats.items():
        found = _DEATH.fullmatch(key.removeprefix(f"queue_{queue}_dead_"))
        if found is not None:
            facts.setdefault(int(found[1]), {})[found[2]] = value
    return [
        Death(
            number, int(said.get("died_ms", "0")), int(said.get("attempts", "0")),
            "" if said.get("reason", _NONE) == _NONE else unquote(said["reason"]),
        )
        for number, said in facts.items()
    ]  # fmt: skip


def _is_wanted(death: Death, options: Options, choice: Choice) -> bool:
    starting, ending = options.starting_timestamp_ms, options.ending_timestamp_ms
    return (
        (choice.reason is None or choice.reason in death.reason)
        and death.attempts >= choice.attempts_least
        and (starting is None or death.died_ms >= starting)
        and (ending is None or death.died_ms < ending)
    )


# -- moving ----------------------------------------------------------------------------------------


class _Pace:
    """Waits, so that there are at most `per_second` items a second; 0: never waits."""

    def __init__(self, per_second: int) -> None:
        self.at_once = min(per_second or _AT_ONCE, _AT_ONCE)
        self._per_second = per_second
        self._began = time.monotonic()
        self._done = 0

    def wait(self, count: int) -> None:
        """Wait until it is time for `count` more."""
        if self._per_second:
            due = self._began + self._done / self._per_second
            time.sleep(max(due - time.monotonic(), 0))
        self._done += count


def _moved(batch: RedriveBatch, options: Options, choice: Choice, pace: _Pace) -> Iterator[int]:
    """Move the batch, request by request; yield how many each moved. Raises KestrelError."""
    patience = patience_of(options)
    for start in range(0, len(batch.deaths), pace.at_once):
        some = batch.deaths[start : start + pace.at_once]
        pace.wait(len(some))
        is_again = False

        def once(some: list[Death] = some) -> int:
            nonlocal is_again
            before, is_again = is_again, True
            wire = LiveConnection(batch.address, patience)
            try:
                gone = 0
                if before:  # a reply was lost: the request may have been carried out
                    there = {*deaths_in(wire.stats(f"{batch.queue}/dead"), batch.queue)}
                    left = [death for death in some if death in there]
                    gone = len(some) - len(left)
                    if not left:
                        return gone
                    return gone + _request(wire, batch, left, choice)
                return _request(wire, batch, some, choice)
            finally:
                wire.close()

        count = retried(batch.address, patience, once)
        batch.moved += count
        yield count


def _request(
    wire: LiveConnection, batch: RedriveBatch, deaths: Sequence[Death], choice: Choice
) -> int:
    numbers = ",".join(str(death.number) for death in deaths)
    target = choice.to or batch.queue
    answer = wire.answer_to(f"redrive {batch.queue} {numbers} {target}")
    if not answer.isdigit():  # NOT_FOUND: the queue was deleted, and they went with it
        return 0
    return int(answer)


# -- telling ---------------------------------------------------------------------------------------


def outcome(batches: Sequence[RedriveBatch], choice: Choice) -> Outcome:
    """Return what became of the batches as text and facts."""
    chosen = sum(len(batch.deaths) for batch in batches)
    moved = sum(batch.moved for batch in batches)
    stay = 0 if choice.is_dry_run else chosen - moved
    where = f"to {choice.to}" if choice.to else "back to their queues"
    where += ", without an expiry" + (" of their own" if choice.to else "")
    queues = f"{counted(len(batches), 'queue')} of {_servers(batches)}"
    if choice.is_dry_run:
        lines = [f"would redrive {_letters(chosen)} in {queues} {where}"]
    else:
        lines = [f"redrove {_letters(moved)} in {queues} {where}"]
    for batch in batches:
        count = len(batch.deaths) if choice.is_dry_run else batch.moved
        line = f"  {batch.queue} of {batch.address}: {count:,}"
        left = len(batch.deaths) - batch.moved
        if left and not choice.is_dry_run:
            line += f"; {left:,} stay{': ' + batch.error if batch.error else ''}"
        lines.append(line)
    if stay:
        lines.append(f"{_letters(stay)} that were chosen stay. Run it again.")
    facts: dict[str, object] = {
        "dry_run": choice.is_dry_run, "to": choice.to, "chosen": chosen, "redriven": moved,
        "stay": stay,
        "queues": [
            {"server": b.server, "queue": b.queue, "chosen": len(b.deaths), "redriven": b.moved,
             "error": b.error or None}
            for b in batches
        ],
    }  # fmt: skip
    return Outcome("\n".join(lines), facts, BREACH if stay else HOLDS)


def _servers(batches: Sequence[RedriveBatch]) -> str:
    return counted(len({batch.server for batch in batches}), "server")


def _letters(count: int) -> str:
    return counted(count, "dead letter")
