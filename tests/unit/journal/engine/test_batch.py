"""A commit says what is true at its end, of each file once."""

from __future__ import annotations

from journal.engine import Create, DeleteFile, Rename, Write
from journal.engine.batch import Batch, batch_of


def test_writes_that_touch_are_one_and_others_stay_in_sequence() -> None:
    batch = batch_of(
        [Write(1, 0, b"ab"), Write(2, 0, b"x"), Write(1, 2, b"cd"), Write(1, 0, b"A")]
    )

    assert batch.written == {1: [(0, b"abcd"), (0, b"A")], 2: [(0, b"x")]}


def test_a_file_that_is_made_and_renamed_is_made_by_its_last_name() -> None:
    batch = batch_of([Create(1, "a.new", 9), Write(1, 0, b"a"), Rename(1, "a")])

    assert batch == Batch(created={1: ("a", 9)}, written={1: [(0, b"a")]})


def test_a_file_that_is_made_and_deleted_was_never_there() -> None:
    assert batch_of([Create(1, "a", 9), Write(1, 0, b"a"), DeleteFile(1)]) == Batch()


def test_of_a_file_that_is_deleted_nothing_else_is_said() -> None:
    batch = batch_of([Write(1, 0, b"a"), Rename(1, "b"), DeleteFile(1), Rename(2, "c")])

    assert batch == Batch(renamed={2: "c"}, deleted=[1])
