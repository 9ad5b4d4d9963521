"""Bytes of a journal that are zeros: verify, repair, backup, restore and the start of a real daemon
name the items that cannot be read, and every other item comes out.

Promise: bodies-known.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.process.cli.command import Command
from tests.process.cli.test_backup import drained, put_some
from tests.support.daemon import DaemonProcess

BODIES = [b"item %d " % n * 110 for n in range(1, 301)]


def stopped(folder: Path) -> Path:
    """A data directory with 300 items of about 1 KB, in segments of several sizes."""
    with DaemonProcess(folder) as daemon:
        for at in range(0, len(BODIES), 50):
            put_some(daemon, "jobs", *BODIES[at : at + 50])
        daemon.stop()
    (journal,) = folder.glob("jobs.*")
    return journal


@pytest.mark.parametrize("part", [0.5, 1], ids=["half", "whole"])
def test_zeros_in_a_segment_are_named_by_all_and_cost_only_their_items(
    kestrelpy: Command, tmp_path: Path, part: float
) -> None:
    segment = sorted(stopped(tmp_path / "data").glob("*.segment"))[0]
    size = segment.stat().st_size
    with segment.open("r+b") as file:
        file.seek(size - int(size * part))
        file.write(bytes(int(size * part)))

    checked = kestrelpy("journal", "verify", "--data-dir", "data", "--json")
    assert checked.code == 1, checked
    (report,) = json.loads(checked.out)["journals"]
    lost = {n for first, last in report["unreadable"] for n in range(first, last + 1)}
    assert report["unreadable_items"] == len(lost) > 0
    assert report["live_items"] == 300 - len(lost)
    said = f"{len(lost)} items cannot be read: {min(lost)} to {max(lost)}"
    assert said.encode() in kestrelpy("journal", "verify", "--data-dir", "data").out
    planned = kestrelpy("journal", "repair", "--data-dir", "data", "--dry-run")
    assert planned.code == 1, planned
    assert said.encode() in planned.out
    assert said.encode() in kestrelpy("journal", "dump", "--data-dir", "data").err.encode()

    made = kestrelpy("backup", "copy", "--data-dir", "data", "--json")
    assert made.code == 1, made
    assert f"queue jobs: {said}" in made.err
    (queue,) = json.loads(made.out)["queues"]
    assert queue["items"] == 300 - len(lost)
    refused = kestrelpy("restore", "copy", "--data-dir", "new")
    assert refused.code == 2, refused
    assert said in refused.err

    left = [body for number, body in enumerate(BODIES, 1) if number not in lost]
    with DaemonProcess(tmp_path / "data") as daemon:
        assert any(f"queue jobs: {said}" in line for line in daemon.lines)
        assert drained(daemon) == left

    assert kestrelpy("journal", "repair", "copy", "--yes").code == 0
    assert kestrelpy("journal", "verify", "copy").code == 0
    assert kestrelpy("restore", "copy", "--data-dir", "new").code == 0
    with DaemonProcess(tmp_path / "new") as daemon:
        assert drained(daemon) == left
