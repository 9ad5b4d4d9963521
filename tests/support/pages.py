"""The pages of the documentation: their blocks of code are run, and their links are followed.

    ```nc       a conversation: `  ` a client's line, `< ` the daemon's, `$ nc` hang up and connect
    ```python   run in one namespace for each page
    ```sh       each `kestrelpy ...` and `curl ...` is run; other commands are not
    ```curl     `$ curl ...` and what it prints
    ```toml     a configuration without mistakes

A comment `<!-- not run: why -->` before a block leaves it out. In a
conversation `…` stands for anything.

One rule: a page is read from its beginning, by a reader with one daemon that is empty.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kestrelpy.config import load_config
from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw, wait_until

ROOT: Final = Path(__file__).parents[2]
_BLOCK: Final = re.compile(
    r"(?ms)^(?:<!-- not run: (?P<why>[^>]+) -->\n+)?```(?P<kind>[\w-]+)\n(?P<text>.*?)^```$"
)
_LINK: Final = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_LEFT_OUT: Final = "…"
_PORT: Final = "22133"
_HTTP_PORT: Final = "2223"
_SECONDS: Final = 30
PYTHON_SECONDS: Final = 4  # a loop without an end is stopped then


@dataclass(frozen=True)
class Block:
    """One block of code: its language, its text, and its first line in the page."""

    kind: str
    text: str
    line: int
    why_not: str = ""


def blocks(page: str) -> Iterator[Block]:
    """Yield the blocks of code of a page, also those that are not run."""
    for found in _BLOCK.finditer(page):
        line = page.count("\n", 0, found.start("text")) + 1
        yield Block(found["kind"], found["text"], line, found["why"] or "")


class Reader:
    """A reader who types the commands of a page, with a daemon of its own."""

    def __init__(self, page: Path, daemon: DaemonProcess) -> None:
        self.page = page
        self.daemon = daemon
        self._exports = ""
        self.names: dict[str, Any] = {"__name__": "__page__"}

    def run(self, block: Block) -> None:
        """Run one block; raise AssertionError with its place if it does not do what it says."""
        run = {
            "nc": self._talk, "python": self._python, "sh": self._shell, "curl": self._curl,
            "toml": self._toml,
        }  # fmt: skip
        try:
            run[block.kind](block.text)
        except Exception as error:
            raise AssertionError(f"{self.page.name}, line {block.line}: {error}") from error

    # -- a conversation ---------------------------------------------------------------------

    def _talk(self, text: str) -> None:
        raw = Raw(("127.0.0.1", self.daemon.port))
        for line in text.splitlines():
            if line.startswith("$ nc"):
                raw = self._connected_again(raw)
            elif line.startswith("< "):
                self._hear(raw, line[2:].encode())
            else:
                assert line.startswith("  "), f"neither a client's line nor the daemon's: {line!r}"
                raw.send(line[2:].encode() + b"\r\n")
        raw.hang_up()

    def _connected_again(self, before: Raw) -> Raw:
        """Hang up and connect; wait until the daemon knows that the old connection is gone."""
        connections = before.stats()["curr_connections"]
        before.hang_up()
        raw = Raw(("127.0.0.1", self.daemon.port))
        wait_until(
            lambda: raw.stats()["curr_connections"] == connections, "the hang-up is noticed"
        )
        return raw

    def _hear(self, raw: Raw, expected: bytes) -> None:
        heard = raw.line().removesuffix(b"\r\n")
        pattern = re.escape(expected).replace(re.escape(_LEFT_OUT.encode()), b".*")
        assert re.fullmatch(pattern, heard), f"the page has {expected!r}, the daemon {heard!r}"

    # -- the others -------------------------------------------------------------------------

    def _python(self, text: str) -> None:
        code = text.replace(_PORT, str(self.daemon.port))
        if re.search(r"(?m)^(for|while) |\.run\(", text):
            self._loop(code)
            return
        with redirect_stdout(io.StringIO()) as said:
            exec(compile(code, str(self.page), "exec"), self.names)
        shown = [each[1] for each in re.finditer(r"(?m)^print\(.*\)  # (.*)$", text)]
        assert said.getvalue().splitlines() == shown or not shown, said.getvalue()

    def _loop(self, code: str) -> None:
        """Run a worker that has no end, for a moment."""
        server = f'server="127.0.0.1:{self.daemon.port}"'
        code = re.sub(r'Worker\("(\w+)"', rf'Worker("\1", {server}', code)
        try:
            ended = subprocess.run(
                [sys.executable, "-c", code], timeout=PYTHON_SECONDS, capture_output=True,
                cwd=ROOT, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as stopped:
            assert b"Traceback" not in (stopped.stderr or b""), stopped.stderr.decode()
        else:
            assert ended.returncode == 0, ended.stderr.decode()

    def _shell(self, text: str) -> None:
        for line in text.replace("\\\n", " ").splitlines():
            command, _, note = line.partition("  # ")
            if command.startswith("export "):
                self._exports += command + "\n"
            if command.startswith("curl "):
                self._print_of(command)
            if not command.startswith("kestrelpy "):
                continue
            ended = subprocess.run(
                ["bash", "-c", f"{shlex.quote(sys.executable)} -m {command}"],
                env={**os.environ, "KESTRELPY_SERVER": f"127.0.0.1:{self.daemon.port}",
                     "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
                cwd=self.daemon.data_dir.parent, capture_output=True, text=True, timeout=_SECONDS,
                check=False,
            )  # fmt: skip
            wanted = re.search(r"exit code (\d+)", note)
            code = int(wanted[1]) if wanted else 0
            assert ended.returncode == code, f"{command}: {ended.stdout}{ended.stderr}"

    def _curl(self, text: str) -> None:
        answer = ""
        for line in text.replace("\\\n", " ").splitlines():
            if not line.startswith("$ "):
                first, _, answer = answer.partition("\n")
                pattern = re.escape(line).replace(re.escape(_LEFT_OUT), ".*")
                assert re.fullmatch(pattern, first), f"the page has {line!r}, curl {first!r}"
                continue
            assert not answer, f"the page leaves out {answer!r}"
            answer = self._print_of(line[2:])
        assert not answer.strip("\n"), f"the page leaves out {answer!r}"

    def _print_of(self, command: str) -> str:
        """Run curl; return what it prints, which is no answer of the server's mistakes."""
        command = (self._exports + command).replace(f":{_HTTP_PORT}", f":{self.daemon.http_port}")
        said = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, timeout=_SECONDS,
            check=True, cwd=self.daemon.data_dir.parent,
        ).stdout  # fmt: skip
        assert "Internal Server Error" not in said, said
        return said

    def _toml(self, text: str) -> None:
        file = self.daemon.data_dir.parent / "page.toml"
        file.write_text(text)
        load_config(file, environ={}, overrides={})


def headings(page: str) -> set[str]:
    """Return the anchors of a page's headings."""
    found = re.findall(r"(?m)^#+ (.*)$", re.sub(r"(?ms)^```.*?^```$", "", page))
    return {re.sub(r"[^\w\- ]", "", each.lower()).strip().replace(" ", "-") for each in found}


def broken_links(path: Path) -> list[str]:
    """Return the links of a page to files or headings that do not exist."""
    broken = []
    for link in _LINK.findall(re.sub(r"(?ms)^```.*?^```$", "", path.read_text())):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        is_there = target.exists() and (
            not anchor or target.suffix != ".md" or anchor in headings(target.read_text())
        )
        if not is_there:
            broken.append(link)
    return broken
