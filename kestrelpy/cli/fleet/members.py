"""`kestrelpy fleet members`, `owners`, `takeovers` and `drain`: which member has which slices.

One rule: what an operator wants is written into the engine; the members themselves do it.
"""

from __future__ import annotations

import json
import time
from typing import Final

from journal.engine import Facts
from kestrelpy.cli.errors import NOTHING, CommandError
from kestrelpy.cli.fleet.fleet import (
    EngineAt,
    look,
    numbers,
    numbers_of,
    refused,
    seconds,
    state_of,
)
from kestrelpy.cli.journals.place import tools_of
from kestrelpy.cli.remote import parse_wait_ms
from kestrelpy.cli.screen import console, repeated, table
from kestrelpy.fleet import living, member_facts, owned

_LOOK_SECONDS: Final = 0.2


def members(at: EngineAt, as_json: bool, watch: str | None) -> None:
    """Print the members with their slices; raise CommandError."""
    def draw() -> None:
        facts = look(at)
        rows = member_facts(len(numbers_of(facts)), facts.owners, facts.members)
        if as_json:
            print(json.dumps([each._asdict() for each in rows]))
            return
        found = table(
            "member", "address", "state", "seen", "owns", "waits for",
            left=("member", "address", "state", "owns", "waits for"),
        )  # fmt: skip
        for each in rows:
            found.add_row(
                each.member, each.address, each.state, f"{seconds(each.age_ms / 1000)} ago",
                numbers(each.owns), numbers(each.waits_for),
            )  # fmt: skip
        console().print(found)

    repeated(watch, draw)


def owners(at: EngineAt, as_json: bool) -> None:
    """Print where the owner of each slice answers; raise CommandError."""
    facts = look(at)
    rows = [
        (number, facts.owners[number].member)
        for number in numbers_of(facts) if state_of(facts, at, number) == "owned"
    ]  # fmt: skip
    if as_json:
        print(json.dumps({
            "slices": len(numbers_of(facts)),
            "owners": {number: {"member": m.name, "address": m.address} for number, m in rows},
        }))  # fmt: skip
        return
    found = table("slice", "member", "address", left=("member", "address"))
    for number, member in rows:
        found.add_row(f"{number}", member.name, member.address)
    console().print(found)


def takeovers(at: EngineAt, as_json: bool) -> None:
    """Print the last takeovers, the newest first; raise CommandError."""
    rows = look(at).takeovers
    if as_json:
        print(json.dumps([
            {"slice": each.slice, "epoch": each.epoch, "from": each.before or None,
             "to": each.member.name, "address": each.member.address, "why": each.why,
             "idle_ms": round(each.idle_s * 1000), "took_ms": round(each.took_s * 1000),
             "age_ms": round(each.age_s * 1000)}
            for each in rows
        ]))  # fmt: skip
        return
    found = table("when", "slice", "from", "to", "why", "idle", "took", left=("from", "to", "why"))
    for each in rows:
        found.add_row(
            f"{seconds(each.age_s)} ago", f"{each.slice}", each.before, each.member.name, each.why,
            seconds(each.idle_s), seconds(each.took_s),
        )  # fmt: skip
    console().print(found)


def drain(at: EngineAt, name: str, undo: bool, timeout: str) -> None:
    """Let a member own no slice, and wait until it owns none; raise CommandError."""
    wait_s = parse_wait_ms(timeout, "--timeout") / 1000
    if not undo:
        _refuse_alone(look(at), name)
    try:
        found = tools_of(at.address).drain(at.address, name, not undo)
    except OSError as error:
        raise refused(at.name, error) from None
    if not found:
        raise CommandError(f"{name}: no member has this name", NOTHING)
    if undo:
        print(f"{name} takes slices again")
        return
    began, left = time.monotonic(), 0
    while True:
        facts = look(at)
        mine = [each for each in owned(facts.owners).items() if each[1].name == name]
        if not mine:
            break
        if len(mine) != left:
            left = len(mine)
            print(f"{name} owns {_slices(left)}", flush=True)
        if time.monotonic() - began >= wait_s:
            raise CommandError(f"{name} still owns {_slices(left)} after {timeout}")
        time.sleep(_LOOK_SECONDS)
    print(f"{name} owns no slice; `kestrelpy fleet drain {name} --undo` lets it take some again")


def _refuse_alone(facts: Facts, name: str) -> None:
    """Raise CommandError if no other member can take what this one owns."""
    mine = [each for each in owned(facts.owners).values() if each.name == name]
    if mine and not any(each.name != name for each in living(facts.members)):
        raise CommandError(
            f"{name}: no other member is there to take {_slices(len(mine))}; nothing was changed"
        )


def _slices(count: int) -> str:
    return "1 slice" if count == 1 else f"{count} slices"
