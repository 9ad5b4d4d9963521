"""A pipe that wakes a thread out of `select`."""

from __future__ import annotations

import os
import select

import pytest

from kestrelpy.kombu.wake_pipe import WakePipe


def is_awake(pipe: WakePipe) -> bool:
    return bool(select.select([pipe], [], [], 0)[0])


def test_wakes_before_the_look_are_one() -> None:
    pipe = WakePipe()
    assert not is_awake(pipe)
    for _ in range(3):
        pipe.wake()
    assert is_awake(pipe)
    pipe.clear()
    assert not is_awake(pipe)
    pipe.clear()  # there is nothing, and nothing waits


def test_a_full_pipe_takes_more_wakes() -> None:
    pipe = WakePipe()
    for _ in range(100_000):
        pipe.wake()
    assert is_awake(pipe)


def test_it_goes_with_its_last_user() -> None:
    pipe = WakePipe()
    wake, end = pipe.wake, pipe.fileno()
    del pipe
    wake()
    assert os.fstat(end)
    del wake
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(end)
