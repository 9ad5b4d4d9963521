"""The items that are there, asked for many at once."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace

import numpy as np

from journal.recovery.live_set import ReaderItems
from journal.sets.id_counts import IdCounts
from journal.sets.id_set import IdSet
from kestrelpy.spark.files.plan_events import plan_events
from kestrelpy.spark.files.queue_state import NO_LIVE_ITEMS, READY, FilesState, LiveItems
from tests.support.journals import FOLDER, disk_with


def test_live_items_are_found_again_from_their_bytes() -> None:
    rng = random.Random(5)
    live, counts = IdSet(), IdCounts()
    for item in range(1, 40_000):
        live.add(item)
    for item in rng.sample(range(1, 40_000), 30_000):
        live.discard(item)
    for item in range(8192, 12_288):
        live.discard(item)
    for item in rng.sample(list(live), 500):
        counts.set(item, rng.choice((1, 2, 254, 255, 1000)))
    state = FilesState(ReaderItems(items=live, attempts=counts))
    (split,) = plan_events([FOLDER], disk_with([b"x"])).splits
    (packed,) = state.live_items([replace(split, item_first=5000, item_last=30_000, records=1)])
    live_items = LiveItems(pickle.loads(pickle.dumps(packed)))
    items = np.arange(1, 45_000, dtype=np.int64)
    there = [i for i in live if 5000 <= i <= 30_000]
    assert items[live_items.has(items)].tolist() == there
    assert packed.count == len(there)
    found = live_items.attempts(np.array(there, np.int64)).tolist()
    assert found == [counts.get(i) for i in there]


def test_no_live_items_are_ready_and_none_is_there() -> None:
    items = np.array([1, 2], np.int64)
    assert NO_LIVE_ITEMS.has(items).tolist() == [False, False]
    assert NO_LIVE_ITEMS.states(items).tolist() == [READY, READY]
