"""What the statements of the engine do to the tables, read from their own text.

    UPDATE slice ... WHERE epoch = ... AND seq = ...    the fence, if the text has one
      └─ INSERT, UPDATE, DELETE ... FROM own            fenced, if the text names `own`

One rule: a word that is missing from a statement is missing here as well. A statement that is not
known fails the run: teach it here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from journal.engine.postgres.settings import SCHEMA_VERSION

Rows = list[tuple[Any, ...]]
Change = Callable[["Tables"], None]
_PART = re.compile(r"(\w+) AS \(")
_OWN = re.compile(r"\bown\b")
_SETTING = re.compile(r"current_setting\('(\w+)'\)")


@dataclass
class SliceRow:
    """A row of the table of slices."""

    epoch: int = 0
    seq: int = 0
    member: str = ""
    address: str = ""
    beat_us: int = 0
    released: bool = False


@dataclass
class FileRow:
    """A row of the table of files."""

    path: str
    size: int


@dataclass
class Tables:
    """The tables of one server. The slice is always the same one."""

    slices: dict[int, SliceRow] = field(default_factory=dict)
    files: dict[int, FileRow] = field(default_factory=dict)
    # By file: the commit, the number in it, the place and the bytes.
    extents: dict[int, list[tuple[int, int, int, bytes]]] = field(default_factory=dict)

    def copy(self) -> Tables:
        """Return tables of their own with the same rows."""
        return Tables(
            {number: SliceRow(**vars(row)) for number, row in self.slices.items()},
            {number: FileRow(**vars(row)) for number, row in self.files.items()},
            {number: list(rows) for number, rows in self.extents.items()},
        )


@dataclass
class Effect:
    """What a statement answers, and what it changes; without a change nobody waits for a disk."""

    rows: Rows
    changes: list[Change] = field(default_factory=list)
    wrong: str = ""  # what the engine promises, and the statement does not keep


Does = Callable[[str, Any, Tables, int], Effect]


@cache
def is_read(text: str) -> bool:
    """True if the statement changes nothing of the slice, and waits for nobody."""
    return text.lstrip().startswith(("SELECT", "SET", "WITH gone AS", "WITH old AS"))


def effect_of(text: str, values: Any, tables: Tables, now_us: int) -> Effect:
    """Return what this statement does to these tables now."""
    return _does(text)(text, values, tables, now_us)


@cache
def _does(text: str) -> Does:
    for beginning, does in _KNOWN.items():
        if text.lstrip().startswith(beginning):
            return does
    raise AssertionError(f"the simulated PostgreSQL does not know this statement: {text[:200]}")


def settings_of(text: str, settings: Mapping[str, str]) -> Rows | None:
    """Return the settings that are asked for; None: it asks for none."""
    named = _settings_named(text)
    return [tuple(settings[name] for name in named)] if named else None


@cache
def _settings_named(text: str) -> list[str]:
    return _SETTING.findall(text)


# -- reads ----------------------------------------------------------------------------------------


def _owners(text: str, values: Any, tables: Tables, now_us: int) -> Effect:
    return Effect([
        (number, row.member, row.address, row.epoch, row.seq,
         (now_us - row.beat_us) / 1e6, row.released, False, False, 0.0)
        for number, row in tables.slices.items()
    ])  # fmt: skip


def _files(text: str, values: Mapping[str, Any], tables: Tables, now_us: int) -> Effect:
    row = tables.slices.get(values["slice"])
    if row is None:
        return Effect([])
    found = [
        (row.epoch, row.seq, number, file.path, file.size, _end(tables, number))
        for number, file in tables.files.items()
    ]
    return Effect(found or [(row.epoch, row.seq, None, None, None, 0)])


def _read(text: str, values: Mapping[str, Any], tables: Tables, now_us: int) -> Effect:
    row = tables.slices.get(values["slice"])
    if row is None:
        return Effect([])
    found = [
        (row.epoch, row.seq, pos, data)
        for _, _, pos, data in sorted(tables.extents.get(values["file"], ()))
        if values["first"] < pos < values["end"]
    ]
    return Effect(found or [(row.epoch, row.seq, None, None)])


def _edges(text: str, values: Mapping[str, Any], tables: Tables, now_us: int) -> Effect:
    row = tables.slices.get(values["slice"])
    if row is None:
        return Effect([])
    found = [
        (row.epoch, row.seq, number, file.size, pos, data)
        for number, file in sorted(tables.files.items())
        for _, _, pos, data in sorted(tables.extents.get(number, ()))
        if pos < values["front"] or pos < file.size < pos + len(data) + values["back"]
    ]
    return Effect(found or [(row.epoch, row.seq, None, None, None, None)])


def _end(tables: Tables, number: int) -> int:
    return max((pos + len(data) for _, _, pos, data in tables.extents.get(number, ())), default=0)


def _said(text: str, values: Any, tables: Tables, now_us: int) -> Effect:
    """What may be lost: a member says that it is there."""
    return Effect([(1,)])


def _agreed(text: str, values: Mapping[str, Any], tables: Tables, now_us: int) -> Effect:
    """How queues are spread: each member says the same."""
    return Effect([(values["slices"], values["groups"])])


def _version(text: str, values: Any, tables: Tables, now_us: int) -> Effect:
    return Effect([(SCHEMA_VERSION,)])


def _has_version(text: str, values: Any, tables: Tables, now_us: int) -> Effect:
    return Effect([(True,)])


def _seq(text: str, values: Sequence[int], tables: Tables, now_us: int) -> Effect:
    """A planted mistake reads it."""
    row = tables.slices.get(values[0])
    return Effect([(row.seq,)] if row is not None and row.epoch == values[1] else [])


# -- changes --------------------------------------------------------------------------------------


def _claim(text: str, values: Mapping[str, Any], tables: Tables, now_us: int) -> Effect:
    number = values["slice"]
    row = tables.slices.get(number)
    if row is not None and "s.epoch = %(seen)s" in text and row.epoch != values["seen"]:
        return Effect([])
    names_seq = "s.seq = coalesce(%(seq)s" in text and values["seq"] is not None
    if row is not None and names_seq and row.seq != values["seq"]:
        return Effect([])
    epoch, seq = (1, 0) if row is None else (row.epoch + 1, row.seq)

    def change(at: Tables) -> None:
        at.slices[number] = SliceRow(epoch, seq, values["member"], values["address"], now_us)

    return Effect([(epoch, seq)], [change])


def _of_row(text: str, values: Sequence[int], tables: Tables, now_us: int) -> Effect:
    """A change of the slice's row alone: a beat that tells the number of commits, a release."""
    number, epoch = values
    row = tables.slices.get(number)
    if row is None or ("epoch = %s" in text and row.epoch != epoch):
        return Effect([])

    def change(at: Tables) -> None:
        if "released = true" in text:
            at.slices[number].released = True
        else:
            at.slices[number].beat_us = now_us

    return Effect([(row.seq,)], [change])


def _commit(text: str, values: Mapping[str, Any], tables: Tables, now_us: int) -> Effect:
    """The fence, and all that stands behind it."""
    parts = _parts(text)
    number = values["slice"]
    row = tables.slices.get(number)
    fence = parts["own"]
    owns = row is not None and all(
        f"{name} = %({name})s" not in fence or getattr(row, name) == values[name]
        for name in ("epoch", "seq")
    )
    effect = Effect([(int(owns),)])
    if owns:
        def beat(at: Tables) -> None:
            at.slices[number].seq += 1
            at.slices[number].beat_us = now_us

        effect.changes.append(beat)
    for name, body in parts.items():
        if name != "own" and (owns or not _OWN.search(body)):
            effect.changes += _CHANGES[name](values)
    if effect.changes and not owns:
        effect.wrong = f"a commit of claim {values['epoch']} was refused, and changed something"
    elif row is not None and owns and row.epoch != values["epoch"]:
        effect.wrong = f"a commit of claim {values['epoch']} was done under claim {row.epoch}"
    return effect


@cache
def _parts(text: str) -> dict[str, str]:
    """Return the parts of a statement by their names."""
    found = [*_PART.finditer(text)]
    ends = [match.start() for match in found[1:]] + [text.rindex("SELECT")]
    return {match[1]: text[match.end() : end] for match, end in zip(found, ends, strict=True)}


def _extents(values: Mapping[str, Any]) -> list[Change]:
    rows = [*zip(values["e_file"], values["e_n"], values["e_pos"], values["e_data"], strict=True)]

    def change(at: Tables) -> None:
        for file, nth, pos, data in rows:
            at.extents.setdefault(file, []).append((values["seq"], nth, pos, data))

    return [change] if rows else []


def _created(values: Mapping[str, Any]) -> list[Change]:
    rows = [*zip(values["c_file"], values["c_path"], values["c_size"], strict=True)]

    def change(at: Tables) -> None:
        for file, path, size in rows:
            assert file not in at.files, "a number is used once"
            at.files[file] = FileRow(path, size)

    return [change] if rows else []


def _renamed(values: Mapping[str, Any]) -> list[Change]:
    rows = [*zip(values["r_file"], values["r_path"], strict=True)]

    def change(at: Tables) -> None:
        for file, path in rows:
            if file in at.files:
                at.files[file].path = path

    return [change] if rows else []


def _deleted(values: Mapping[str, Any]) -> list[Change]:
    def change(at: Tables) -> None:
        for file in values["d_file"]:
            at.files.pop(file, None)

    return [change]


def _freed(values: Mapping[str, Any]) -> list[Change]:
    def change(at: Tables) -> None:
        for file in values["d_file"]:
            at.extents.pop(file, None)

    return [change]


_CHANGES: Final[Mapping[str, Callable[[Mapping[str, Any]], list[Change]]]] = {
    "extents": _extents, "created": _created, "renamed": _renamed, "deleted": _deleted,
    "freed": _freed,
}  # fmt: skip
_KNOWN: Final[Mapping[str, Does]] = {
    "WITH own AS": _commit,
    "INSERT INTO kestrelpy.slice": _claim,
    "UPDATE kestrelpy.slice": _of_row,
    "INSERT INTO kestrelpy.fleet": _agreed,
    "SELECT s.id, s.member": _owners,
    "SELECT s.epoch, s.seq, f.id": _files,
    "SELECT s.epoch, s.seq, x.file": _edges,
    "SELECT s.epoch, s.seq, e.pos": _read,
    "SELECT seq FROM kestrelpy.slice": _seq,
    "SELECT number FROM kestrelpy.version": _version,
    "SELECT to_regclass('kestrelpy.version')": _has_version,
    "WITH gone AS": _said,
    "WITH old AS": _said,
    "SET synchronous_commit": _said,
}
