"""Every transcript runs whole, byte by byte, and cut at random."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from tests.support.transcript import WAYS, Scene, act, read_scenes

FOLDER = Path(__file__).parents[1] / "transcripts"
SEED = int(os.environ.get("TRANSCRIPT_SEED") or Random().randrange(1 << 32))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scene", list(read_scenes(FOLDER)), ids=str)
def test_the_conversation_is_as_written(scene: Scene, way: str) -> None:
    print(f"TRANSCRIPT_SEED={SEED}")
    act(scene, way, SEED)
