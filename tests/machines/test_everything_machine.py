"""Every setting and every verb meets every other: one server, its settings drawn so that each pair
of them stands in some example, against a model written from the spec.

Walks of a seed meet every pair; hypothesis looks for the shortest way to what is wrong. A walk that
failed names its row and its seed, and is taken again by

    walk(machine(ROWS[row], Met())(), seed, STEPS, piece=...)
"""

from __future__ import annotations

import pytest

from tests.machines.everything_acts import walk
from tests.machines.everything_machine import VERBS
from tests.machines.everything_orders import OrderingMachine
from tests.machines.everything_rows import FACTORS, IMPOSSIBLE, ROWS, Met, Row
from tests.support.machines import run, run_for_long

WALKS, STEPS = 24, 100
PIECES = (64, 300, 1 << 18)


def machine(row: Row, met: Met) -> type[OrderingMachine]:
    """Return the machine with the settings of this row."""
    return type("EverythingMachine", (OrderingMachine,), {"row": row, "met": met})


@pytest.mark.slow
def test_every_setting_and_every_verb_keeps_its_promise_beside_every_other() -> None:
    met = Met()
    for number, row in enumerate(ROWS):
        for each in range(WALKS):
            seed, piece = f"{number} {each}", PIECES[each % len(PIECES)]
            walk(machine(row, met)(), seed, STEPS, piece=piece)
    print(met.table())
    missing = met.missing(VERBS)
    assert not missing, f"{len(missing)} pairs were not met: {missing}"


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
@pytest.mark.timeout(0)
def test_the_same_for_as_long_as_there_is_patience() -> None:
    for number, row in enumerate(ROWS):
        for each in range(400):
            seed, piece = f"{number} {each} long", PIECES[each % len(PIECES)]
            walk(machine(row, Met())(), seed, 2 * STEPS, piece=piece)
        run_for_long(machine(row, Met()), 100)
