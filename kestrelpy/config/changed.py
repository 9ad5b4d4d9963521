"""Which settings differ between two configurations, as an operator names them.

    lease = "30m" ──▶ lease = "1h"   in [queues.jobs]   is   [queues.jobs] lease
    a block that is new, or gone                        is   [schedules.nightly]

One rule: it names settings and shows no value: one may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pydantic

from kestrelpy.config.mistakes import as_written
from kestrelpy.config.settings import Config

_NAMED_MAX: Final = 10
_SECTIONS: Final = ("server", "journal", "fleet", "queue_defaults")
_TABLES: Final = ("queues", "schedules", "aliases", "auth")


def changed_settings(before: Config, after: Config) -> list[str]:
    """Return the names of the settings that differ; the eleventh and the rest are counted."""
    names = list(_differences(before, after))
    if len(names) > _NAMED_MAX:
        names = [*names[:_NAMED_MAX], f"and {len(names) - _NAMED_MAX} more"]
    return names


def _differences(before: Config, after: Config) -> Iterator[str]:
    for section in _SECTIONS:
        old, new = getattr(before, section), getattr(after, section)
        yield from _in_block((section,), old, new, counts_set=section == "queue_defaults")
    for table in _TABLES:
        old, new = getattr(before, table), getattr(after, table)
        if old is new:
            continue  # there may be tens of thousands of blocks
        for name in sorted(old.keys() | new.keys()):
            if name in old and name in new:
                yield from _in_block((table, name), old[name], new[name])
            else:
                yield as_written((table, name), {})


def _in_block(
    place: tuple[str, ...], old: pydantic.BaseModel, new: pydantic.BaseModel, *,
    counts_set: bool = True,
) -> Iterator[str]:  # fmt: skip
    """Yield the settings that differ. A setting of a queue that is set to its default differs from
    none: it comes before a declared one. `counts_set` says so."""
    head = as_written(place, {})
    for name, field in type(old).model_fields.items():
        is_other = (name in old.model_fields_set) != (name in new.model_fields_set)
        if getattr(old, name) != getattr(new, name) or (is_other and counts_set):
            yield f"{head} {field.alias or name}"
