"""The router, as HTTP sees it.

One rule: Protocols only, no code, so that each part can be read and tested without the whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from journal.engine import Member
from kestrelpy.fleet import FleetFacts
from kestrelpy.operations import Listening
from kestrelpy.placement import Placement
from kestrelpy.protocol import SlicedQueues


class SlicesPort(Protocol):
    """The slices, which are reached by their numbers, and the router itself."""

    placement: Placement
    sliced_queues: SlicedQueues

    def is_sliced(self, name: bytes) -> bool:
        """True if a queue is in all slices."""

    @property
    def is_in_fleet(self) -> bool:
        """True if other members serve some of the slices."""

    def why_away(self, number: int) -> str | None:
        """Return why a slice does not serve now; None: it serves."""

    def is_here(self, number: int) -> bool:
        """True if a slice serves on this machine."""

    def member_of(self, number: int) -> str | None:
        """Return the name of the member that owns a slice; None: nobody, or there is no fleet."""

    async def fleet(self) -> FleetFacts:
        """Return the slices, the members and the last takeovers."""

    @property
    def fleet_now(self) -> FleetFacts:
        """The slices and the members, as far as is known."""

    @property
    def needs_login(self) -> bool:
        """True if there are users: then a client has to say which it is."""

    async def connect_http(
        self, number: int, make: Callable[[], asyncio.BaseProtocol], is_patient: bool = True
    ) -> Member | None:
        """Connect to a slice by HTTP, once it serves; return the member of a fleet that has it.
        Raise SliceAway: soon, unless `is_patient`, if it does not serve now."""

    def call_at_move(self, moved: Callable[[int, Member], None]) -> None:
        """Call this with a slice of a fleet and its new owner, whenever it has another one."""

    @property
    def default_project(self) -> str | None:
        """The project of the messaging API whose queues have no prefix."""

    def queue_of_schedule(self, name: str) -> bytes | None:
        """Return the queue of a schedule; None: there is no such schedule."""

    @property
    def listening(self) -> Listening | None:
        """Where the memcache port listens; None: it listens on a Unix socket alone."""

    @property
    def http_port(self) -> int | None:
        """The port of HTTP."""

    @property
    def memcache_connections(self) -> int:
        """The number of connections of the memcache port."""

    @property
    def connections_total(self) -> int:
        """The number of connections that came, of both wires."""

    @property
    def http_connections(self) -> int:
        """The number of connections of this wire."""

    async def why_not_reloaded(self) -> str:
        """Return why the router would refuse the configuration now; "": it would take it."""

    def reload_beside(self) -> None:
        """Read the configuration again, as each slice does now."""

    def shutdown(self, why: str) -> None:
        """End the process and its slices; raise ClientError if clients may not do that."""
