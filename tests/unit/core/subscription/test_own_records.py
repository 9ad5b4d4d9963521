"""The records of one subscription among several: the last that needs an item ends it."""

from __future__ import annotations

import pytest

from journal.format.kinds import Kind
from journal.format.record import Draft
from journal.sets.id_set import IdSet
from kestrelpy.core.item import Item
from kestrelpy.core.log import records
from tests.support.core_harness import make_queue

ITEM = Item(7, 7, b"body", 0, 1000, 0, lsn=5)


class Needed:
    """The items that some subscription needs."""

    def __init__(self, *ids: int) -> None:
        self._ids = ids

    def may_be_needed(self, id_: int) -> bool:
        return id_ in self._ids

    def needed_now(self) -> IdSet:
        return IdSet.of(self._ids)


def test_every_record_carries_the_number_of_its_subscription() -> None:
    reader = make_queue().queue.reader
    released = records.released(7, 9, 1000)
    assert reader.own(released) == released
    reader.number, reader.needs = 2, Needed()
    assert Draft(*reader.own(released)) == Draft(*released)._replace(reader=2)


@pytest.mark.parametrize(("needed", "put_lsn"), [((7,), 0), ((), 5)])
def test_the_subscription_that_needs_an_item_last_ends_it(
    needed: tuple[int, ...], put_lsn: int
) -> None:
    reader = make_queue().queue.reader
    reader.needs = Needed(*needed)
    for draft in (records.done(ITEM, 0, 900, 1000), records.expired(ITEM, 1000)):
        assert Draft(*reader.own(draft)).put_lsn == put_lsn


def test_tokens_are_one_sequence_for_all_and_a_lease_by_token_is_its_own() -> None:
    q = make_queue()
    child = q.broker.mention(b"jobs+audit", q.now_ms)
    assert child is not None
    q.put(b"one")
    child.reader.open(q.who("anna"), q.now_ms, lease_ms=1000)
    tokens, leased = q.records[-2:]
    assert (tokens.kind, tokens.reader) == (Kind.TOKENS, 0)
    assert (leased.kind, leased.reader) == (Kind.LEASED, 1)
