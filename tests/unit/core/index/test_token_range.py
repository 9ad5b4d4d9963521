"""The tokens of one queue: each subscription gets a range of its own."""

from __future__ import annotations

from kestrelpy.core.index.token_range import TokenRange


def test_ranges_follow_each_other_without_a_gap_and_without_a_token_twice() -> None:
    tokens = TokenRange()

    assert tokens.below == 1, "no token was issued"
    assert [tokens.take(count) for count in (3, 1, 2)] == [1, 4, 5]
    assert tokens.below == 7
