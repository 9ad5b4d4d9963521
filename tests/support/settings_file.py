"""The settings in kestrelpy.toml, made of their lines in `kestrelpy/config/`.

`python -m tests.support.settings_file` writes them; a test says if they are not what the lines say.

    host: Annotated[HostName, AT_START] = "127.0.0.1"
    \"""The address where clients connect.\"""

    # The address where clients connect.
    #host = "127.0.0.1"  # a host name or an address (restart)

One rule: the file has those of each section between two lines that name this module.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from pathlib import Path
from textwrap import wrap
from typing import Final, get_args

from pydantic import PlainValidator
from pydantic.fields import FieldInfo

from kestrelpy.config import Config, JournalConfig, QueueSettings, ServerConfig
from kestrelpy.config.declared import line_of
from kestrelpy.config.kinds import Reader
from kestrelpy.config.queue_settings import QueueBlock, Setting, setting_of
from kestrelpy.config.settings import AT_START, FleetConfig

FILE: Final = Path(__file__).parents[2] / "kestrelpy.toml"
# By section: the class that has the lines, and the model of the section.
SECTIONS: Final = {
    "server": (ServerConfig, ServerConfig), "journal": (JournalConfig, JournalConfig),
    "fleet": (FleetConfig, FleetConfig), "queue_defaults": (QueueSettings, QueueBlock),
}  # fmt: skip
_BEGIN: Final = "# made by python -m tests.support.settings_file\n"
_END: Final = "# the end of what it makes\n"
_WIDTH: Final = 98  # of a text beside its "# "


def file() -> str:
    """Return the file as it has to be."""
    text, *rest = FILE.read_text().split(_BEGIN)
    for section, after in zip(SECTIONS, rest, strict=True):
        text += f"{_BEGIN}{_settings(section)}{_END}{after.partition(_END)[2]}"
    return text


def _settings(section: str) -> str:
    lines, model = SECTIONS[section]
    texts, found = texts_of(lines), list[str]()
    for name, field in model.model_fields.items():
        setting = setting_of(name, field.alias or name, field, field.metadata)
        about = "".join(f"# {line}\n" for line in wrap(texts[name], _WIDTH, break_on_hyphens=False))
        marks = ", ".join(_marks(section, setting, field))
        value = line_of(setting, field.default)
        found.append(f"{about}#{value}  # {_allowed(field)}{f' ({marks})' if marks else ''}\n")
    return "\n" + "\n".join(found) + "\n"


def texts_of(lines: type) -> dict[str, str]:
    """Return the text below each line of a class, by attribute."""
    (found,) = ast.parse(inspect.getsource(lines)).body
    assert isinstance(found, ast.ClassDef)
    texts = dict[str, str]()
    for line, below in zip(found.body, found.body[1:], strict=False):
        if isinstance(line, ast.AnnAssign) and isinstance(below, ast.Expr):
            assert isinstance(line.target, ast.Name)
            texts[line.target.id] = " ".join(str(ast.literal_eval(below.value)).split())
    return texts


def _marks(section: str, setting: Setting, field: FieldInfo) -> Iterable[str]:
    if AT_START in [*field.metadata, *Config.model_fields[section].metadata]:
        yield "restart"
    if setting.of_log:
        yield "parent"
    if setting.operators:
        yield "operator"


def _allowed(field: FieldInfo) -> str:
    """Return the values of a setting in words."""
    for mark in field.metadata:
        if isinstance(mark, PlainValidator) and isinstance(mark.func, Reader):
            return mark.func.brief
    *most, last = (f'"{word}"' for word in get_args(field.annotation))
    return f"{', '.join(most)} or {last}"


if __name__ == "__main__":
    FILE.write_text(file())
