"""What has changed between two states of a view: a JSON merge patch (RFC 7396).

    {"a": 1, "b": {"c": 2, "d": 3}} ──▶ {"a": 1, "b": {"c": 4}}   is   {"b": {"c": 4, "d": null}}

One rule: null and absent are the same to a reader, because a patch cannot tell them apart.
"""

from __future__ import annotations

from typing import Any, Final

Members = dict[str, Any]

_NONE: Final = object()


def changes(before: Members, after: Members) -> Members:
    """Return the patch that makes `after` of `before`; empty if nothing has changed."""
    patch: Members = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name, _NONE)
        if isinstance(old, dict) and isinstance(value, dict):
            if inner := changes(old, value):
                patch[name] = inner
        elif old is _NONE or old != value or type(old) is not type(value):
            patch[name] = value
    return patch
