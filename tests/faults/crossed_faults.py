"""Faults that cross two features, or forget a release: what a good engineer could get wrong.

    python -m tests.faults.planted --list crossed

One rule: as `planted_faults` has it; and each needs two features at once to show, or time to pass.
"""

from __future__ import annotations

from tests.faults.crossed_children import CHILDREN_CROSSED
from tests.faults.crossed_restarts import RESTARTS_CROSSED
from tests.faults.crossed_wire import WIRE_CROSSED
from tests.faults.planted_faults import Fault

CROSSED: tuple[Fault, ...] = (*CHILDREN_CROSSED, *RESTARTS_CROSSED, *WIRE_CROSSED)

# Faults that no test can find, each with its reason.
KNOWN_CROSSED: dict[str, str] = {}
