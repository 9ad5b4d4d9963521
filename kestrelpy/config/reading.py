"""kestrelpy.toml, the environment and flags, to one frozen `Config`.

One rule: all problems are reported at once, one sentence each (place, key, value, the allowed
values, the nearest known key), and `load_config` raises nothing else.

    flags  >  KESTRELPY_<SECTION>_<KEY>  >  file  >  defaults
"""

import difflib
import re
import tomllib
from codecs import BOM_UTF8
from collections.abc import Mapping
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any, Final

import pydantic
from pydantic_core import ErrorDetails

from kestrelpy.config.archives import why_no_archive
from kestrelpy.config.chains import find_cycle, why_not_in_slices
from kestrelpy.config.kinds import Words
from kestrelpy.config.mistakes import ConfigError, as_written
from kestrelpy.config.plain_file import read_plain
from kestrelpy.config.queue_settings import TARGETS, parent_of, why_no_child
from kestrelpy.config.schedules import NAME, NAME_FORM, NEEDED
from kestrelpy.config.settings import KNOWN, Config, Place

FILE_NAME: Final = "kestrelpy.toml"
SYSTEM_FILE: Final = Path("/etc/kestrelpy/kestrelpy.toml")
# Sections of blocks with names.
_NAMED: Final = {
    "queues": "queue", "schedules": "schedule", "aliases": "alias", "auth": "user",
}  # fmt: skip
_NEEDED: Final = {"schedule": " and ".join(NEEDED), "alias": "to", "user": "secret"}


def find_config_file(explicit: Path | None, cwd: Path, system: Path = SYSTEM_FILE) -> Path | None:
    """Return the named file, else the one in `cwd`, else the system's, else None.

    A file that exists but cannot be reached is returned as well, so that loading reports the
    reason.
    """
    if explicit is not None:
        return cwd / explicit
    for path in (cwd / FILE_NAME, system):
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            pass
        return path
    return None


def load_config(
    path: Path | None, *, environ: Mapping[str, str], overrides: Mapping[tuple[str, str], object]
) -> Config:
    """Return the configuration in force; raise only ConfigError.

    `overrides` are flags by (section, key); None means that a flag was not given. A relative path
    starts at the file's folder if it is from the file or a default, else at the working directory.
    """
    sources = _Sources()
    if path is not None:
        for section, table in _read_toml(path).items():
            sources.add(str(path), (section,), table)
    sources.add_environment(environ)
    for (section, key), value in overrides.items():
        if value is not None:
            words = Words(value) if isinstance(value, str) else value
            sources.add(f"flag --{key.replace('_', '-')}", (section, key), words)

    def absolute(place: Place, given: Path) -> Path:
        elsewhere = sources.origins.get(place, str(path)) != str(path)
        folder = Path() if path is None or elsewhere else path.parent
        return (folder / given).absolute()

    config = sources.checked().with_paths(absolute)
    sources.refuse_archives(config)
    sources.refuse_cycles(config)
    sources.refuse_other_slices(config)
    return config


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return parse_toml(read_plain(path))
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
    except ValueError as error:
        why = str(error)
    raise ConfigError([f"{path}: {why}."])


def parse_toml(data: bytes) -> dict[str, Any]:
    """Return the tables; raise ValueError, `is not ...`, with line and column."""
    text = ""
    try:
        text = data.removeprefix(BOM_UTF8).decode()
        return tomllib.loads(text)
    except UnicodeDecodeError as error:
        why = f"is not UTF-8 {_end_of(error.object[: error.start].decode())}"
    except (ValueError, RecursionError) as error:
        why = f"is not TOML: {error}".replace("(at end of document)", _end_of(text))
    raise ValueError(why)


def _end_of(text: str) -> str:
    """Return where a text ends, in tomllib's words."""
    return f"(at line {text.count(chr(10)) + 1}, column {len(text) - text.rfind(chr(10))})"


class _Sources:
    """Values by place, (section, key) or ("queues", name, key), each with its source."""

    def __init__(self) -> None:
        self.tables: dict[str, Any] = {}
        self.origins: dict[Place, str] = {}
        self.problems: list[str] = []

    def add(self, origin: str, place: Place, value: object) -> None:
        """Add one value, or a table of them, over the earlier ones."""
        *above, key = place
        whose = _NAMED.get(above[0]) if len(above) == 1 else None
        if whose is None and (why := _why_unknown_at(above, key)):
            self.problems.append(f"{origin}: {as_written(place, value)} {why}.")
        elif whose is not None and not re.fullmatch(NAME, key):
            whose = "an alias" if whose == "alias" else f"a {whose}"
            why = f"{whose}'s name must be {NAME_FORM}"
            self.problems.append(f"{origin}: {as_written(place, value)}, but {why}.")
        elif whose in ("queue", "alias") and (why := _why_bad_name(whose, key)):
            self.problems.append(f"{origin}: {as_written(place, value)}, but {why}.")
        elif len(place) == (3 if place[0] in _NAMED else 2):
            self.origins[place] = origin
            table = self.tables
            for step in above:
                table = table.setdefault(step, {})
            table[key] = value
        elif isinstance(value, dict):
            if whose in _NEEDED and not value:
                why = f"must have {_NEEDED[whose]}"
                self.problems.append(f"{origin}: {as_written(place, value)} {why}.")
            elif whose == "queue":  # an empty block names a child as well
                self.tables.setdefault("queues", {}).setdefault(key, {})
            for inner, each in value.items():
                self.add(origin, (*place, inner), each)
        else:
            self.problems.append(f"{origin}: {as_written(place, value)}, but must be a table.")

    def add_environment(self, environ: Mapping[str, str]) -> None:
        """Add KESTRELPY_<SECTION>_<KEY>; no other name is ours, nor is KESTRELPY_SERVER."""
        for name, text in sorted(environ.items()):
            for section in KNOWN[""]:
                if name.startswith(prefix := f"KESTRELPY_{section.upper()}_"):
                    place = (section, name.removeprefix(prefix).lower())
                    self.add(f"environment variable {name}", place, Words(text))

    def checked(self) -> Config:
        """Return the configuration if it has no mistake; raise ConfigError."""
        try:
            config = Config.model_validate(self.tables)
        except pydantic.ValidationError as error:
            for each in error.errors(include_url=False, include_input=False):
                self.problems.append(self._sentence(tuple(map(str, each["loc"])), why_not(each)))
        if self.problems:
            raise ConfigError(self.problems)
        return config

    def refuse_archives(self, config: Config) -> None:
        """Raise ConfigError for each `archive_to` that no segment can be linked to."""
        for place, folder in config.archives().items():
            if why := why_no_archive(folder, config.server.data_dir):
                self.problems.append(self._sentence(place, why))
        if self.problems:
            raise ConfigError(self.problems)

    def refuse_cycles(self, config: Config) -> None:
        """Raise ConfigError if queues move their items in a cycle."""
        names = [name.encode() for name in config.queues]
        defaults = (getattr(config.queue_defaults, key) for key in TARGETS)
        names += [name.encode() for name in defaults if name is not None]
        cycle = find_cycle(config, names, lambda _: None)
        if cycle is None:
            return
        place: Place = ("queues", cycle.names[0], cycle.key)
        why = cycle.why
        if place not in self.origins:
            place = ("queue_defaults", cycle.key)
            name = as_written(("queues", cycle.names[0]), {})
            why += f" (the defaults apply to this queue as well, unless {name} says " \
                f'{cycle.key} = "none")'
        raise ConfigError([self._sentence(place, why)])

    def refuse_other_slices(self, config: Config) -> None:
        """Raise ConfigError if an alias stands for queues of several slices."""
        if found := why_not_in_slices(config):
            raise ConfigError([self._sentence(*found)])

    def _sentence(self, place: Place, why: str) -> str:
        """Return the mistake in a value, or among several: then their keys are words of `why`."""
        if place in self.origins:
            setting = as_written(place, reduce(getitem, place, self.tables))
            return f"{self.origins[place]}: {setting}, but {why}."
        named = [at for at in self.origins if at[: len(place)] == place and at[-1] in why.split()]
        named = named or [at for at in self.origins if as_written(at[:-1], {}) in why]
        origins = " and ".join(dict.fromkeys(self.origins[at] for at in named))
        return f"{origins}: {as_written(place, {}) + ' ' if place else ''}{why}."


def why_not(error: ErrorDetails) -> str:
    """Return why a value, or several together, are refused."""
    return error["msg"].removeprefix("Value error, ").replace("Input should", "must")


def _why_bad_name(whose: str, name: str) -> str:
    if whose == "alias":
        return "an alias's name has no +: it is no queue and has no children" if "+" in name else ""
    return why_no_child(name)


def _why_unknown_at(above: list[str], key: str) -> str:
    """Return why this section has no such key; empty if it has."""
    if len(above) == 2 and above[0] == "queues" and (parent := parent_of(above[1])):
        if key in KNOWN["children"] or key not in KNOWN["queues"]:
            return why_unknown("children", key)
        own = as_written(("queues", parent), {})
        return f"belongs in {own}, whose items this child reads; " \
            f"allowed are {', '.join(KNOWN['children'])}"
    return why_unknown(above[0] if above else "", key)


def why_unknown(section: str, key: str) -> str:
    """Return why a section has no such key, with the keys it has; empty if it has."""
    known = KNOWN.get(section, [])
    if key in known:
        return ""
    allowed = f"allowed are {', '.join(known)}"
    homes = [f"it belongs in [{name}]; " for name in KNOWN[""] if key in KNOWN[name]]
    near = difflib.get_close_matches(key[:60], known, 1)
    hints = homes[:1] or [f"the nearest is {each}; " for each in near]
    return f"is not a known key; {''.join(hints)}{allowed}"
