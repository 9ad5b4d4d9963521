"""`[schedules.<name>]`: the items to enqueue, their queue, and their times.

One rule: a schedule that passes here has run times, in a known zone; a refusal names the wrong
field.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Final, Literal, Self

import pydantic
from pydantic import PlainValidator

from kestrelpy.cron import Cron, read_zone, why_no_cron

# Of a queue, and of a schedule. A URL with . or .. in place of a name is of another path.
NAME: Final = r"(?!\.{1,2}(\+|\Z))[!-.0-~]{1,128}"
NAME_FORM: Final = "1 to 128 printable ASCII characters, no blank and no /, and not . or .."
NEEDED: Final = ("cron", "queue")  # these have no default


def _text(why_not: Callable[[str], str]) -> PlainValidator:
    """Check a text: `why_not` says what it must be and is not."""

    def check(value: object) -> str:
        if not isinstance(value, str):
            raise ValueError("must be a text")
        if why := why_not(value):
            raise ValueError(why)
        return str(value)

    return PlainValidator(check)


def _why_no_zone(name: str) -> str:
    try:
        read_zone(name)
    except ValueError as error:
        return str(error)
    return ""


def _why_no_queue(name: str) -> str:
    if re.fullmatch(NAME, name) and "+" not in name:
        return ""
    return f"must be a queue's name: {NAME_FORM}, and no + (a fan-out child is not put into)"


class ScheduleBlock(pydantic.BaseModel):
    """One schedule: it puts `body` into `queue` at each time that `cron` names."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    cron: Annotated[str, _text(why_no_cron)] = ""
    queue: Annotated[str, _text(_why_no_queue)] = ""
    body: Annotated[str, _text(lambda _: "")] = ""
    timezone: Annotated[str, _text(_why_no_zone)] = "UTC"
    catch_up: Literal["none", "last", "all"] = "last"

    @pydantic.model_validator(mode="after")
    def _says_when_and_where(self) -> Self:
        given = [key for key in type(self).model_fields if key in self.model_fields_set]
        for key in NEEDED:
            if key not in given:
                raise ValueError(f"must have {key} as well as {' and '.join(given)}")
        return self

    @property
    def body_bytes(self) -> bytes:
        """The body of each item."""
        return self.body.encode()

    @property
    def times(self) -> Cron:
        """The run times."""
        return _cron(self.cron, self.timezone)


@lru_cache(maxsize=1024)
def _cron(line: str, timezone: str) -> Cron:
    return Cron(line, timezone)
