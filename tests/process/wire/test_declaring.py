"""`set q/declare` through real clients and sockets, over restarts, reloads and kills.

Promise: declared.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheClientError

from tests.support.daemon import DaemonProcess
from tests.support.kills import leave_nothing, new_seed
from tests.support.raw import Raw

LEASE = b'lease = "5m"\n'


def settings(client: Client, queue: str) -> dict[str, str]:
    """Return the settings in force that are no default, with their source: `5m declared`."""
    found = {key.decode(): value for key, value in client.stats(f"{queue}/settings").items()}
    prefix, source = f"queue_{queue}_setting_", f"queue_{queue}_source_"
    words = {}
    for key, value in found.items():
        name = key.removeprefix(prefix)
        if name == key:
            continue
        said = value.decode() if isinstance(value, bytes) else value
        where = found[source + name].decode()
        if where != "default":
            words[name] = f"{said} {where}"
    return words


def test_pymemcache_declares(daemon: DaemonProcess, queue: str) -> None:
    client = daemon.client()
    assert client.set(f"{queue}/declare", LEASE) is True
    assert client.set(f"{queue}/declare", 'lease = "300s"') is True
    assert client.set(f"{queue}/declare", b"max_items = 1") is False
    assert settings(client, queue) == {"lease": "5m declared"}
    with pytest.raises(MemcacheClientError, match='leese = "5m" is not a known key; the nearest'):
        client.set(f"{queue}/declare", b'leese = "5m"')
    assert client.set(queue, b"x") is True
    client.close()


def test_what_was_declared_is_there_after_a_restart_a_kill_and_a_reload(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data", config="[queue_defaults]\nmax_items = 9\n") as daemon:
        client = daemon.client()
        assert client.set("jobs/declare", b"max_items = 1\nmax_attempts = 3\n")
        expected = {"max_items": "1 declared", "max_attempts": "3 declared"}
        assert settings(client, "jobs") == expected

        daemon.kill()
        client = daemon.start().client()
        assert settings(client, "jobs") == expected
        assert client.set("jobs", b"1") is True
        assert client.set("jobs", b"2") is False

        assert daemon.stop() == 0
        client = daemon.start().client()
        assert settings(client, "jobs") == expected

        changed = "[queue_defaults]\nmax_items = 5\n[queues.jobs]\nlease = '1m'"
        daemon.config_file.write_text(changed)
        assert client.raw_command("reload") == b"Reloaded config."
        assert settings(client, "jobs") == {**expected, "lease": "1m file"}
        assert client.set("jobs", b"2") is False

        daemon.config_file.write_text("[queues.jobs]\nmax_items = 2")
        assert client.raw_command("reload") == b"Reloaded config."
        assert settings(client, "jobs") == {**expected, "max_items": "2 file"}
        assert client.set("jobs", b"2") is True
        client.close()
        leave_nothing(daemon)


def test_a_kill_among_declarations_leaves_each_whole_or_not_made(tmp_path: Path) -> None:
    chance = random.Random(new_seed())
    with DaemonProcess(tmp_path / "data") as daemon:
        told: set[str] = set()
        for life in range(3):
            names = [f"q{life}-{n}" for n in range(150)]
            with Raw(("127.0.0.1", daemon.port)) as raw:
                for name in names:
                    raw.send(f"set {name}/declare 0 0 13\r\nmax_items = 7\r\n".encode())
                for name in names[: chance.randrange(len(names))]:
                    assert raw.line() == b"STORED"
                    told.add(name)
                daemon.kill()
            client = daemon.start().client()
            for name in {*names, *told}:
                found = settings(client, name)
                assert found in ({}, {"max_items": "7 declared"})
                assert found or name not in told, f"{name}: STORED was said"
            client.close()
        leave_nothing(daemon)
