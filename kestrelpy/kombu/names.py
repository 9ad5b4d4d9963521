"""Names of queues and exchanges on the wire, and what a message asks of the daemon.

    queue `a/b c`              a%2Fb%20c
    exchange `news`            exchange:news           a queue with fan-out children only
    queue `q` bound to it      exchange:news+q         a child

One rule: two names never become one, so the escape character is itself escaped.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from kestrelpy.kombu.options import Unsupported
from kestrelpy.wire.names import NAME_BYTES_MAX

_EXCHANGE: Final = "exchange:"
_ESCAPED: Final = frozenset(b"/+%")
_EXPIRATION_DIGITS_MAX: Final = 15  # 30,000 years
_RELATIVE_SECONDS_MAX: Final = 30 * 86_400  # memcached takes larger numbers for dates


class NameRefused(ValueError):
    """A name that the daemon cannot have."""


def queue_name(queue: str) -> str:
    """Return the name of a kombu queue on the wire. Raises NameRefused."""
    return _checked(_quoted(queue), "queue", queue)


def exchange_name(exchange: str) -> str:
    """Return the queue of a topic or fanout exchange. Raises NameRefused."""
    return _checked(_EXCHANGE + _quoted(exchange), "exchange", exchange)


def child_name(exchange: str, queue: str) -> str:
    """Return the fan-out child that a queue bound to an exchange reads. Raises NameRefused."""
    name = f"{exchange_name(exchange)}+{_quoted(queue)}"
    return _checked(name, f"queue bound to exchange {exchange!r}:", queue)


def due_seconds(message: Mapping[str, Any], now: float) -> float | None:
    """Return the Unix time before which a task is not to run: Celery's `eta`; None: now.

    An `eta` without a time zone means nothing to another machine: the worker keeps that one.
    """
    eta = (message.get("headers") or {}).get("eta")
    if not isinstance(eta, str):
        return None
    try:
        due = datetime.fromisoformat(eta)
    except ValueError:
        return None
    if due.tzinfo is None:
        return None
    seconds = due.timestamp()
    return seconds if seconds > now else None


def expiry_seconds(message: Mapping[str, Any], now: float) -> int:
    """Return memcached's expiry of AMQP's `expiration`, milliseconds as a text; 0: never.

    A task of Celery has its expiry in its headers. The daemon does not expire such a task: only a
    worker can tell the process that waits for its result that the task is revoked.
    """
    if (message.get("headers") or {}).get("expires"):
        return 0
    text = str((message.get("properties") or {}).get("expiration") or "")
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > _EXPIRATION_DIGITS_MAX:
        raise Unsupported(
            f"expiration={text!r}: the properties of a message say it in milliseconds, a whole "
            "number from 0; kombu and Celery take it in seconds"
        )
    seconds = max(-(-int(text) // 1000), 1)
    return seconds if seconds <= _RELATIVE_SECONDS_MAX else int(now) + seconds


def _quoted(name: str) -> str:
    plain = (
        chr(byte) if 0x21 <= byte <= 0x7E and byte not in _ESCAPED else f"%{byte:02X}"
        for byte in name.encode("utf-8", "surrogateescape")
    )  # fmt: skip
    return "".join(plain)


def _checked(name: str, kind: str, given: str) -> str:
    if not given:
        raise NameRefused(f"the name of a {kind.rstrip(':')} is missing")
    if len(name) > NAME_BYTES_MAX:
        raise NameRefused(
            f"{kind} {given!r} has a name of {len(name)} bytes with what is escaped in it: at most "
            f"{NAME_BYTES_MAX} are allowed"
        )
    return name
