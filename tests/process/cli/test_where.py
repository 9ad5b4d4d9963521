"""`kestrelpy fleet where` names the slice that a router sends a queue to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kestrelpy.cli.fleet import where
from kestrelpy.placement import Placement
from tests.process.cli.command import Command


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(1, tmp_path)  # no server listens there


def test_it_names_the_slice_and_the_group_of_the_configuration(
    tmp_path: Path, command: Command
) -> None:
    file = tmp_path / "kestrelpy.toml"
    file.write_text('[server]\nhttp_port = "off"\n[fleet]\nslices = 8\ngroups = ["shop.*"]\n')
    names = ["orders", "orders+audit", "shop.in", "refunds{7}"]
    found = json.loads(command("fleet", "where", *names, "--config", str(file), "--json").out)
    placement = Placement(8, ["shop.*"])
    assert found == [
        {"queue": name, "slice": placement.slice_of(name.encode()), "group": group}
        for name, group in zip(names, ["orders", "orders", "shop.*", "7"], strict=True)
    ]


def test_without_slices_all_is_in_the_first(command: Command) -> None:
    found = command("fleet", "where", "orders")
    assert found.out.decode().splitlines()[1].split() == ["orders", "1", "of", "1", "orders"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["a b"], "printable ASCII without blanks"),
        (["a+b+c"], "a child has no children"),
        (["é"], "printable ASCII"),
        (["a", "--slices", "65"], "from 1 to 64"),
    ],
)
def test_a_bad_name_or_number_is_one_sentence(
    words: list[str], sentence: str, command: Command
) -> None:
    assert where.__doc__
    found = command("fleet", "where", *words)
    assert found.code == 2
    assert sentence in found.err
    assert "Traceback" not in found.err
