"""Users: what each may do, and how their secrets are stored.

    read     sees items, queues and figures          queues = ["jobs", "mail*"]: only in these
    write    stores, leases and confirms as well
    admin    flushes, declares, deletes, reloads as well

    scrypt$16384$8$1$<salt>$<hash>                   the form of a secret in the configuration

One rule: a request that names no queue concerns all of them, and needs the pattern "*".
"""

from __future__ import annotations

import binascii
import hmac
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable
from enum import IntEnum
from fnmatch import translate
from hashlib import scrypt
from typing import Final, NamedTuple

ALL: Final = b""  # stands for all queues
EVERY: Final = "*"
SECRET_BYTES_MAX: Final = 1024
_SCHEME: Final = "scrypt"
_N, _R, _P = 1 << 14, 8, 1  # 16 MiB and about 50 ms
_N_MAX, _R_MAX, _P_MAX = 1 << 17, 16, 4
_SALT_BYTES: Final = 16
_HASH_BYTES: Final = 32


class Role(IntEnum):
    """What a user may do; each one may do what those before it may."""

    READ = 1
    WRITE = 2
    ADMIN = 3


class Need(NamedTuple):
    """A role that a request needs in a queue; ALL: in all of them."""

    role: Role
    queue: bytes


class Grant:
    """What one user may do."""

    __slots__ = ("_is_for_all", "_matches", "_patterns", "name", "role")

    def __init__(self, name: str, role: Role, patterns: Iterable[str]) -> None:
        """`patterns` name queues; * stands for any characters."""
        patterns = tuple(patterns)
        self.name = name
        self.role = role
        self._patterns = patterns
        self._is_for_all = EVERY in patterns
        self._matches = re.compile("|".join(map(_expression, patterns))).match

    def is_same(self, role: Role, patterns: tuple[str, ...]) -> bool:
        """True if it says this."""
        return self.role == role and self._patterns == patterns

    def may(self, need: Need) -> bool:
        """True if this user may do that."""
        if need.role > self.role:
            return False
        if self._is_for_all:
            return True
        queue = need.queue
        return queue != ALL and self._matches(queue.decode("latin-1")) is not None


def _expression(pattern: str) -> str:
    """Return the pattern as a regular expression: only * is special in it, and is quick to match.
    """
    return translate(pattern.replace("[", "[[]").replace("?", "[?]"))


def with_user(peer: str, user: str | None) -> str:
    """Return a peer for a line of the log, followed by its user in brackets if it has one."""
    return peer if user is None else f"{peer} ({user})"


def hash_secret(secret: bytes) -> str:
    """Return the form of a secret that the configuration holds."""
    salt = os.urandom(_SALT_BYTES)
    made = _scrypt(secret, salt, _N, _R, _P)
    words = (_SCHEME, str(_N), str(_R), str(_P), *(b64encode(b).decode() for b in (salt, made)))
    return "$".join(words)


def is_hash(text: str) -> bool:
    """True if this is the stored form of a secret, within the limits of its cost."""
    return _parsed(text) is not None


def is_secret(secret: bytes, stored: str) -> bool:
    """True if this is the secret; it takes 50 ms, and belongs on a thread."""
    found = _parsed(stored)
    if found is None:
        return False
    n, r, p, salt, made = found
    return hmac.compare_digest(_scrypt(secret, salt, n, r, p), made)


def _scrypt(secret: bytes, salt: bytes, n: int, r: int, p: int) -> bytes:
    most = 128 * r * (n + p + 2)
    return scrypt(secret, salt=salt, n=n, r=r, p=p, maxmem=most + 1024, dklen=_HASH_BYTES)


def _parsed(text: str) -> tuple[int, int, int, bytes, bytes] | None:
    words = text.split("$")
    if len(words) != 6 or words[0] != _SCHEME:
        return None
    try:
        n, r, p = map(int, words[1:4])
        salt, made = (b64decode(word, validate=True) for word in words[4:])
    except (ValueError, binascii.Error):
        return None
    is_cost = 2 <= n <= _N_MAX and not n & (n - 1) and 1 <= r <= _R_MAX and 1 <= p <= _P_MAX
    return (n, r, p, salt, made) if is_cost and salt and len(made) == _HASH_BYTES else None
