"""The settings of kestrelpy.toml are made of their lines in the source; a reload goes by the same
lines."""

import re
from pathlib import Path

import pytest

from kestrelpy.config import Config, changed_settings
from tests.support.settings_file import FILE, SECTIONS, file, texts_of
from tests.unit.config.files import load


def lines_of(section: str) -> dict[str, str]:
    """Return the lines of a section by their keys."""
    text = FILE.read_text().split(f"\n[{section}]\n")[1].split("# the end of what it makes")[0]
    return {line[1:].partition(" = ")[0]: line for line in re.findall(r"^#\w+ = .*", text, re.M)}


def test_the_file_that_ships_says_what_the_lines_of_the_settings_say() -> None:
    assert FILE.read_text() == file(), "run python -m tests.support.settings_file"


@pytest.mark.parametrize("section", SECTIONS)
def test_each_setting_has_a_text_of_whole_sentences(section: str) -> None:
    lines, model = SECTIONS[section]
    texts = texts_of(lines)
    assert list(texts) == list(model.model_fields)
    assert [text for text in texts.values() if not re.fullmatch(r"[\"A-Za-z].*\.", text)] == []


@pytest.mark.parametrize(
    ("section", "key", "line"),
    [
        ("server", "port", '#port = 22133  # a whole number from 0 to 65535, or "off" (restart)'),
        ("server", "max_memory", '#max_memory = "256MiB"  # a size'),
        ("server", "log_format", '#log_format = "text"  # "text" or "json"'),
        ("journal", "batch_max", '#batch_max = "4MiB"  # a size from 4KiB to 1GiB (restart)'),
        ("fleet", "takeover", '#takeover = "3s"  # a duration from 200ms to 1h (restart)'),
        ("queue_defaults", "key_match", '#key_match = "pair"  # "pair" or "any" (parent)'),
        ("queue_defaults", "archive_to",
         '#archive_to = "none"  # a path, or "none" (parent, operator)'),
    ],
)  # fmt: skip
def test_a_line_has_default_values_and_marks(section: str, key: str, line: str) -> None:
    assert lines_of(section)[key] == line


# By section: another value of each setting that the file marks with (restart).
OTHERS = {
    "server": {
        "host": "::1", "port": 1, "socket": "s", "text_port": 2, "http_host": "::2",
        "http_port": 3, "http_allowed_hosts": ["a.example"], "default_project": "p",
        "data_dir": "elsewhere", "tls_cert": "c", "tls_key": "k", "tls_client_ca": "a",
    },
    "journal": {"segment_min": "128KiB", "segment_max": "32MiB", "batch_max": "1MiB"},
    "fleet": {
        "engine": "postgresql://kestrel@nowhere/kestrel", "name": "n", "address": "a",
        "takeover": "5s", "single": True, "patroni": "http://db1:8008", "groups": ["a*"],
        "slices": 1, "slice": 1, "secret_file": "s",
    },
}  # fmt: skip


# What a path of this section needs beside it.
NEEDED = {"fleet": ['engine = "postgresql://kestrel@nowhere/kestrel"']}


@pytest.mark.parametrize("section", OTHERS)
def test_a_reload_leaves_each_setting_that_says_restart(section: str) -> None:
    restart = {key for key, line in lines_of(section).items() if "(restart)" in line}
    began = load(None)

    read = Config.model_validate({section: OTHERS[section]})

    assert restart <= set(OTHERS[section])
    assert getattr(read.begun_as(began), section) == getattr(began, section)
    assert len(changed_settings(began, read)) >= min(len(restart), 10)


def test_every_path_of_the_file_is_relative_to_it(tmp_path: Path) -> None:
    paths = {
        section: [key for key, line in lines_of(section).items() if "  # a path" in line]
        for section in SECTIONS
    }
    sections = (
        "\n".join([f"[{name}]", *NEEDED.get(name, []), *(f'{key} = "{key}.x"' for key in keys)])
        for name, keys in paths.items()
    )
    (tmp_path / "kestrelpy.toml").write_text("\n".join(sections) + "\n")

    config = load(tmp_path / "kestrelpy.toml")

    found = {
        key: getattr(getattr(config, section), key) for section in paths for key in paths[section]
    }
    assert len(found) >= 6
    assert found == {key: tmp_path / f"{key}.x" for key in found}
