"""The mode of a server, which forbids some work and ends the waits for it.

    up          everything
    readonly    stores, removes and moves nothing
    quiescent   and hands out nothing

A request asks at its beginning, and again before each slice of long work. A wait for an item, or
for a transfer, ends when the mode comes into force.

One rule: once a mode is in force, no work that it forbids is begun.
"""

from __future__ import annotations

from typing import Final

from kestrelpy.core import Broker
from kestrelpy.errors import ServerError

UP: Final = "up"
READONLY: Final = "readonly"
QUIESCENT: Final = "quiescent"
MODES: Final = (UP, READONLY, QUIESCENT)


def check_changes(mode: str, does: str) -> None:
    """Raise ServerError unless the server is up; `does` says what it does not do now."""
    if mode != UP:
        raise ServerError(f"{mode}: this server {does} nothing now")


def check_hands_out(mode: str) -> None:
    """Raise ServerError unless the server hands out items now."""
    if mode == QUIESCENT:
        raise ServerError(f"{mode}: this server hands out nothing now")


def put_mode_in_force(broker: Broker, mode: str) -> None:
    """End the waits for items and transfers that the server does not serve in this mode."""
    try:
        check_changes(mode, "moves")
    except ServerError as refused:
        broker.moves.refuse(refused)
    try:
        check_hands_out(mode)
    except ServerError as refused:
        broker.refuse_waits(str(refused))
