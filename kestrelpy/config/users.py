"""`[auth.<user>]`: who may log in, with which secret, and what each may do in which queues.

One rule: the file holds no secret, only its scrypt form, which `kestrelpy hash-secret` prints.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, Self

import pydantic
from pydantic import PlainValidator

from kestrelpy.access import EVERY, is_hash

PATTERNS_MAX: Final = 64
_SECRET_FORM: Final = "must be what `kestrelpy hash-secret` prints, scrypt$..."
_QUEUES_FORM: Final = (
    f'must be a list of 1 to {PATTERNS_MAX} names of queues or patterns, say ["jobs", "mail*"]'
)


def _read_secret(value: object) -> str:
    if not isinstance(value, str) or not is_hash(value):
        raise ValueError(_SECRET_FORM)
    return value


def _read_queues(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= PATTERNS_MAX:
        raise ValueError(_QUEUES_FORM)
    for pattern in value:
        if not isinstance(pattern, str) or not re.fullmatch("[!-.0-~]{1,128}", pattern):
            raise ValueError(_QUEUES_FORM)
    return tuple(value)


class UserBlock(pydantic.BaseModel):
    """One user."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    secret: Annotated[str, PlainValidator(_read_secret)] = ""
    role: Literal["read", "write", "admin"] = "read"
    queues: Annotated[tuple[str, ...], PlainValidator(_read_queues)] = (EVERY,)

    @pydantic.model_validator(mode="after")
    def _has_a_secret(self) -> Self:
        if not self.secret:
            raise ValueError("must have secret")
        return self
