"""An item that is done stands in no list of its subscription any more, whichever it stood in."""

from __future__ import annotations

import pytest

from kestrelpy.core.policy import Policy
from tests.support.core_harness import CoreHarness

SETS = ("out_of_order", "unreadable", "ageless", "restored")
TABLES = ("held_keys", "expiries", "sought_keys")


@pytest.mark.parametrize("name", [*SETS, *TABLES])
def test_what_is_known_of_an_item_goes_when_it_is_done(name: str) -> None:
    q = CoreHarness(Policy())
    for _ in range(2):
        q.put(b"x")
    state = q.queue.reader
    one, other = [item.id for item in state.ready]
    known = getattr(state, name)
    for id_ in (one, other):
        if name in SETS:
            known.add(id_)
        else:
            known[id_] = b"" if name != "expiries" else 1
    state._apply_done(one, 1)
    assert one not in known
    assert other in known
