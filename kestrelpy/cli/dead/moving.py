"""`kestrelpy dead redrive` and `kestrelpy move`: transfers from the command line.

One rule: the server moves some hundred items per request, and replies with the number that arrived
on disk; the command prints the sum of those, however it ends.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheClientError, MemcacheServerError

from kestrelpy.cli.asking import asked, report
from kestrelpy.cli.at import At
from kestrelpy.cli.dead.dead import dead_items, deaths_of, listed
from kestrelpy.cli.errors import NOTHING, CommandError
from kestrelpy.cli.journals.journal import watch
from kestrelpy.cli.remote import connected, no_queue, printable, require_queue
from kestrelpy.cli.screen import counted
from kestrelpy.client import reason

_AT_ONCE: Final = 400  # of one request: this many numbers fit into a line
_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Which:
    """Dead items of a queue: those of these numbers, or all; with `containing` in reason or body.

    They go to the queue `to`, or back to their own.
    """

    queue: str
    to: str | None
    numbers: list[int]
    everything: bool
    containing: str | None


def redrive(
    at: At, which: Which, rate: str | None, dry_run: bool, yes: bool, as_json: bool = False
) -> None:
    """Make dead letters available again; raise CommandError if a named one is not dead."""
    if bool(which.numbers) == which.everything:
        raise CommandError("dead redrive: say which items, or --all of them")
    if which.to == "":
        raise CommandError("--to: which queue? Leave it out for the queue they died in")
    per_second, queue = _rate(rate), which.queue
    with connected(at) as client:
        name, target = _names(client, queue, which.to or queue)
        require_queue(client, queue)
        deaths = deaths_of(client, queue)
        named = list(deaths) if which.everything else list(dict.fromkeys(which.numbers))
        missing = [number for number in named if number not in deaths]
        chosen = [number for number in named if number in deaths]
        if which.containing is not None:
            text = which.containing
            chosen = [n for n in chosen if _contains(client, queue, n, deaths[n]["reason"], text)]
        back = "back to its end" if which.to is None else f"to {which.to}"
        # `max_age` of another queue gives them one.
        whole = f"{back}, without an expiry" + (" of their own" if target != name else "")
        facts = {"queue": queue, "to": which.to or queue}
        if dry_run and as_json:
            print(json.dumps({**facts, "would_redrive": chosen}))
        elif dry_run:
            print(f"would redrive {dead_items(len(chosen))} of {queue} {whole}")
            for number in chosen[:_SHOWN]:
                print(f"  {number}  {printable(str(deaths[number]['reason'] or ''))}")
        elif chosen:
            if not yes and not asked(f"{dead_items(len(chosen))} of {queue} go {whole}. Redrive?"):
                raise CommandError("nothing was changed", NOTHING)
            done = _send_requests(
                client, len(chosen), per_second, "redriving",
                lambda n, most: f"redrive {name} {_numbers(chosen[n : n + most])} {target}",
                lambda moved: report(
                    as_json, {**facts, "redriven": moved},
                    f"redrove {dead_items(moved)} of {queue} {whole}",
                ),
            )  # fmt: skip
            if done < len(chosen):
                raise CommandError(f"{queue}: {len(chosen) - done} stay, see dead ls", NOTHING)
        else:
            text = f"redrove {dead_items(0)} of {queue} {back}"
            report(as_json, {**facts, "redriven": 0}, text)
    if missing:
        raise CommandError(f"{queue}: not among the dead letters: {listed(missing)}", NOTHING)


def move(
    at: At, source: str, target: str, count: int | None, rate: str | None, dry_run: bool,
    yes: bool, as_json: bool = False,
) -> None:  # fmt: skip
    """Move waiting items to another queue; raise CommandError if some of them stay."""
    per_second = _rate(rate)
    with connected(at) as client:
        name, other = _names(client, source, target)
        found = client.stats(name)
        if not found:
            raise no_queue(source)
        waiting = int(found[f"queue_{name}_items".encode()])
        wanted = waiting if count is None else min(count, waiting)
        facts = {"queue": source, "to": target}
        if dry_run:
            text = f"would move {counted(wanted, 'item')} from {source} to {target}"
            report(as_json, {**facts, "would_move": wanted}, text)
            return
        question = f"{counted(wanted, 'item')} of {source} go to {target}. Move?"
        if wanted and not yes and not asked(question):
            raise CommandError("nothing was changed", NOTHING)
        done = _send_requests(
            client, wanted, per_second, "moving",
            lambda begun, most: f"move {name} {other} {most}",
            lambda moved: report(
                as_json, {**facts, "moved": moved},
                f"moved {counted(moved, 'item')} from {source} to {target}",
            ),
        )  # fmt: skip
        # consumers may have taken the rest; the items that still wait were refused there
        if done < wanted:
            waiting = int(client.stats(name).get(f"queue_{name}_items".encode(), 0))
            if stay := min(wanted - done, waiting):
                why = f"{target} takes no more, or an item of their key is leased"
                raise CommandError(f"{source}: {stay} stay: {why}", NOTHING)


def _send_requests(
    client: Client, total: int, per_second: int, doing: str, command: Callable[[int, int], str],
    tell: Callable[[int], None],
) -> int:  # fmt: skip
    """Send request after request, at most `per_second` items (0: any); `tell` the sum in any
    case."""
    show, moved, asked_for = watch(doing), 0, 0
    try:
        for most in _portions(total, per_second):
            arrived = int(client.raw_command(command(asked_for, most)))
            asked_for += most
            moved += arrived
            show(asked_for, total)
    except (MemcacheServerError, MemcacheClientError) as error:
        tell(moved)
        raise CommandError(f"the rest stays: {reason(error)}", NOTHING) from None
    finally:
        show(total, total)
    tell(moved)
    return moved


def _portions(total: int, per_second: int) -> Iterator[int]:
    """Yield the sizes of the requests; with a rate each at its time."""
    most = min(per_second or _AT_ONCE, _AT_ONCE)
    began, done = time.monotonic(), 0
    while done < total:
        if per_second:
            time.sleep(max(began + done / per_second - time.monotonic(), 0))
        yield min(most, total - done)
        done += most


def _contains(
    client: Client, queue: str, number: int, why: str | int | None, text: str
) -> bool:
    if text in str(why or ""):
        return True
    marker = client.stats(f"{queue}/item={number}").get(b"marker")
    if not isinstance(marker, int):  # it is gone meanwhile
        return False
    found, at = client.gets(f"{queue}/peek/after={marker - 1}")
    if found is None or int(at) != marker:
        return False
    body, _ = found  # and its flags
    return text.encode("utf-8", "surrogateescape") in body


def _names(client: Client, *queues: str) -> list[str]:
    """Return the names for a command: each is one word, so it cannot add another command."""
    return [client.check_key(queue, b"").decode("ascii") for queue in queues]


def _rate(text: str | None) -> int:
    if text is None:
        return 0
    found = re.fullmatch("([1-9][0-9]{0,8})(/s)?", text)
    if found is None:
        raise CommandError(f"--rate: {text!r} must be a whole number a second, for instance 100/s")
    return int(found[1])


def _numbers(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))
