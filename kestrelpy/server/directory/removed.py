"""The result of removing the folders of some deleted queues.

One rule: a queue with an error keeps its files, and a start may find them.
"""

from __future__ import annotations

from kestrelpy.core import Queue


class Removed:
    """`folders` now have the suffix by which a start removes them."""

    __slots__ = ("errors", "folders")

    def __init__(self) -> None:
        self.errors: dict[Queue, OSError] = {}
        self.folders: list[str] = []
