"""`kestrelpy fleet where`: the slice of a queue.

One rule: it asks no server, because the name and the configuration decide.
"""

from __future__ import annotations

import json
from pathlib import Path

from kestrelpy.cli.errors import CommandError
from kestrelpy.cli.journals.place import configured
from kestrelpy.cli.screen import console, table
from kestrelpy.errors import ClientError
from kestrelpy.operations import check_name
from kestrelpy.placement import Placement


def show(queues: list[str], config_file: Path | None, slices: int | None, as_json: bool) -> None:
    """Print the slice and the group of each queue; raise CommandError."""
    fleet = configured(config_file).fleet
    placement = Placement(slices or fleet.slices, fleet.groups)
    rows = [(name, *_place(placement, name)) for name in queues]
    if as_json:
        keys = ("queue", "slice", "group")
        print(json.dumps([dict(zip(keys, row, strict=True)) for row in rows]))
        return
    found = table("queue", "slice", "group", left=("queue", "group"))
    for name, number, group in rows:
        found.add_row(name, f"{number} of {placement.slices}", group)
    console().print(found)


def _place(placement: Placement, name: str) -> tuple[int, str]:
    raw = name.encode("utf-8", "surrogateescape")
    try:
        check_name(raw)
    except ClientError as error:
        raise CommandError(f"{name}: {error}") from None
    return placement.slice_of(raw), placement.group_of(raw).decode("ascii")
