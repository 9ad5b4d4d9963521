"""Faults that cross two features, or forget a release: what a good engineer could get wrong.

    python -m tests.faults.planted --list crossed

One rule: as `planted_faults` has it; and each needs two features at once to show, or time to pass.
"""

from __future__ import annotations

from tests.faults.crossed_children import CHILDREN_CROSSED
from tests.faults.crossed_restarts import RESTARTS_CROSSED
from tests.faults.crossed_syncs import SYNCS_CROSSED
from tests.faults.crossed_wire import WIRE_CROSSED
from tests.faults.planted_faults import Fault

CROSSED: tuple[Fault, ...] = (
    *CHILDREN_CROSSED, *RESTARTS_CROSSED, *WIRE_CROSSED, *SYNCS_CROSSED
)  # fmt: skip

# Faults that no test finds, each with the reason why none can.
KNOWN_CROSSED: dict[str, str] = {
    "a child's block decides how keys match, not the queue's":
        "the configuration gives a child the key settings of its queue before",
    "retained: lazy children do not catch up before a segment is removed":
        "a segment goes when no child needs it, and is rewritten behind a snapshot, for which "
        "every child took in what came before",
    "a release for all makes a child's dead letter ready after a restart":
        "an item that is released for all was never available, so it is not dead",
}
