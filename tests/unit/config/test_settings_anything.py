"""Any file, environment and flags give a configuration or a ConfigError."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kestrelpy.config.mistakes import ConfigError
from kestrelpy.config.reading import load_config
from kestrelpy.config.settings import Config
from tests.unit.config import files

KEYS = sorted(files.KEYS)

JUNK = st.recursive(
    st.one_of(
        st.integers(),
        st.booleans(),
        st.floats(),
        st.dates(),
        st.text("aZ09 ./-+:'\"\\#=[]{},\u00fc\U0001f642"),
        st.sampled_from(["none", "always", "never", "5s", "64KiB", "9" * 20, 0, -1, 10**30]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=5,
)
SECTIONS = st.sampled_from(["server", "journal", "queue_defaults", "queues.jobs", 'queues."a b"'])


def toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case list():
            return f"[{', '.join(map(toml, value))}]"
        case dict():
            return f"{{{', '.join(f'{toml(key)} = {toml(each)}' for key, each in value.items())}}}"
        case _:
            return str(value)


def loads_or_tells(
    path: Path | None,
    environ: Mapping[str, str],
    overrides: Mapping[tuple[str, str], object],
) -> None:
    try:
        assert isinstance(load_config(path, environ=environ, overrides=overrides), Config)
    except ConfigError as refusal:
        assert refusal.problems
        assert all(len(told) < 1000 and told.endswith(".") for told in refusal.problems)
        assert len(str(refusal).split("\n")) == len(refusal.problems)
        assert "pydantic" not in str(refusal)


@settings(max_examples=300)
@given(st.dictionaries(st.tuples(SECTIONS, st.sampled_from(KEYS)), JUNK, max_size=4))
def test_known_keys_with_any_values_raise_nothing_but_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, junk: dict[tuple[str, tuple[str, str]], object]
) -> None:
    tables: dict[str, dict[str, Any]] = {}
    for (section, (_, key)), value in junk.items():
        tables.setdefault(section, {})[key] = value
    lines = [
        f"[{section}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in table.items())
        for section, table in tables.items()
    ]
    path = tmp_path_factory.getbasetemp() / "junk.toml"
    path.write_text("".join(lines), encoding="utf-8")
    tomllib.loads(path.read_text(encoding="utf-8"))  # it is TOML: the test is about later checks

    loads_or_tells(path, {}, {})


@given(st.binary() | st.text().map(lambda text: text.encode(errors="surrogatepass")))
def test_any_bytes_as_a_file_raise_nothing_but_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.toml"
    path.write_bytes(data)

    loads_or_tells(path, {}, {})


NAMES = st.sampled_from([f"{section}_{key}".upper() for section, key in KEYS]) | st.text()


@given(st.dictionaries(NAMES, st.text(), max_size=3))
def test_any_environment_raises_nothing_but_a_config_error(environ: dict[str, str]) -> None:
    loads_or_tells(None, {f"KESTRELPY_{name}": text for name, text in environ.items()}, {})


PLACES = st.sampled_from(KEYS) | st.tuples(st.text(), st.text())


@given(st.dictionaries(PLACES, JUNK | st.text() | st.builds(object) | st.none(), max_size=3))
def test_any_flags_raise_nothing_but_a_config_error(flags: dict[tuple[str, str], object]) -> None:
    loads_or_tells(None, {}, flags)
