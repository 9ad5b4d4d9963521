"""`kestrelpy fleet`: the tables of a fleet, and the owner of their data.

One rule: an error is one sentence with its remedy, and no line has a password.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from journal.engine import (
    FORM,
    S3_FORM,
    Facts,
    Made,
    Member,
    Owner,
    Replica,
    Seat,
    is_object_store,
    name_of,
    split_slice,
    without_secret,
)
from kestrelpy.cli.errors import NOTHING, CommandError
from kestrelpy.cli.journals.place import configured, tools_of
from kestrelpy.cli.remote import parse_wait_ms
from kestrelpy.cli.screen import duration, repeated, size
from kestrelpy.config import Config
from kestrelpy.fleet import GONE_AFTER, NoPatroni, patroni_version, why_bad_patroni

_LOOK_SECONDS: Final = 0.1
_CLAIM_SECONDS: Final = 5.0  # a standby has this long to claim a released slice


class EngineAt(NamedTuple):
    """An engine, and what the configuration says of it."""

    address: str
    is_single: bool
    takeover_s: float
    patroni: str | None = None
    slice: int = 0  # the one that the address names; 0: it names none
    groups: str = ""  # with blanks between them

    @property
    def name(self) -> str:
        """Its address, for people."""
        return name_of(self.address)


def engine_at(
    address: str | None, config_file: Path | None, is_single: bool, may_be_slice: bool = False
) -> EngineAt:
    """Return the engine of a command line, else that of the configuration; raise CommandError.

    With `may_be_slice` the address may name a slice.
    """
    config = configured(config_file) if config_file or not address else Config()
    fleet = config.fleet
    found = address or fleet.engine
    if found is None:
        raise CommandError(f"no engine is named: say its ADDRESS, like {FORM} or {S3_FORM}")
    try:
        found, number = split_slice(found)
    except ValueError as error:
        raise CommandError(str(error)) from None
    if number and not may_be_slice:
        raise CommandError(f"{name_of(found)}: name the engine, and not one slice of it")
    takeover_s = fleet.takeover_ms / 1000
    groups = " ".join(fleet.groups)
    return EngineAt(found, is_single or fleet.single, takeover_s, fleet.patroni, number, groups)


def print_schema(address: str) -> None:
    """Print the statements that make the tables, or the policy of an object store; raise
    CommandError."""
    sys.stdout.write(tools_of(address).schema(address))


def init(at: EngineAt, role: str) -> None:
    """Make the tables and say what is missing; raise CommandError."""
    try:
        made: Made = tools_of(at.address).make(at.address, at.is_single, role)
    except OSError as error:
        raise refused(at.name, error) from None
    what = "store" if is_object_store(at.address) else "tables"
    print(f"{at.name}: {f'made the {what}' if made.is_new else f'the {what} are there'}")
    if role:
        print(f"{at.name}: the role {role} may use them")
    doubtful, unsafe = list(made.doubtful), list(made.unsafe)
    if at.patroni is not None:
        try:
            unsafe += filter(None, [why_bad_patroni(patroni_version(at.patroni), at.patroni)])
        except NoPatroni as error:
            doubtful.append(str(error))
    for each in doubtful:
        print(f"warning: {each}")
    if unsafe:
        raise CommandError("\n".join(unsafe), NOTHING)
    if is_object_store(at.address):
        print("the store writes a new object only once")
    else:
        print("the server's settings lose nothing that it has acknowledged")


def status(at: EngineAt, as_json: bool, watch: str | None) -> None:
    """Print the owner of each slice, the members that wait, and the state of the server; raise
    CommandError."""
    free: list[int] = []

    def draw() -> None:
        nonlocal free
        facts = look(at)
        free = [each for each in numbers_of(facts) if state_of(facts, at, each) != "owned"]
        print(json.dumps(_in_json(facts, at)) if as_json else "\n".join(_lines(facts, at)))

    repeated(watch, draw)
    if free:
        raise CommandError(f"slice {', '.join(map(str, free))}: nobody owns it now", NOTHING)


def release(at: EngineAt, timeout: str) -> None:
    """Ask the owner to give its slice up, and wait until it has; raise CommandError."""
    wait_s = parse_wait_ms(timeout, "--timeout") / 1000
    facts = look(at)
    number = _only(facts, at)
    owner = facts.owners.get(number)
    if owner is None or owner.has_released:
        why = _sentence(facts, at, number)
        raise CommandError(f"slice {number}: nobody owns it: {why}", NOTHING)
    if owner.is_importing:
        raise CommandError(f"slice {number}: {_sentence(facts, at, number)}", NOTHING)
    try:
        tools_of(at.address).ask_release(at.address, number, owner.epoch)
    except OSError as error:
        raise refused(at.name, error) from None
    who, began = owner.member.name, time.monotonic()
    while True:
        now = look(at).owners[number]
        if now.has_released or now.epoch != owner.epoch:
            break
        if time.monotonic() - began >= wait_s:
            raise CommandError(
                f"{who} has not released slice {number} within {timeout}; if it is dead, a standby "
                "takes over without it"
            )
        time.sleep(_LOOK_SECONDS)
    print(f"{who} has released slice {number}")
    began, others = time.monotonic(), _others(facts, owner.member)
    while others and now.epoch == owner.epoch and time.monotonic() - began < _CLAIM_SECONDS:
        time.sleep(_LOOK_SECONDS)
        now = look(at).owners[number]
    if now.epoch != owner.epoch:
        print(f"{named(now.member)} owns it")
    else:
        print(f"nobody waits for it: {who} takes it again in a while, if it runs")


def _only(facts: Facts, at: EngineAt) -> int:
    """Return the slice that the address names, or the only one; raise CommandError."""
    numbers = numbers_of(facts)
    if not at.slice and len(numbers) > 1:
        raise CommandError(f"the data is in {len(numbers)} slices: name one, {at.name}/1")
    if at.slice and at.slice not in numbers:
        raise CommandError(f"slice {at.slice}: there is none: the data has {len(numbers)}", NOTHING)
    return at.slice or numbers[0]


def numbers_of(facts: Facts) -> list[int]:
    """Return the slices of the data."""
    return list(range(1, max(facts.slices, 1) + 1))


def look(at: EngineAt) -> Facts:
    """Return what is known of the fleet now; raise CommandError."""
    try:
        facts: Facts = tools_of(at.address).look(at.address)
    except OSError as error:
        raise refused(at.name, error) from None
    return facts


def state_of(facts: Facts, at: EngineAt, number: int) -> str:
    """Return one word for a slice: new, importing, released, silent or owned."""
    owner = facts.owners.get(number)
    if owner is None:
        return "new"
    if owner.is_importing:
        return "importing"
    if owner.has_released:
        return "released"
    return "silent" if owner.age_s > (owner.takeover_s or at.takeover_s) else "owned"


def _sentence(facts: Facts, at: EngineAt, number: int) -> str:
    owner = facts.owners.get(number)
    if owner is None:
        return "nobody has claimed it yet"
    who, ago = named(owner.member), f"{seconds(owner.age_s)} ago"
    return {
        "owned": f"owned by {who}, epoch {owner.epoch}, last commit {ago}",
        "silent": f"owned by {who}, epoch {owner.epoch}, which says nothing: last commit {ago}",
        "released": f"released by {who}, last commit {ago}",
        "importing": f"a data directory is being moved in by {who}, last commit {ago}",
    }[state_of(facts, at, number)]


def _others(facts: Facts, member: Member) -> list[Seat]:
    """Return the members that are there, without this one."""
    return [
        each for each in facts.members
        if each.member != member and each.age_s < GONE_AFTER * each.takeover_s
    ]  # fmt: skip


def _waiting(facts: Facts) -> list[Seat]:
    """Return the members that wait for slices: of a fleet with one those that do not own it."""
    owners = {each.member for each in facts.owners.values() if not each.has_released}
    return [
        each for each in facts.members
        if (each.member not in owners or each.waits) and each.age_s < GONE_AFTER * each.takeover_s
    ]  # fmt: skip


def numbers(slices: Iterable[int]) -> str:
    """Return numbers for people: 1-4 7."""
    words: list[str] = []
    first = last = 0
    for each in [*slices, 0]:
        if first and each != last + 1:
            words.append(f"{first}-{last}" if last > first else f"{first}")
            first = 0
        first, last = first or each, each
    return " ".join(words)


def _lines(facts: Facts, at: EngineAt) -> list[str]:
    waiting = _waiting(facts)
    lines = [f"slice {each}: {_sentence(facts, at, each)}" for each in numbers_of(facts)]
    lines += [
        f"waits: {named(each.member)}, seen {seconds(each.age_s)} ago"
        + (f", for {numbers(each.waits)}" if each.waits else "")
        for each in waiting
    ]
    if not waiting:
        lines.append("waits: nobody")
    total = size(sum(facts.bytes.values()))
    if facts.replicas is None:
        return [*lines, f"store: {at.name}, version {facts.tables}, {total}"]
    lines.append(f"server: PostgreSQL {facts.server} at {at.name}")
    if at.patroni is not None:
        lines.append(f"patroni: {_patroni(at.patroni)}")
    lines += [f"standby: {each.name}, {_lag(each)}" for each in facts.replicas]
    if not facts.replicas:
        lines.append("standby: none")
    lines.append(f"tables: version {facts.tables}, {total}")
    return lines


def _patroni(url: str) -> str:
    try:
        version = patroni_version(url)
    except NoPatroni as error:
        return str(error)
    return why_bad_patroni(version, url) or f"{version} at {without_secret(url)}"


def _lag(replica: Replica) -> str:
    if not replica.state:
        return "whose state this role may not see (GRANT pg_read_all_stats)"
    behind = "" if replica.lag_bytes is None else f", {size(max(replica.lag_bytes, 0))} behind"
    return replica.state + behind


def _in_json(facts: Facts, at: EngineAt) -> dict[str, object]:
    return {
        "engine": at.name, "server_version": facts.server or None, "tables_version": facts.tables,
        "slices": [
            {"slice": each, "state": state_of(facts, at, each),
             **_owner_in_json(facts.owners.get(each))}
            for each in numbers_of(facts)
        ],
        "waiting": [
            {"member": each.member.name, "address": each.member.address,
             "takeover_ms": _ms(each.takeover_s), "age_ms": _ms(each.age_s),
             "slices": list(each.waits)}
            for each in _waiting(facts)
        ],
        "standbys": [
            {"name": each.name, "state": each.state or None, "lag_bytes": each.lag_bytes,
             "lag_ms": None if each.lag_s is None else _ms(each.lag_s)}
            for each in facts.replicas or ()
        ],
        "table_bytes": facts.bytes,
    }  # fmt: skip


def _owner_in_json(owner: Owner | None) -> dict[str, object]:
    if owner is None:
        return {}
    return {
        "owner": owner.member.name, "address": owner.member.address, "epoch": owner.epoch,
        "seq": owner.seq, "age_ms": _ms(owner.age_s),
    }  # fmt: skip


def named(member: Member) -> str:
    """Return a member with its address, if that is known."""
    return f"{member.name} at {member.address}" if member.address else member.name


def seconds(count: float) -> str:
    """Return a time for people: 200ms, 1m30s."""
    return duration(max(_ms(count), 0))


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def refused(name: str, error: OSError) -> CommandError:
    """Return what an engine refused, for the person at the terminal."""
    return CommandError(f"{name}: {error.strerror or error}")
