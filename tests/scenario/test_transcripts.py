"""Every transcript runs whole, byte by byte, and cut at random, the same in every run.

TRANSCRIPT_SEED=<n> cuts all of them in other places.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.support.end_of_life import end
from tests.support.transcript import WAYS, Scene, act, read_scenes

FOLDER = Path(__file__).parent
ANOTHER: Final = int(os.environ.get("TRANSCRIPT_SEED") or 0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scene", list(read_scenes(FOLDER)), ids=str)
def test_the_conversation_is_as_written(scene: Scene, way: str) -> None:
    stage = act(scene, way, scene.seed + ANOTHER)
    if way == "whole":
        end(stage)


def test_a_scene_is_cut_at_the_same_bytes_in_every_run() -> None:
    assert Scene("leases", "an open item comes back").seed == 1880575014
    assert Scene("leases", "another one").seed != Scene("keys", "another one").seed
