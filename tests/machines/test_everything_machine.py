"""Every setting and every verb meets every other: one server, its settings drawn so that each pair
of them stands in some example, against a model written from the spec.
"""

from __future__ import annotations

import pytest

from tests.machines.everything_orders import OrderingMachine
from tests.machines.everything_rows import ROWS, Met, Row
from tests.support.machines import run, run_for_long

EXAMPLES = 6


def machine(row: Row, met: Met) -> type[OrderingMachine]:
    """Return the machine with the settings of this row."""
    return type("EverythingMachine", (OrderingMachine,), {"row": row, "met": met})


@pytest.mark.slow
def test_every_setting_and_every_verb_keeps_its_promise_beside_every_other() -> None:
    met = Met()
    for row in ROWS:
        print(row)
        run(machine(row, met), EXAMPLES)
    print(met.table())


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_the_same_for_as_long_as_there_is_patience() -> None:
    for row in ROWS:
        print(row)
        run_for_long(machine(row, Met()), 400)
