"""How wide a fleet of the examples is: its slices, its members, and queues in different slices.

One rule: the defaults are those of the smallest fleet, one slice and two members.
"""

from __future__ import annotations

import argparse
from itertools import count

from kestrelpy.examples.fleet.trial import MEMBERS, MEMBERS_MAX
from kestrelpy.examples.lines import QUEUE
from kestrelpy.placement import SLICES_MAX, Placement


def add_width(parser: argparse.ArgumentParser) -> None:
    """Add the options for the slices and the members."""
    parser.add_argument(
        "--slices", type=int, default=1, choices=range(1, SLICES_MAX + 1), metavar="N",
        help="of the data; default: 1",
    )  # fmt: skip
    parser.add_argument(
        "--members", type=int, default=MEMBERS, choices=range(2, MEMBERS_MAX + 1), metavar="N",
        help=f"that own or wait for them; default: {MEMBERS}",
    )  # fmt: skip


def queues_of(slices: int, most: int) -> list[str]:
    """Return the names of up to `most` queues, each in a slice of its own."""
    if slices == 1:
        return [QUEUE]
    placement, found = Placement(slices), dict[int, str]()
    for number in count(1):
        name = f"{QUEUE}-{number}"
        found.setdefault(placement.slice_of(name.encode()), name)
        if len(found) == min(slices, most):
            break
    return list(found.values())
