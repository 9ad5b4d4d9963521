"""Which package has the engine of an address.

    postgresql://...   journal/engine/postgres, of the extra `fleet`
    s3://...           journal/engine/object_store/opening.py, of the extra `object-store`

Both have the same names: `open_engine`, `open_moment`, `make`, `schema`, `look`, `ask_release`,
`drain`.

One rule: a package is imported where it is asked for, since its extra may be missing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from journal.engine.address import is_object_store

if TYPE_CHECKING:
    from types import ModuleType


class NeedsExtra(Exception):
    """An extra is missing; the text says which, and how to install it."""


def engine_tools(address: str) -> ModuleType:
    """Return the package of an engine; raise NeedsExtra."""
    name, extra = ("object_store.opening", "object-store") if is_object_store(address) else (
        "postgres", "fleet",
    )  # fmt: skip
    try:
        return import_module(f"journal.engine.{name}")
    except ImportError:
        raise NeedsExtra(f"needs the extra {extra}: pip install 'kestrelpy[{extra}]'") from None
