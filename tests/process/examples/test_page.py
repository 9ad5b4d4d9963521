"""The page of the recipes: its code is theirs, every recipe is on it, and it is soon read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pymemcache.client.base import PooledClient

import kestrelpy.examples
from tests.support.daemon import DaemonProcess
from tests.test_house import RECIPES

FOLDER = Path(kestrelpy.examples.__file__).parent
PAGE = (FOLDER / "README.md").read_text()
NAMES = [name.rpartition(".")[2] for name in RECIPES]
# What a person reads in ten minutes.
WORDS_MAX = 2400


def section(name: str) -> str:
    """Its part of the page."""
    found = re.search(rf"(?ms)^## {name}\n(.*?)(?=^## |\Z)", PAGE)
    assert found is not None, f"{name} has no section"
    return found[1]


def test_the_code_for_all_of_them_does_what_it_says(tmp_path: Path) -> None:
    code = "\n".join(code_of(section("What they have in common")))
    with DaemonProcess(tmp_path / "data") as daemon:
        names = {"PooledClient": PooledClient, "body": b"hello"}
        exec(code.replace("22133", str(daemon.port)), names)

        assert names["body"] == b"hello"
        assert daemon.client().stats("jobs")[b"queue_jobs_open_transactions"] == 0
        assert daemon.client().stats("jobs")[b"queue_jobs_total_items"] == 1


def code_of(text: str) -> list[str]:
    """Every line in its blocks of code, without indentation."""
    blocks = re.findall(r"(?ms)^```(?:python|toml)\n(.*?)^```", text)
    return [line.strip() for block in blocks for line in block.splitlines() if line.strip()]


@pytest.mark.parametrize("name", NAMES)
def test_the_code_on_the_page_is_the_recipe_s(name: str) -> None:
    lines = (FOLDER / f"{name}.py").read_text()
    source = {line.strip() for line in lines.splitlines()}
    shown = code_of(section(name))

    assert shown, "no code is shown"
    # A comment behind a line may be left out on the page.
    bare = {re.sub(r"  # .*", "", line) for line in source}
    assert [line for line in shown if line not in source | bare] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_says_how_to_run_it_what_it_rests_on_and_what_to_mind(name: str) -> None:
    assert f"| [{name}](#{name}) | `python -m kestrelpy.examples.{name}` |" in PAGE
    assert f"[`{name}.py`]({name}.py)" in section(name)
    assert "**It rests on**" in section(name)
    assert "**Mind**" in section(name)


def test_nothing_is_on_the_page_that_is_not_there() -> None:
    assert sorted(re.findall(r"python -m kestrelpy\.examples\.(\w+)", PAGE)) == sorted(NAMES)
    for link in re.findall(r"\]\((?!#)([^)]+)\)", PAGE):
        assert (FOLDER / link).exists(), link


def test_a_newcomer_reads_it_in_ten_minutes() -> None:
    assert len(PAGE.split()) <= WORDS_MAX
