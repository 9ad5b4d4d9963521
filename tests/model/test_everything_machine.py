"""Every setting and every verb meets every other: one server, its settings drawn so that each pair
of them stands in some example, against a model written from the spec.

Walks of a seed meet every pair; hypothesis looks for the shortest way to what is wrong. A walk that
failed names its row and its seed, and is taken again by

    walk(machine(ROWS[row], Met())(), seed, STEPS, often, piece=...)

Promise token: random histories against a model with renewals, tokens of any age, kills and power
    cuts; kill of the real process with leases alive; threads that race on real sockets; the whole
    server with crashes and faults; transcripts; a queue made again in between, a full disk.
Promise key: random histories against a model (pair, any, unordered; leases of both kinds, expiry,
    limits, kills, power cuts), the claims alone against a list, little memory against endless; the
    whole server with crashes and faults; twelve racing consumers on real sockets that hang up at
    random; transcripts.
Promise removed: model, little memory against endless, power cuts.
Promise paused: model, transcripts, kill, power cut; the whole server with crashes and faults.
Promise: expiry.
"""

from __future__ import annotations

import pytest
from hypothesis import seed

from tests.model.everything_acts import walk
from tests.model.everything_machine import VERBS
from tests.model.everything_places import ASKED
from tests.model.everything_reloading import ReloadingMachine
from tests.model.everything_rows import FACTORS, IMPOSSIBLE, ROWS, Met, Row, features
from tests.support.machines import run
from tests.support.soak import Soak

WALKS, MORE_WALKS, STEPS = 14, 80, 100
# Things that a walk meets seldom, each with the rules that lead to it.
RULES_OF = {
    "dead": ("end", "open_dead"), "purge": ("end", "purge", "look"), "redrive": ("end", "redrive"),
    "lease over": ("fetch", "pass_time", "end"), "retry": ("end", "retry", "look"),
    "differ older": ("keep_house", "a_copy_says_the_same"), "from": ("mention_from", "reload"),
    "differ none": ("a_copy_says_the_same",), "differ newest": ("a_copy_says_the_same",),
}  # fmt: skip
ROWS_OF = {"runs": ("limit=items", "schedule=all"), "retained": ("retain=forever", "")}
PIECES = (64, 300, 1 << 18)


def machine(row: Row, met: Met) -> type[ReloadingMachine]:
    """Return the machine with the settings of this row."""
    return type("EverythingMachine", (ReloadingMachine,), {"row": row, "met": met})


def choose_row(pair: tuple[str, str], turn: int) -> int:
    """Return one of the rows in which these two can meet."""
    settings = {name for name in pair if "=" in name}
    rows = [number for number, row in enumerate(ROWS) if settings <= features(row)]
    return rows[turn % len(rows)]


@pytest.mark.slow
def test_every_setting_and_every_verb_keeps_its_promise_beside_every_other() -> None:
    met = Met()
    for number, row in enumerate(ROWS):
        for each in range(WALKS):
            piece = PIECES[each % len(PIECES)]
            walk(machine(row, met)(), f"{number} {each}", STEPS, piece=piece)
    missing = met.missing(VERBS)
    print(f"{len(missing)} pairs are looked for: {missing}")
    for each in range(MORE_WALKS):
        if not missing:
            break
        wanted = missing[each % len(missing)]
        number = choose_row(wanted, each)
        often = [rule for verb in wanted for rule in RULES_OF.get(verb, ())]
        piece = PIECES[each % len(PIECES)]
        walk(machine(ROWS[number], met)(), f"{number} {each} more", 2 * STEPS, often, piece=piece)
        missing = met.missing(VERBS)
    for each in range(MORE_WALKS):
        if not (never := met.missing_reloads()):
            break
        number = choose_row(ROWS_OF.get(never[0][0], ("memory=plenty", "")), each)
        often = ["reload", "wait", "reload_full", *["reload_empty"] * (never[0][1] == "keys")]
        piece = PIECES[each % len(PIECES)]
        walk(machine(ROWS[number], met)(), f"{number} {each} reload", 2 * STEPS, often, piece=piece)
    print(met.table())
    assert not missing, f"{len(missing)} pairs were not met: {missing}"
    assert not ASKED - met.words, f"never asked for: {ASKED - met.words}"
    assert not never, f"{len(never)} pairs of a reload were not met: {never}"


def test_each_pair_of_settings_stands_in_some_row() -> None:
    for name, values in FACTORS.items():
        for other, seconds in FACTORS.items():
            pairs = {(row[name], row[other]) for row in ROWS}
            for pair in ((a, b) for a in values for b in seconds if name < other):
                is_impossible = (name, pair[0], other, pair[1]) in IMPOSSIBLE
                is_impossible |= (other, pair[1], name, pair[0]) in IMPOSSIBLE
                assert is_impossible != (pair in pairs), (name, other, pair)


@pytest.mark.slow
def test_the_same_where_hypothesis_chooses() -> None:
    for row in ROWS:
        run(machine(row, Met()), 2)


@pytest.mark.soak
def test_the_same_for_long(soak: Soak) -> None:
    for number in soak.seeds():
        row, piece = ROWS[number % len(ROWS)], PIECES[number % len(PIECES)]
        walk(machine(row, Met())(), f"{number} long", 2 * STEPS, piece=piece)
        run(seed(number)(machine(row, Met())), 2, steps=80)
