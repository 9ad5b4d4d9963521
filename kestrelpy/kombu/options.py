"""Options of AMQP that the daemon has under another name, or does not have.

    transport option   visibility_timeout            the lease
    queue argument     x-message-ttl, x-max-length   settings of the queue
    message            priority                      refused

One rule: an option is honoured, refused, or warned of; none is dropped in silence.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, Final

from kombu.exceptions import KombuError

from kestrelpy.client import duration_ms

log = logging.getLogger("kestrelpy.kombu")

LEASE: Final = "lease"
PATIENCE: Final = "patience"
VISIBILITY: Final = "visibility_timeout"
# Those of kombu itself, with any broker.
_OF_KOMBU: Final = (
    "max_retries", "interval_start", "interval_step", "interval_max", "errback", "callback",
    "connect_retries_timeout", "body_encoding", "deadletter_queue", "client_properties",
    "polling_interval", "confirm_publish",
)  # fmt: skip
KNOWN: Final = (LEASE, PATIENCE, VISIBILITY)
_DIGITS: Final = re.compile(r"[0-9]{1,20}").fullmatch


class Unsupported(KombuError):
    """A queue or a message asks for a feature that the daemon does not have."""


def warn_of_unknown(options: Mapping[str, object]) -> None:
    """Warn of transport options that mean nothing here, with the nearest name."""
    for name in options:
        if name not in KNOWN and name not in _OF_KOMBU:
            warn_once(str(name))


@cache  # a worker of Celery has ten transports with the same options
def warn_once(name: str) -> None:
    """Warn of one unknown transport option, once in the life of this process."""
    near = get_close_matches(name, [*KNOWN, *_OF_KOMBU], 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(KNOWN)}"
    log.warning("the transport option %s means nothing here: %s", name, hint)


def lease_ms(options: Mapping[str, Any], default: str) -> int:
    """Return the lease; `visibility_timeout`, in seconds, is another name for it.

    Raises ValueError.
    """
    seconds = options.get(VISIBILITY)
    if seconds is None:
        return duration_ms(options.get(LEASE, default), f"transport option {LEASE}")
    if isinstance(seconds, str) and seconds.isascii() and seconds.isdigit():
        seconds = float(seconds)
    found = duration_ms(seconds, f"transport option {VISIBILITY}")
    lease = options.get(LEASE)
    if lease is not None and duration_ms(lease, f"transport option {LEASE}") != found:
        raise ValueError(
            f"the transport options {LEASE} and {VISIBILITY} contradict each other: say one of them"
        )
    return found


# -- queues ----------------------------------------------------------------------------------------


def _whole(value: Any) -> int:
    """Return a number that the daemon takes as it is. Raises ValueError."""
    number = int(value) if isinstance(value, str) and _DIGITS(value) else value
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ValueError("say a whole number from 1")
    return number


def _milliseconds(value: Any) -> dict[str, str]:
    return {"max_age": f'"{_whole(value)}ms"'}


def _unused(value: Any) -> dict[str, str]:
    return {"max_queue_age": f'"{_whole(value)}ms"'}


def _length(value: Any) -> dict[str, str]:
    # As in AMQP the oldest message makes room, unless x-overflow says something else.
    return {"max_items": str(_whole(value)), "discard_old_when_full": "true"}


def _length_bytes(value: Any) -> dict[str, str]:
    return {"max_bytes": str(_whole(value)), "discard_old_when_full": "true"}


def _overflow(value: Any) -> dict[str, str]:
    if value not in ("drop-head", "reject-publish"):
        raise ValueError("say drop-head or reject-publish")
    return {"discard_old_when_full": "true" if value == "drop-head" else "false"}


_SETTINGS: Final[dict[str, Callable[[Any], dict[str, str]]]] = {
    "x-message-ttl": _milliseconds,
    "x-expires": _unused,
    "x-max-length": _length,
    "x-max-length-bytes": _length_bytes,
    "x-overflow": _overflow,  # after the lengths
}
_PRIORITY: Final = "x-max-priority"
# The arguments that describe every queue here: on disk, and in memory within `max_memory`.
_AS_IT_IS: Final[dict[str, tuple[str, ...]]] = {
    "x-queue-type": ("classic",), "x-queue-mode": ("default", "lazy"),
}  # fmt: skip


def settings_of(
    queue: str, arguments: Mapping[str, Any], is_auto_delete: bool = False
) -> dict[str, str]:
    """Return the settings of the daemon that the arguments of a queue mean, as TOML.

    In AMQP an unused queue is removed with its messages. The daemon removes only empty queues, so
    the messages expire after the same time. Raises Unsupported.
    """
    settings: dict[str, str] = {}
    for name, value in arguments.items():
        if value is None and (name in _SETTINGS or name in _AS_IT_IS or name == _PRIORITY):
            continue  # not said
        if name == _PRIORITY:
            raise Unsupported(
                f"queue {queue!r}: {name}: the daemon has no priorities. Use a queue for each, and "
                "workers for each queue"
            )
        if value in _AS_IT_IS.get(name, ()) or name in _SETTINGS:
            continue
        known = [*_SETTINGS, *_AS_IT_IS]
        if name in _AS_IT_IS:
            hint = f"say {' or '.join(_AS_IT_IS[name])}"
        else:
            near = get_close_matches(str(name), known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise Unsupported(
            f"queue {queue!r}: the argument {name}={value!r} is not understood: {hint}"
        )
    for name, setting in _SETTINGS.items():
        if arguments.get(name) is not None:
            try:
                settings.update(setting(arguments[name]))
            except ValueError as error:
                raise Unsupported(
                    f"queue {queue!r}: the argument {name}={arguments[name]!r} cannot be: {error}"
                ) from None
    if is_auto_delete and "max_queue_age" in settings:
        settings.setdefault("max_age", settings["max_queue_age"])
    return settings


def refuse_priority(message: Mapping[str, Any]) -> None:
    """Raise Unsupported if a message has a priority."""
    priority = (message.get("properties") or {}).get("priority")
    if priority:
        raise Unsupported(
            f"priority={priority}: the daemon has no priorities. Leave it out, or use a queue for "
            "each, and workers for each queue"
        )
