"""A client sees no difference between a server and a router before it.

Every transcript of the server is acted out through a router, cut in each of its ways.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.end_of_life import end
from tests.support.routed_harness import RoutedHarness
from tests.support.transcript import WAYS, Scene, act, read_scenes

FOLDER = Path(__file__).parents[3] / "scenario"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scene", list(read_scenes(FOLDER)), ids=str)
def test_the_conversation_is_as_written(scene: Scene, way: str) -> None:
    stage = act(scene, way, scene.seed, RoutedHarness)
    if way == "whole":
        end(stage)
