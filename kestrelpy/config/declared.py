"""Settings that a client declares for a queue: TOML as in `[queues."name"]`, to the same models.

    text ──▶ read_declaration ──▶ block ──▶ as_toml: the stored form ──▶ stored_block, at a start

The stored form is canonical: no comments, the keys in our order, every value as we write it. So two
declarations have the same meaning if and only if their bytes are the same.

One rule: a declaration is valid or refused as a whole; a stored one is never refused. Settings that
this version cannot use are ignored and reported.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pydantic

from kestrelpy.config.keying import fields_in_words
from kestrelpy.config.mistakes import ConfigError, as_written
from kestrelpy.config.queue_settings import SETTINGS, QueueBlock, Setting
from kestrelpy.config.reading import parse_toml, why_not, why_unknown
from kestrelpy.config.retaining import Retain
from kestrelpy.config.settings import Config
from kestrelpy.durations import format_duration_ms, format_size_bytes, shown

_ORIGIN: Final = "declaration"
# looking for the nearest known key takes time; at least one problem is reported
_PROBLEMS_MAX: Final = 10
# The parser takes a step for each dot of a header with each of its keys; a setting's key has none.
_DOTS_MAX: Final = 20
# there are many queues, and their declared settings are mostly the same
_BLOCKS_CACHED: Final = 1024

# Those that the operator chooses, and not every client that can reach the server's port: why.
_OPERATORS: Final = {each.key: each.operators for each in SETTINGS.values() if each.operators}


def read_declaration(config: Config, name: bytes, text: bytes) -> QueueBlock:
    """Return the settings that a client declares for this queue; raise ConfigError, a sentence per
    problem."""
    try:
        table = _parsed(text)
        problems = _problems(table)
        if not problems:
            block = QueueBlock.model_validate(table)
            _refuse_contradiction(config, name, block)
            return block
    except ValueError as error:
        problems = [f"{_ORIGIN} {error}."]
    raise ConfigError(problems)


@lru_cache(maxsize=_BLOCKS_CACHED)
def stored_block(text: bytes) -> tuple[QueueBlock, tuple[str, ...]]:
    """Return the stored settings, and a sentence for each that this version cannot use."""
    try:
        table = _parsed(text)
    except ValueError as error:
        return QueueBlock(), (f"{_ORIGIN} {error}.",)
    told: list[str] = []
    for key in list(table):
        problems = _problems({key: table[key]})
        if problems:
            told += problems
            del table[key]
    return QueueBlock.model_validate(table), tuple(told)


def as_toml(block: QueueBlock) -> bytes:
    """Return the settings of this block in the stored form; empty if it sets nothing."""
    lines = []
    for name, setting in SETTINGS.items():
        if name in block.model_fields_set:
            lines.append(line_of(setting, getattr(block, name)) + "\n")
    return "".join(lines).encode()


def line_of(setting: Setting, value: object) -> str:
    """Return the line of a file that gives this value to a setting."""
    return f"{setting.key} = {_as_toml(_in_words(setting, value))}"


def settings_in_force(
    config: Config, name: bytes, declared: QueueBlock
) -> list[tuple[str, str, str]]:
    """Return every setting of a queue, its value in words, and its source."""
    settings, found, is_child = config.queue(name, declared), [], b"+" in name
    for attribute, setting in SETTINGS.items():
        own = config.block(name.partition(b"+")[0] if setting.of_log else name)
        source = "default"
        if own is not None and attribute in own.model_fields_set:
            source = "file"
        elif attribute in declared.model_fields_set and (setting.of_log or not is_child):
            source = "declared"
        elif attribute in config.queue_defaults.model_fields_set:
            source = "queue_defaults"
        value = _in_words(setting, getattr(settings, attribute))
        said = value if isinstance(value, str) else _as_toml(value)
        found.append((setting.key, said, source))
    return found


def _parsed(text: bytes) -> dict[str, Any]:
    lines = (line for line in text.split(b"\n") if not line.lstrip().startswith(b"#"))
    if sum(line.count(b".") for line in lines) > _DOTS_MAX:
        raise ValueError("is not a table of settings: there are too many dots in it")
    return parse_toml(text)


def _problems(table: dict[str, Any]) -> list[str]:
    """Return the problems of keys and values, the first few of them."""
    wrong = ((key, why) for key in table if (why := _why_not_declared(key)))
    problems = [
        f"{_ORIGIN}: {as_written((key,), table[key])} {why}."
        for key, why in islice(wrong, _PROBLEMS_MAX)
    ]
    if problems:
        return problems
    try:
        QueueBlock.model_validate(table)
    except pydantic.ValidationError as error:
        for each in error.errors(include_url=False, include_input=False):
            key = str(each["loc"][0])
            setting = as_written((key,), table[key])
            problems.append(f"{_ORIGIN}: {setting}, but {why_not(each)}.")
    return problems


def _why_not_declared(key: str) -> str:
    if key in _OPERATORS:
        return _OPERATORS[key]
    why = why_unknown("queue_defaults", key)
    for name in _OPERATORS:
        why = why.replace(f", {name}", "")
    return why


def _refuse_contradiction(config: Config, name: bytes, declared: QueueBlock) -> None:
    """Raise ValueError if this declaration and the file together contradict each other."""
    settings, own = config.queue(name, declared), config.block(name)
    declared.refuse_contradictions(settings, "is refused:")
    if own is not None:
        where = f"is refused: {as_written(('queues', name.decode()), {})}"
        own.refuse_contradictions(settings, where)


def _as_toml(value: str | float | tuple[str, ...]) -> str:
    return fields_in_words(value) if isinstance(value, tuple) else shown(value)


def _in_words(setting: Setting, value: object) -> str | float | tuple[str, ...]:
    """Return a setting's value as people write it."""
    if value is None:
        return setting.none
    if isinstance(value, Retain):
        return str(value)
    if isinstance(value, Path):
        return str(value)
    if setting.words is not None:
        return setting.words[bool(value)]
    if isinstance(value, tuple):
        return tuple(map(str, value))
    if isinstance(value, float):
        return int(value) if value == int(value) else value
    assert isinstance(value, str | int)
    if isinstance(value, bool | str):
        return value
    if setting.attribute.endswith("_ms") or setting.attribute == "sync":
        return format_duration_ms(value)
    return format_size_bytes(value) if setting.attribute.endswith("_bytes") else value
