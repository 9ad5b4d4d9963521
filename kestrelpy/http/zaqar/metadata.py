"""The metadata of a queue: what a client set, the reserved keys among it, and what they mean.

    {"team": "mail", "_max_claim_count": 3} ──▶ stored as JSON, shown with the reserved defaults
                                            └─▶ max_attempts = 3: settings, as `declare` has them

One rule: metadata are valid or refused as a whole; a reserved key that is null or removed has its
default again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from re import compile as pattern
from types import MappingProxyType
from typing import Any, Final

import msgspec

from kestrelpy.durations import shown
from kestrelpy.http.answers import HttpError
from kestrelpy.http.routing import meant
from kestrelpy.http.zaqar.ask import POST_BYTES_MAX, decoded
from kestrelpy.http.zaqar.projects import NAME

TTL_MIN: Final = 60
TTL_MAX: Final = 1_209_600
DELAY_MAX: Final = 900
METADATA_BYTES_MAX: Final = 64 << 10
OPERATIONS_MAX: Final = 1000
_CLAIMS_MAX: Final = 1 << 31
_PARSED_KEPT: Final = 1024
_KEPT_BYTES_MAX: Final = 2048  # of each
_TTL, _DELAY, _POST = "_default_message_ttl", "_default_message_delay", "_max_messages_post_size"
_CLAIMS, _DEAD, _DEAD_TTL = (
    "_max_claim_count", "_dead_letter_queue", "_dead_letter_queue_messages_ttl",
)  # fmt: skip
_ENCRYPT: Final = "_enable_encrypt_messages"
DEFAULTS: Final = MappingProxyType({
    _TTL: 3600, _DELAY: 0, _POST: POST_BYTES_MAX, _CLAIMS: None, _DEAD: None, _DEAD_TTL: None,
    _ENCRYPT: False,
})  # fmt: skip
_WHOLE: Final = {
    _TTL: (TTL_MIN, TTL_MAX), _DELAY: (0, DELAY_MAX), _POST: (1, POST_BYTES_MAX),
    _CLAIMS: (1, _CLAIMS_MAX), _DEAD_TTL: (TTL_MIN, TTL_MAX),
}  # fmt: skip
_OURS: Final = frozenset({"_settings", "_key"})
_RESERVED: Final = (*DEFAULTS, *sorted(_OURS), "_flavor")
_TO_QUEUES: Final = frozenset({"dead_letter_to", "expire_to"})
_BARE: Final = pattern(r"[A-Za-z0-9_]{1,64}")
_KEY_PARTS: Final = MappingProxyType({
    "fields": "key", "unordered": "key_unordered", "match": "key_match", "missing": "key_missing",
    "format": "key_format",
})  # fmt: skip
_POINTER: Final = "/metadata/"
_BAD_TILDE: Final = pattern(r"~(?![01])")

Metadata = dict[str, Any]


class Operation(msgspec.Struct, forbid_unknown_fields=True):
    """One operation of a PATCH."""

    op: str
    path: str
    value: Any = msgspec.UNSET


def parsed(stored: bytes) -> Metadata:
    """Return stored metadata; the result is shared and must not be changed."""
    return _parsed(stored) if len(stored) <= _KEPT_BYTES_MAX else _decode(stored)


def _decode(stored: bytes) -> Metadata:
    found: Metadata = msgspec.json.decode(stored) if stored else {}
    return found


_parsed: Final = lru_cache(maxsize=_PARSED_KEPT)(_decode)


def in_force(meta: Metadata) -> Metadata:
    """Return what a client is shown: its metadata, and the reserved keys with their values."""
    return {**DEFAULTS, **meta}


def stored_form(meta: Metadata) -> bytes:
    """Return valid metadata as they are stored; raise HttpError."""
    data = msgspec.json.encode(meta) if meta else b""
    if len(data) > METADATA_BYTES_MAX:
        raise HttpError(400, f"the metadata have {len(data)} bytes (limit {METADATA_BYTES_MAX})")
    return data


def checked(meta: Metadata, before: Metadata | None = None) -> Metadata:
    """Return metadata without reserved keys that are null; raise HttpError for a bad value, and for
    a reserved key that is unknown and that the metadata `before` do not have."""
    for key, value in meta.items():
        if not key:
            raise HttpError(400, "a key of the metadata is empty")
        if key.startswith("_") and key not in _RESERVED and key not in (before or ()):
            raise HttpError(
                400, f"{shown(key)} is no reserved key: those that begin with _ are "
                f"{', '.join(_RESERVED)}{meant(key, _RESERVED)}"
            )  # fmt: skip
        if value is None and (key in DEFAULTS or key in _OURS):
            continue
        if key in _WHOLE:
            least, most = _WHOLE[key]
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise HttpError(
                    400, f"{key} is {shown(value)}: a whole number from {least} to {most} is "
                    "allowed"
                )  # fmt: skip
        elif key == _DEAD and not (isinstance(value, str) and NAME.fullmatch(value)):
            raise HttpError(400, f"{key} is {shown(value)}: the name of a queue is allowed")
        elif key == _ENCRYPT and value is not False:
            raise HttpError(400, f"{key}: this server does not encrypt messages")
        elif key == "_flavor":
            raise HttpError(400, "_flavor: this server has no flavors")
        elif key in _OURS and not isinstance(value, dict):
            raise HttpError(400, f"{key} is {shown(value)}: an object is allowed")
    return {
        key: value for key, value in meta.items()
        if not (value is None and (key in DEFAULTS or key in _OURS))
    }  # fmt: skip


# -- settings ---------------------------------------------------------------------------------


def settings_of(meta: Metadata, full_name: Callable[[str], bytes]) -> bytes:
    """Return the settings that follow from valid metadata, as a declaration; raise HttpError.

    `full_name` returns that of a queue of the project.
    """
    lines: dict[str, str] = {}

    def add(key: str, value: Any) -> None:
        if key in lines:
            raise HttpError(400, f"{key} is set twice: by _settings and by another key")
        lines[key] = f"{key} = {_as_toml(key, value)}\n"

    for key, value in (meta.get("_settings") or {}).items():
        if not _BARE.fullmatch(key):
            raise HttpError(400, f"_settings: {shown(key)} is no setting")
        if key in _TO_QUEUES and value != "none":
            value = _queue(f"_settings: {key}", value, full_name)
        add(key, value)
    for key, value in _key_settings(meta.get("_key")).items():
        add(key, value)
    if meta.get(_CLAIMS) is not None:
        add("max_attempts", meta[_CLAIMS])
    if meta.get(_DEAD) is not None:
        add("dead_letter_to", _queue(_DEAD, meta[_DEAD], full_name))
    if meta.get(_DEAD_TTL) is not None:
        add("dead_letter_age", f"{meta[_DEAD_TTL]}s")
    return "".join(lines.values()).encode()


def _key_settings(value: Any) -> Metadata:
    if not value:
        return {}
    for part in value:
        if part not in _KEY_PARTS:
            raise HttpError(400, f"_key: {shown(part)} is unknown: {', '.join(_KEY_PARTS)}")
    parts = {"format": "json", **value} if "fields" in value else value
    return {_KEY_PARTS[part]: each for part, each in parts.items()}


def _queue(key: str, value: Any, full_name: Callable[[str], bytes]) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise HttpError(400, f"{key} is {shown(value)}: the name of a queue is allowed")
    return full_name(value).decode("ascii")


def _as_toml(key: str, value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_as_toml(key, each) for each in value)}]"
    if isinstance(value, str | bool | int | float):
        return json.dumps(value, ensure_ascii=False)
    raise HttpError(400, f"{key} is {shown(value)}: text, a number, true or false is allowed")


# -- changes ----------------------------------------------------------------------------------


def patched(meta: Metadata, body: bytes) -> Metadata:
    """Return the metadata after the operations of a PATCH; raise HttpError."""
    operations: list[Operation] = decoded(body, list[Operation])
    if len(operations) > OPERATIONS_MAX:
        raise HttpError(400, f"{len(operations)} operations (limit {OPERATIONS_MAX})")
    after = dict(meta)
    for each in operations:
        _apply(after, each)
    return checked(after, meta)


def _apply(meta: Metadata, operation: Operation) -> None:
    op, key = operation.op, _key_of(operation.path)
    if op not in ("add", "replace", "remove"):
        raise HttpError(400, f"op is {shown(op)}: add, replace or remove is allowed")
    is_reserved = key in DEFAULTS or key in _OURS
    if op != "add" and key not in meta and not is_reserved:
        raise HttpError(409, f"{op}: the metadata have no key {shown(key)}")
    if op == "remove":
        meta.pop(key, None)
    elif operation.value is msgspec.UNSET:
        raise HttpError(400, f"{op} {shown(operation.path)} has no value")
    else:
        meta[key] = operation.value


def _key_of(path: str) -> str:
    key = path.removeprefix(_POINTER)
    if key == path or not key or "/" in key or _BAD_TILDE.search(key):
        raise HttpError(400, f"path is {shown(path)}: /metadata/<key> is allowed")
    return key.replace("~1", "/").replace("~0", "~")
