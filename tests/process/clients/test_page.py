"""docs/clients.md: its tables fit the list of libraries, and its snippets run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.process.clients import page, programs
from tests.process.clients.conftest import require
from tests.process.clients.libraries import LIBRARIES, Library
from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw

PAGE = page.PAGE.read_text()
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SNIPPETS = [(language, text) for language, text in _FENCE.findall(PAGE) if language != "haproxy"]
NAMES = {library.name: library for library in LIBRARIES}


class Runner(NamedTuple):
    """The file and the command that run a snippet of a language."""

    file: str
    command: Callable[[Path], Sequence[str]]


RUNNERS = {
    "python": Runner("snippet.py", lambda path: [sys.executable, str(path)]),
    "php": Runner("snippet.php", lambda path: ["php", str(path)]),
    "perl": Runner("snippet.pl", lambda path: ["perl", "-w", str(path)]),
    "ruby": Runner("snippet.rb", lambda path: ["ruby", str(path)]),
    "js": Runner("snippet.js", lambda path: ["node", str(path)]),
    "go": Runner("snippet.go", lambda path: programs.built_with_go(path.parent, path)),
    "java": Runner("Snippet.java", lambda path: programs.built_with_java(path.parent, path)),
    "bash": Runner("snippet.sh", lambda path: ["bash", str(path)]),
}
# By a word in a snippet: the library it needs.
NEEDS = {
    "HashClient": "Python pymemcache `HashClient`", "pymemcache": "Python pymemcache `Client`",
    "aiomcache": "Python aiomcache", "new Memcached()": "PHP memcached",
    "Cache::Memcached::Fast": "Perl Cache::Memcached::Fast", "TCPSocket": "Ruby dalli",
    "require('memcached')": "Node memcached", "gomemcache": "Go gomemcache",
    "net.spy": "Java spymemcached", "/dev/tcp": "bash `/dev/tcp`", "| nc ": "nc",
    "memccp": "libmemcached-tools",
}  # fmt: skip


def needed(text: str) -> Library:
    return NAMES[next(name for word, name in NEEDS.items() if word in text)]


def test_the_table_has_a_row_for_each_library_and_no_other() -> None:
    wanted = [
        page.work_row(library, page.version_of(PAGE, library), page.expected(library))
        for library in LIBRARIES
    ]
    assert page.rows_of(PAGE, "clients") == wanted, "run make test-clients"


def test_the_table_of_values_fits_the_list_of_libraries() -> None:
    wanted = [
        page.value_row(library, page.expected(library))
        for library in LIBRARIES
        if not library.instead
    ]
    assert page.rows_of(PAGE, "values") == wanted, "run make test-clients"


def test_every_language_of_the_list_has_a_snippet() -> None:
    used = {needed(text).name.split()[0] for _, text in SNIPPETS}
    assert used == {library.name.split()[0] for library in LIBRARIES}


def test_a_run_writes_what_it_has_seen_and_keeps_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "clients.md"
    copy.write_text(PAGE)
    monkeypatch.setattr(page, "PAGE", copy)
    seen = NAMES["bash `/dev/tcp`"]

    page.write({seen.name: {**page.expected(seen), "cas": "no cas", "long": "gzip, flags 9"}})

    written = copy.read_text()
    changed = set(written.splitlines()) - set(PAGE.splitlines())
    assert {line.split(" | ")[0] for line in changed} == {"| bash `/dev/tcp`"}
    assert any("all but cas: no cas" in line for line in changed)
    assert any("gzip, flags 9" in line for line in changed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "text"), SNIPPETS,
    ids=[f"{language} {at}" for at, (language, _) in enumerate(SNIPPETS)],
)  # fmt: skip
def test_a_snippet_handles_one_item_and_confirms_it(
    language: str, text: str, daemons: list[DaemonProcess], tmp_path: Path
) -> None:
    library = needed(text)
    require(library)
    if language == "ruby" and not shutil.which("ruby"):
        pytest.skip("ruby: not installed")
    runner = RUNNERS[language]
    path = tmp_path / runner.file
    for port, daemon in zip(("22133", "22134"), daemons, strict=True):
        text = text.replace(port, str(daemon.port))
    path.write_text(text)
    command = list(runner.command(path))

    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, **library.program.environment},
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert "hello" in done.stdout.split()
    for daemon in daemons:
        with Raw(("127.0.0.1", daemon.port)) as raw:
            stats = raw.stats()
            assert int(stats.get("queue_jobs_items", 0)) == 0
            assert int(stats.get("queue_jobs_leased", 0)) == 0
