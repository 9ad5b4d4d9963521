"""The documentation does what it says: its code runs, its links lead somewhere."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess
from tests.support.pages import ROOT, Block, Reader, blocks, broken_links, headings
from tests.support.promises import EVIDENCE, evidence, named_in, page, promised

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MAPS = [ROOT / name for name in ("docs/architecture.md", "CONTRIBUTING.md")]
OTHERS = [
    ROOT / name
    for name in ("CONTRIBUTING.md", "bench/README.md", "bench/measured.md", "journal/FORMAT.md")
]
DECISION_LINES_MAX = 8  # of 120 characters, without its heading and the lines between
# A plan of the team, which no reader has.
PLAN = re.compile(r"design\.md|\bspec \d|\bSpec, section|\b[Ii]ssue \d")
CITING = {".py", ".md", ".toml", ".sql", ".sh", ".js", ".txt"}
SOURCES = ("journal", "kestrelpy", "pyspark_kestrel", "tests", "bench", "docs", "packaging")
# These have tests of their own that run their code.
OWN = {
    "clients.md": "tests/process/clients/test_page.py",
    "command-line.md": "tests/process/cli/test_docs.py",
    "operations.md": "tests/process/test_operations_page.py",
    "pipeline.md": "tests/unit/spark/test_pipeline_page.py",
    "python.md": "tests/process/celery_broker/test_python_page.py",
    "protocol.md": "tests/scenario/test_protocol_page.py",
}
RUN = {"nc", "python", "sh", "toml", "curl"}
# Configuration or code of other tools, and output of programs; a reader types none of it.
SHOWN = {"text", "ini", "php", "ruby", "perl", "js", "java", "go", "haproxy", "yaml", "bash",
         "dockerfile", "json", "console", "transcript"}  # fmt: skip
README_BYTES_MAX = 8 << 10
CONFIG = '[server]\nallow_shutdown = false\n[queue_defaults]\nretry_delay = "0s"\n'
# The pages that a newcomer types from start to end, on one daemon.
TYPED = ("guide", "python", "command-line", "operations")
QUEUE = re.compile(
    r'(?m)^  (?:set|add|cas|gets?) (\w+)|Worker\("(\w+)"'
    r"|\bkestrelpy (?:put|get|peek|work|queues create) (\w+)"
)
each_page = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)


@pytest.mark.parametrize(
    "path", [path for path in PAGES if path.name not in OWN], ids=lambda path: path.name
)
def test_the_code_on_a_page_does_what_it_says(path: Path, tmp_path: Path) -> None:
    has_http = "\ncurl " in path.read_text() or "\n$ curl " in path.read_text()
    with DaemonProcess(
        tmp_path / "data", config=CONFIG, http_port="0" if has_http else "off"
    ) as daemon:
        reader = Reader(path, daemon)
        for block in blocks(path.read_text()):
            if block.kind in RUN and not block.why_not:
                reader.run(block)


@each_page
def test_each_block_of_a_page_says_what_it_is(path: Path) -> None:
    kinds = {block.kind for block in blocks(path.read_text())}
    assert kinds <= RUN | SHOWN
    fences = sum(line.startswith("```") for line in path.read_text().splitlines())
    assert fences == 2 * len(list(blocks(path.read_text()))), "a block without a language"


@each_page
def test_a_line_to_type_has_nothing_beside_it(path: Path) -> None:
    typed = [
        line for block in blocks(path.read_text()) if block.kind == "nc"
        for line in block.text.splitlines() if not line.startswith("< ")
    ]  # fmt: skip
    assert [line for line in typed if re.search(r"\S {2,}", line)] == []


def test_each_page_to_type_has_queues_of_its_own() -> None:
    pages: dict[str, set[str]] = {}
    for path in [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in TYPED)]:
        for block in blocks(path.read_text()):
            for found in QUEUE.finditer(block.text):
                pages.setdefault(found[1] or found[2] or found[3], set()).add(path.name)

    assert pages["jobs"] == {"README.md"}
    assert {name: on for name, on in pages.items() if len(on) > 1} == {}


@pytest.mark.parametrize("path", [*PAGES, *OTHERS], ids=lambda path: path.name)
def test_links_lead_to_pages_and_headings(path: Path) -> None:
    assert broken_links(path) == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= README_BYTES_MAX


def test_each_page_is_linked_from_the_readme() -> None:
    """Or from the page that its folder is named for."""
    for path in PAGES[1:]:
        inside = path.relative_to(ROOT / "docs").parent
        parent = ROOT / "docs" / f"{inside}.md" if inside.name else ROOT / "README.md"
        link = path.relative_to(parent.parent).as_posix()
        assert f"({link}" in parent.read_text(), f"{parent.name} has no link to {link}"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("nc", "  get nothing\n< VALUE\n"),
        ("nc", "get nothing\n"),
        ("python", "raise ValueError\n"),
        ("sh", "kestrelpy queues show nosuch\n"),
        ("toml", "[server]\nport = -1\n"),
        ("curl", "$ curl -s localhost:2223/queues/a/items -d b\n"),
        ("curl", '$ curl -s localhost:2223/queues/a/items -d b\n{"id":2}\n'),
    ],
)
def test_a_block_that_is_wrong_is_noticed(kind: str, text: str, tmp_path: Path) -> None:
    port = "0" if kind == "curl" else "off"
    with (
        DaemonProcess(tmp_path / "data", http_port=port) as daemon,
        pytest.raises(AssertionError, match="line 3"),
    ):
        Reader(Path("page.md"), daemon).run(Block(kind, text, 3))


def test_pages_with_tests_of_their_own_have_them() -> None:
    assert [test for test in OWN.values() if not (ROOT / test).exists()] == []


def test_headings_have_the_anchors_that_pages_on_the_web_give_them() -> None:
    assert headings("# One (two)\n```text\n# no\n```\n## `a` b\n") == {"one-two", "a-b"}


@pytest.mark.parametrize("path", MAPS, ids=lambda path: path.name)
def test_a_map_names_files_and_folders_that_exist(path: Path) -> None:
    named = set(re.findall(r"`([\w.-]+(?:/[\w.-]*)+|[\w-]+\.(?:md|toml))`", path.read_text()))
    assert len(named) > 10
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("path", sorted((ROOT / "docs/decisions").iterdir()), ids=lambda p: p.name)
def test_a_decision_is_short_dated_and_in_the_index(path: Path) -> None:
    index = (ROOT / "docs/decisions.md").read_text()
    for section in re.split(r"(?m)^## ", path.read_text())[1:]:
        title, _, text = section.partition("\n")
        lines = sum(len(textwrap.wrap(part, 120)) for part in re.split(r"\n\s*\n", text))
        assert lines <= DECISION_LINES_MAX, title
        assert re.search(r"\(20\d\d-\d\d-\d\d(, 20\d\d-\d\d-\d\d)*\)\s*$", text), f"{title}: a date"
        assert f"[{title}](decisions/{path.name}#" in index, f"{title} is not in the index"


def test_no_file_cites_a_plan_that_is_not_here() -> None:
    ours = [*ROOT.glob("*.md"), ROOT / "Makefile", ROOT / "kestrelpy.toml", ROOT / "pyproject.toml"]
    for folder in SOURCES:
        ours += [path for path in (ROOT / folder).rglob("*") if path.suffix in CITING]
    cited = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in ours
        if path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if PLAN.search(line)
    ]
    assert cited == []


def test_each_promise_has_evidence_and_each_test_that_names_one_is_right() -> None:
    names = [name for section in promised().values() for name in section]
    assert len(names) == len(set(names)) > 70
    found = evidence()
    assert [name for name in names if name not in found] == [], "no test says: Promise <name>."
    assert sorted(found.keys() - set(names)) == [], "no promise has these names"
    assert EVIDENCE.read_text() == page(), "run python -m tests.support.promises"


def test_a_line_about_a_promise_that_cannot_be_read_is_an_error() -> None:
    head = "A file.\n\nPromise a-b: one fault; one\n    more.\nPromises: c, d.\nPromise: e."
    assert list(named_in(head)) == [
        ("a-b", "one fault; one more"), ("c", ""), ("d", ""), ("e", ""),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="not a line about a promise: Promise of"):
        list(named_in("Promise of rain"))


def test_the_guarantees_are_short() -> None:
    text = (ROOT / "docs" / "guarantees.md").read_text()
    assert len(text.encode()) <= 14 << 10
    promises = [line for line in text.splitlines() if line.startswith("- **")]
    assert [line for line in promises if len(line) > 140] == [], "limits.md has the rest"
