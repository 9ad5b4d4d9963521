"""journal/engine/commits_nothing.py: what is read as of one moment is not written to."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from journal.engine.commits_nothing import CommitsNothing
from journal.engine.engine import Claim, Layout, Member, Takeover

ME = Member("a", "h:1")
CLAIM = Claim(1, 1, 1)
WRITES: list[Callable[[CommitsNothing], object]] = [
    lambda it: it.claim(1, ME, 0),
    lambda it: it.claim(1, ME, 0, seq=4),
    lambda it: it.commit(CLAIM, []),
    lambda it: it.release(CLAIM),
    lambda it: it.note(ME, 2.0),
    lambda it: it.note_takeover(Takeover(1, 1, ME, "", "first", 0.0, 0.0)),
    lambda it: it.agree(Layout(4)),
]


@pytest.mark.parametrize("write", WRITES)
def test_whatever_would_write_is_refused_with_the_name_of_the_engine(
    write: Callable[[CommitsNothing], object],
) -> None:
    with pytest.raises(OSError, match=r"one moment.*the engine") as refused:
        write(CommitsNothing("the engine"))

    assert refused.value.errno == errno.EROFS
