"""Configuration as a daemon reads it, without the environment of the test run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, get_args

import pytest
from pydantic import BaseModel

from kestrelpy.config.mistakes import ConfigError
from kestrelpy.config.queue_settings import QueueBlock
from kestrelpy.config.reading import load_config
from kestrelpy.config.settings import Config, FleetConfig, JournalConfig, ServerConfig

MODELS: Final[dict[str, type[BaseModel]]] = {
    "server": ServerConfig,
    "journal": JournalConfig,
    "fleet": FleetConfig,
    "queue_defaults": QueueBlock,
}
KEYS: Final = {
    (section, field.alias or name)
    for section, model in MODELS.items()
    for name, field in model.model_fields.items()
}


def reader_of(kind: object) -> object:
    """Return what reads the values of a kind; two kinds are the same if this is."""
    reader: object = get_args(kind)[1]
    return reader


def load(path: Path | None, environ: Mapping[str, str] | None = None, **flags: object) -> Config:
    """Return the configuration; flags are of [server], as those of `serve` are."""
    overrides = {("server", key): value for key, value in flags.items()}
    return load_config(path, environ=environ or {}, overrides=overrides)


def load_text(file: Path, text: str) -> Config:
    """Return the configuration of a file with this text."""
    file.write_text(text, encoding="utf-8")
    return load(file)


def problems(path: Path | None, environ: Mapping[str, str] | None = None, **flags: object) -> str:
    """Return the problems that are reported instead."""
    with pytest.raises(ConfigError) as refusal:
        load(path, environ, **flags)
    return str(refusal.value)


def problems_of(file: Path, text: str) -> str:
    """Return the problems of a file with this text."""
    file.write_text(text, encoding="utf-8")
    return problems(file)
