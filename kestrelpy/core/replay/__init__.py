"""Rebuilding a queue from its records."""

from kestrelpy.core.replay.replay import Replay

__all__ = ["Replay"]
