"""`queues create` and `queues show`: a queue with its settings, without touching a file."""

from __future__ import annotations

import json
from pathlib import Path

from tests.process.cli.command import Command, counts
from tests.support.daemon import DaemonProcess


def settings(kestrelpy: Command, queue: str) -> dict[str, tuple[object, str]]:
    """Return the settings of `queues show --json` that are no defaults."""
    found = json.loads(kestrelpy("queues", "show", queue, "--json").out)["settings"]
    return {
        key: (each["value"], each["from"])
        for key, each in found.items()
        if each["from"] != "default"
    }


def test_a_queue_is_made_with_settings(kestrelpy: Command) -> None:
    made = kestrelpy(
        "queues", "create", "made", "--set", "lease=5m", "--set", "max_items=10",
        "--set", "discard_old_when_full=true", "--set", "sync=never",
    )  # fmt: skip

    assert (made.code, made.out, made.err) == (0, b"made: made\n", ""), made
    assert settings(kestrelpy, "made") == {
        "lease": ("5m", "declared"),
        "max_items": (10, "declared"),
        "discard_old_when_full": (True, "declared"),
        "sync": ("never", "declared"),
    }


def test_the_same_again_is_fine_and_anything_else_is_exit_code_1(kestrelpy: Command) -> None:
    kestrelpy("queues", "create", "again", "--set", "lease=5m")
    same = kestrelpy("queues", "create", "again", "--set", "lease=300s")
    other = kestrelpy("queues", "create", "again", "--set", "lease=6m")

    assert (same.code, same.out) == (0, b"again: exists, and has these settings\n")
    assert other.is_sentence(1), other
    assert "other settings were declared for it" in other.err
    assert settings(kestrelpy, "again") == {"lease": ("5m", "declared")}


def test_a_queue_without_settings_is_made_too(kestrelpy: Command) -> None:
    assert kestrelpy("queues", "create", "bare").out == b"bare: made\n"
    assert settings(kestrelpy, "bare") == {}
    assert b"\nbare " in kestrelpy("queues", "ls").out


def test_settings_come_from_a_file_or_from_standard_input(
    kestrelpy: Command, tmp_path: Path
) -> None:
    (tmp_path / "mail.toml").write_text("# five is enough\nmax_attempts = 5\n")

    from_file = kestrelpy("queues", "create", "filed", "--from", str(tmp_path / "mail.toml"))
    piped = kestrelpy("queues", "create", "piped", "--from", "-", stdin=b'lease = "1m"\n')

    assert (from_file.code, piped.code) == (0, 0), (from_file, piped)
    assert settings(kestrelpy, "filed") == {"max_attempts": (5, "declared")}
    assert settings(kestrelpy, "piped") == {"lease": ("1m", "declared")}


def test_the_configuration_file_wins_and_show_says_so(kestrelpy: Command) -> None:
    kestrelpy("queues", "create", "full", "--set", "max_items=9", "--set", "lease=5s")

    assert settings(kestrelpy, "full") == {
        "lease": ("5s", "declared"), "max_items": (1, "file"),
    }  # fmt: skip


def test_a_mistake_is_one_sentence_and_makes_no_queue(kestrelpy: Command, tmp_path: Path) -> None:
    for words, told in (
        (["--set", "leese=5m"], "leese = \"5m\" is not a known key; the nearest is lease; allowed"),
        (["--set", "lease=60"], "lease = 60, but must be a duration"),
        (["--set", "retained=forever"], "is not a known key; the nearest is retain"),
        (["--set", "lease"], "'lease' must be key=value"),
        (["--set", "a b=1"], "'a b=1' must be key=value"),
        (["--set", "lease=5m", "--set", "lease=6m"], "Cannot overwrite a value"),
        (["--from", "nowhere.toml"], "nowhere.toml: No such file or directory"),
        (["--from", "-", "--set", "lease=5m"], "--set and --from do not go together"),
    ):
        ended = kestrelpy("queues", "create", "wrong", *words)

        assert ended.is_sentence(2), (words, ended)
        assert told in ended.err
    missing = kestrelpy("queues", "show", "wrong")
    assert missing.is_sentence(1), missing
    assert "no queue wrong" in missing.err


def test_show_has_settings_with_their_sources_and_live_figures(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    kestrelpy("queues", "create", "shown.now", "--set", "max_items=5")
    daemon.client().set("shown.now", b"12345")

    lines = kestrelpy("queues", "show", "shown.now").out.decode().splitlines()
    rows = [line.split() for line in lines if line]
    found = json.loads(kestrelpy("queues", "show", "shown.now", "--json").out)
    names = {line.split()[0] for line in lines if line}
    assert "leased" in names and "open_transactions" not in names
    assert found["figures"]["open_transactions"] == found["figures"]["leased"] == 0

    assert rows[0] == ["setting", "value", "from"]
    assert ["max_items", "5", "declared"] in rows
    assert ["lease", "30m", "default"] in rows
    assert ["durable", "true", "default"] in rows
    assert ["items", "1"] in rows and ["bytes", "5B"] in rows
    assert found["name"] == "shown.now"
    assert found["figures"]["items"] == 1
    assert found["settings"]["durable"] == {"value": True, "from": "default"}


def test_flush_asks_with_the_number_and_keeps_what_is_leased_and_dead(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    for key in ("flushed", "flushed", "flushed", "flushed/delay=1h"):
        client.set(key, b"x")
    client.get("flushed/open")

    no = kestrelpy("queues", "flush", "flushed", stdin=b"\n")
    before = counts(daemon, "flushed")
    yes = kestrelpy("queues", "flush", "flushed", stdin=b"y\n")
    after = counts(daemon, "flushed")

    question = "3 items of flushed (2 ready, 1 delayed) go for good. Flush? [y/N] "
    assert (no.code, no.out, no.err) == (1, b"", f"{question}kestrelpy: nothing was changed\n")
    assert (before["items"], before["delayed"], before["leased"]) == (2, 1, 1)
    assert yes.out.endswith(b"flushed flushed: 3 items\n")
    assert (after["items"], after["delayed"], after["leased"]) == (0, 0, 1)


def test_delete_asks_with_the_number(kestrelpy: Command, daemon: DaemonProcess) -> None:
    daemon.client().set("deleted", b"12345")

    no = kestrelpy("queues", "delete", "deleted", stdin=b"n\n")
    there = counts(daemon, "deleted")
    yes = kestrelpy("queues", "delete", "deleted", "--yes")

    assert (no.code, no.out) == (1, b"")
    assert no.err.startswith("deleted goes for good, with 1 item (1 ready, 0 delayed, 0 leased, ")
    assert no.err.endswith("kestrelpy: nothing was changed\n")
    assert there["items"] == 1
    assert (yes.code, yes.out) == (0, b"deleted deleted: 1 item\n")
    assert counts(daemon, "deleted") == {}


def test_a_delete_that_is_not_allowed_is_a_sentence(kestrelpy: Command, tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data", config="[server]\nallow_delete = false") as other:
        other.client().set("q", b"x")
        words = ["--yes", "--server", f"127.0.0.1:{other.port}"]
        ended = kestrelpy("queues", "delete", "q", *words)

        assert ended.is_sentence(2), ended
        assert "allow_delete" in ended.err
        assert other.client().get("q") == b"x"
