"""`kestrelpy fleet`: the tables of a fleet, and who owns what is in them.

One rule: an error is one sentence with its remedy, and no line has a password.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from journal.engine import name_of, split_slice
from kestrelpy.cli.errors import NOTHING, CommandError
from kestrelpy.config import ConfigError, find_config_file, load_config
from kestrelpy.fleet import NEEDS_EXTRA

if TYPE_CHECKING:
    from types import ModuleType


class EngineAt(NamedTuple):
    """An engine, and what the configuration says of it."""

    address: str
    is_single: bool
    takeover_s: float

    @property
    def name(self) -> str:
        """Its address, to be printed."""
        return name_of(self.address)


def engine_at(address: str | None, config_file: Path | None, is_single: bool) -> EngineAt:
    """Return the engine of a command line, else that of the configuration; raise CommandError."""
    try:
        path = find_config_file(config_file, Path.cwd()) if config_file or not address else None
        config = load_config(path, environ=os.environ, overrides={})
    except ConfigError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"the working directory cannot be used: {error.strerror}") from None
    fleet = config.fleet
    found = address or fleet.engine
    if found is None:
        where = f"{path}: [fleet] has no engine" if path else "no engine is named"
        raise CommandError(f"{where}: say its ADDRESS, like postgresql://user@host/database")
    try:
        found = split_slice(found)[0]
    except ValueError as error:
        raise CommandError(str(error)) from None
    return EngineAt(found, is_single or fleet.single, fleet.takeover_ms / 1000)


def postgres() -> ModuleType:
    """Return the engine's package; raise CommandError."""
    try:
        from journal.engine import postgres as found  # noqa: PLC0415  # of the extra `fleet`
    except ImportError:
        raise CommandError(f"an engine {NEEDS_EXTRA}") from None
    return found


def print_schema() -> None:
    """Print the statements that make the tables; raise CommandError."""
    sys.stdout.write(postgres().schema())


def init(at: EngineAt, role: str) -> None:
    """Make the tables and say what is missing; raise CommandError."""
    try:
        made = postgres().make_tables(at.address, at.is_single, role)
    except OSError as error:
        raise refused(at.name, error) from None
    print(f"{at.name}: {'made the tables' if made.is_new else 'the tables are there'}")
    if role:
        print(f"{at.name}: the role {role} may use them")
    for each in made.doubtful:
        print(f"warning: {each}")
    if made.unsafe:
        raise CommandError("\n".join(made.unsafe), NOTHING)
    print("the server's settings lose nothing that it has acknowledged")


def refused(name: str, error: OSError) -> CommandError:
    """Return what an engine refused, for the person at the terminal."""
    return CommandError(f"{name}: {error.strerror or error}")
