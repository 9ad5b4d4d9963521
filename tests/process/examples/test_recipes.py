"""Each recipe as its reader runs it: one command, a fresh daemon, and it ends well.

The recipes check themselves what they promise; here is what their reader sees.

Promises: retain, child.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess
from tests.test_house import RECIPES

ROOT = Path(__file__).parents[3]
SECONDS = 60.0
# What is seen, in this order, with anything between.
SEEN = {
    "account": r"\d+ events by 4 tellers, \d+ conflicts; the balance of \d+ follows from them$",
    "audit": r"the audit fails at order 17.*each of 3 readers saw 200 orders, in order, once$",
    "cron": r"2: the daily report.*killed \(kill -9\).*it is back.*6: the daily report.*each "
    r"second was put once$",
    "handoff": r"[1-9]\d* workers died, [1-9]\d* of them.*60 orders were sent, each "
    r"once, through each step once$",
    "lock": r"falls asleep with the lock, token (\d+).*refused, \1 is too old.*"
    r"60 rounds, 1 refused, counted to 59$",
    "observer": r"300 orders were done before .* killed 4 times, and its turnover of \d+ is right$",
    "renewing": r"ben takes film-1, 0 of 24.*killed \(kill -9\) and started again.*ben puts it "
    r"off.*ann takes film-1, [1-9]\d* of 24.*renews.*and the lease was never lost$",
    "reservation": r"8 handlers were killed.*\d+ commands sent, 40 .* each handled once$",
    "saga": r"9 trips are booked in all three steps, 3 in none; nothing is half done$",
    "webhook": r"shop: was delivered, and the deliverer dies.*slow: close.*delivered: 3, and the "
    r"first one twice.*410 Gone",
    "withdrawal": r"written, not confirmed.*120 times asked for, 60 withdrawals written once each",
    "workflow": r"hill.jpg: flow.resize failed.*published: hill.jpg, sea.jpg, sky.jpg\n.*item \d+, "
    r"1 attempts, virus.exe is no picture\n.*item \d+, 5 attempts, abort\n.*redriven: 1\n.*"
    r"vain.jpg$",
    "transfers": r"refused: .* has no field \"to\".*200 transfers, up to [2-8] at a time; every "
    r"balance is what it would be one after the other$",
}


def run(recipe: str, *words: str) -> str:
    """Run a recipe; return its output. Its exit code is 0, and its stderr is empty."""
    ended = subprocess.run(
        [sys.executable, "-m", f"kestrelpy.examples.{recipe}", *words],
        capture_output=True, text=True, timeout=SECONDS, check=False, cwd=ROOT,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("recipe", SEEN)
def test_a_recipe_runs_by_one_command_against_a_fresh_daemon(recipe: str) -> None:
    said = run(recipe)

    assert re.search(SEEN[recipe], said, re.DOTALL | re.MULTILINE), said


def test_every_recipe_is_run() -> None:
    assert {f"kestrelpy.examples.{name}" for name in SEEN} == set(RECIPES)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [name for name in SEEN if name not in ("cron", "renewing")])
def test_a_recipe_runs_against_a_server_that_is_there_twice(recipe: str, tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data") as daemon:
        for _ in range(2):
            said = run(recipe, "--server", f"127.0.0.1:{daemon.port}")

            assert re.search(SEEN[recipe], said, re.DOTALL | re.MULTILINE), said


def test_a_recipe_says_what_it_is() -> None:
    assert "python -m kestrelpy.examples.lock" in run("lock", "--help")


@pytest.mark.parametrize(
    ("server", "sentence"),
    [("there", "'there' is not HOST:PORT"), ("127.0.0.1:1", "no server at 127")],
)
def test_a_server_that_is_not_there_is_named_in_a_sentence(server: str, sentence: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "kestrelpy.examples.lock", "--server", server],
        capture_output=True, text=True, timeout=SECONDS, check=False, cwd=ROOT,
    )  # fmt: skip

    assert ended.returncode == 2
    assert sentence in ended.stderr and "Traceback" not in ended.stderr
