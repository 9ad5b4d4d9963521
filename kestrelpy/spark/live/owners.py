"""The members of a fleet that a connection may ask, as the engine names them.

    engine ──▶ the owner of the slice, the other owners, the members that wait
                  the first of these that takes a connection is asked

Any member leads a request to the slice of its queue, so that the owner saves a step and is no
condition. What the engine has said holds for this process until a connection fails; the next one
asks again, and so follows a takeover.

One rule: a member is asked only if the engine has named it since the last failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from journal.engine import Member, NeedsExtra, OneMoment, Owner, name_of
from kestrelpy.placement import Placement
from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.offsets import Address, FleetAddress, parse_address


@dataclass(frozen=True, slots=True)
class FleetMembers:
    """Where members answer: `owners` by slice, and all of them; `placement` has the slices."""

    owners: dict[int, Address]  # that live
    members: tuple[Address, ...]
    placement: Placement


_known: dict[str, FleetMembers] = {}  # by engine, of this process
_stale: set[str] = set()  # a connection has failed since


def members_of(fleet: FleetAddress) -> FleetMembers:
    """Return what the engine has said; ask it if need be. Raises OSError, KestrelError."""
    if fleet.engine not in _known or fleet.engine in _stale:
        _known[fleet.engine] = _look(fleet.engine)
        _stale.discard(fleet.engine)
    return _known[fleet.engine]


def has_answered(fleet: FleetAddress) -> bool:
    """True if the engine has ever answered this process, so that its address is right."""
    return fleet.engine in _known


def places_of(address: Address) -> Iterator[Address]:
    """Yield where a connection to this server or slice may go. Raises OSError, KestrelError."""
    if not isinstance(address, FleetAddress):
        yield address
        return
    found = members_of(address)
    owner = found.owners.get(address.slice)
    yield from dict.fromkeys([*([owner] if owner is not None else []), *found.members])


def forget(address: Address) -> None:
    """Ask the engine before the next connection: this one has failed."""
    if isinstance(address, FleetAddress):
        _stale.add(address.engine)


def _look(engine: str) -> FleetMembers:
    try:
        with OneMoment(engine, "") as moment:
            owners, seats, layout = moment.owners, moment.seats(), moment.layout()
    except NeedsExtra as error:
        raise KestrelError(f"{name_of(engine)}: this {error}, on every node.") from None
    by_slice = {number: each.member for number, each in owners.items() if _serves(each)}
    others = [seat.member for seat in sorted(seats, key=lambda seat: seat.age_s)]
    others += [each.member for each in owners.values() if not each.has_released]
    members = [*by_slice.values(), *others]
    return FleetMembers(
        {number: at for number, each in by_slice.items() for at in _addresses(each)},
        tuple(dict.fromkeys(at for each in members for at in _addresses(each))),
        Placement(layout.slices, layout.groups.split()),
    )


def _serves(owner: Owner) -> bool:
    """True if the owner has committed lately; else it is asked after all others."""
    return not owner.has_released and owner.age_s < owner.takeover_s


def _addresses(member: Member) -> list[Address]:
    """Return a member's address; none if it has said none, or one that is no address."""
    try:
        return [parse_address(member.address)]
    except ValueError:
        return []
