"""`[aliases.<name>]`: a name for several queues; each one gets every item set there.

One rule: an alias is never a queue and holds nothing; it is refused in place of a queue.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, Self

import pydantic
from pydantic import PlainValidator

from kestrelpy.config.mistakes import as_written
from kestrelpy.config.queue_settings import parent_of, why_no_child
from kestrelpy.config.schedules import NAME

TARGETS_MAX: Final = 64
_FORM: Final = (
    f'must be a list of 1 to {TARGETS_MAX} different queues or children, say '
    '["mail", "orders+audit"]'
)


def _read_targets(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= TARGETS_MAX:
        raise ValueError(_FORM)
    for name in value:
        if not isinstance(name, str) or not re.fullmatch(NAME, name) or why_no_child(name):
            raise ValueError(_FORM)
    if len(set(value)) < len(value):
        raise ValueError(_FORM)
    return tuple(value)


class AliasBlock(pydantic.BaseModel):
    """One alias: a set goes to each of these in turn."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    to: Annotated[tuple[str, ...], PlainValidator(_read_targets)] = ()

    @pydantic.model_validator(mode="after")
    def _says_where(self) -> Self:
        if not self.to:
            raise ValueError("must have to")
        return self


def why_wrong(
    aliases: Mapping[str, AliasBlock], queues: Mapping[str, str], targets: Mapping[str, str]
) -> str:
    """Return which alias is used in place of a queue; empty if none is.

    `queues` and `targets` are names, of blocks and of the targets of items, by how they are
    written.
    """
    for name, alias in aliases.items():
        where = as_written(("aliases", name), {})
        for target in alias.to:
            if target == name:
                return f"{where} to names itself: an alias stands for queues"
            if (owner := parent_of(target) or target) in aliases:
                other = as_written(("aliases", owner), {})
                return f"{where} to names {target}, but {other} is no queue: name its queues"
    for written, name in queues.items():
        if (owner := parent_of(name) or name) in aliases:
            return f"{written} is a queue and {as_written(('aliases', owner), {})} an alias: " \
                "one name cannot be both"
    for written, name in targets.items():
        if (parent_of(name) or name) in aliases:
            return f"{written} must name a queue, and it is an alias"
    return ""
