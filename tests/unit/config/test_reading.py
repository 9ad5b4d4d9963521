"""kestrelpy.toml, environment and flags: the values in force, precedence, and the file that
ships."""

import re
import tomllib
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest
from pydantic import ValidationError

import kestrelpy
from kestrelpy.config.queue_settings import QueueSettings
from kestrelpy.config.reading import find_config_file
from kestrelpy.config.retaining import Retain
from tests.unit.config.files import KEYS, load

TOP = Path(__file__).parents[3]
SHIPPED = TOP / "kestrelpy.toml"


# The values in force


def test_without_a_file_the_defaults_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    config = load(None)

    known_server = {
        "host": "127.0.0.1",
        "port": 22133,
        "socket": None,
        "text_port": None,
        "http_host": "127.0.0.1",
        "http_port": 2223,
        "http_allowed_hosts": (),
        "default_project": None,
        "insecure": False,
        "tls_cert": None,
        "tls_key": None,
        "tls_client_ca": None,
        "data_dir": tmp_path / "data",
        "max_connections": 10_000,
        "max_queues": 10_000,
        "max_memory_bytes": 268_435_456,
        "max_connection_memory_bytes": 134_217_728,
        "min_disk_free_bytes": 0,
        "idle_timeout_ms": None,
        "max_open_reads": 1,
        "allow_delete": True,
        "allow_flush_all": True,
        "allow_shutdown": False,
        "log_format": "text",
        "log_level": "info",
    }
    assert known_server.items() <= config.server.model_dump().items()
    known_journal = {
        "segment_min_bytes": 65_536,
        "segment_max_bytes": 67_108_864,
        "batch_max_bytes": 4_194_304,
    }
    assert known_journal.items() <= config.journal.model_dump().items()
    assert config.queue(b"any") == QueueSettings(
        lease_ms=1_800_000,
        max_items=None,
        max_bytes=None,
        max_item_bytes=8_388_608,
        max_memory_bytes=67_108_864,
        discard_old_when_full=False,
        max_age_ms=None,
        max_queue_age_ms=None,
        sync="always",
        sync_in_turn=False,
        confirms_synced=False,
        durable=True,
        max_leased=None,
        max_attempts=100,
        expire_to=None,
        dead_letter_to=None,
        dead_letter_age_ms=None,
        dedupe_window_ms=86_400_000,
        scope_window_ms=2_592_000_000,
        retain=Retain(),
        fanout_only=False,
        fanout_create=True,
        archive_to=None,
        sliced=False,
    )


def test_every_setting_of_a_file_is_taken(file: Path) -> None:
    file.write_text(
        """
        [server]
        host = "::1"
        port = 0
        socket = "run/kestrel.sock"
        text_port = 2222
        http_host = "::1"
        http_port = "off"
        http_allowed_hosts = ["queue.example"]
        default_project = "main"
        insecure = true
        tls_cert = "tls/a.pem"
        tls_key = "tls/a.key"
        tls_client_ca = "tls/ca.pem"
        data_dir = "lib/kestrelpy"
        max_connections = 5
        max_queues = 6
        max_memory = "1GiB"
        max_connection_memory = "32MiB"
        min_disk_free = "20MiB"
        idle_timeout = "none"
        max_open_reads = 7
        allow_delete = false
        allow_flush_all = false
        allow_shutdown = true
        log_format = "json"
        log_level = "debug"
        [journal]
        segment_min = "16KiB"
        segment_max = 20000
        batch_max = "1MiB"
        [queue_defaults]
        lease = "none"
        max_items = 1
        max_bytes = "2KiB"
        max_item_size = 3
        max_memory = "64KiB"
        discard_old_when_full = true
        max_age = "4s"
        max_queue_age = "5m"
        sync = "200ms"
        confirms = "synced"
        durable = true
        max_leased = 6
        max_attempts = "none"
        expire_to = "none"
        dead_letter_to = "none"
        dead_letter_age = "2d"
        dedupe_window = "1h"
        scope_window = "forever"
        retain = "10GiB"
        fanout_only = true
        fanout_create = false
        archive_to = "archive"
        sliced = true
        sync_in_turn = true
        """
    )

    config = load(file)

    assert config.server.model_dump() == {
        "host": "::1",
        "port": 0,
        "socket": file.parent / "run/kestrel.sock",
        "text_port": 2222,
        "http_host": "::1",
        "http_port": None,
        "http_allowed_hosts": ("queue.example",),
        "default_project": "main",
        "insecure": True,
        "tls_cert": file.parent / "tls/a.pem",
        "tls_key": file.parent / "tls/a.key",
        "tls_client_ca": file.parent / "tls/ca.pem",
        "data_dir": file.parent / "lib/kestrelpy",
        "max_connections": 5,
        "max_queues": 6,
        "max_memory_bytes": 1 << 30,
        "max_connection_memory_bytes": 32 << 20,
        "min_disk_free_bytes": 20 << 20,
        "idle_timeout_ms": None,
        "max_open_reads": 7,
        "allow_delete": False,
        "allow_flush_all": False,
        "allow_shutdown": True,
        "log_format": "json",
        "log_level": "debug",
    }
    assert config.journal.model_dump() == {
        "segment_min_bytes": 16_384,
        "segment_max_bytes": 20_000,
        "batch_max_bytes": 1 << 20,
    }
    assert config.queue(b"any") == QueueSettings(
        lease_ms=None,
        max_items=1,
        max_bytes=2048,
        max_item_bytes=3,
        max_memory_bytes=65_536,
        discard_old_when_full=True,
        max_age_ms=4000,
        max_queue_age_ms=300_000,
        sync=200,
        sync_in_turn=True,
        confirms_synced=True,
        durable=True,
        max_leased=6,
        max_attempts=None,
        dead_letter_age_ms=172_800_000,
        dedupe_window_ms=3_600_000,
        scope_window_ms=None,
        retain=Retain(0, 10 << 30),
        fanout_only=True,
        fanout_create=False,
        archive_to=file.parent / "archive",
        sliced=True,
    )


def test_a_queue_changes_only_the_settings_of_its_own_block(file: Path) -> None:
    file.write_text(
        """
        [queue_defaults]
        lease = "1m"
        max_items = 5
        [queues.jobs]
        max_items = "none"
        [queues."a.b-c"]
        lease = "30m"
        """
    )
    defaults = QueueSettings(lease_ms=60_000, max_items=5)

    config = load(file)

    assert config.queue(b"jobs") == replace(defaults, max_items=None)
    assert config.queue(b"a.b-c") == replace(defaults, lease_ms=1_800_000)
    assert config.queue(b"other") == defaults
    assert config.queue(b"\xff\x00") is config.queue(b"other"), "no block of their own: one object"


def test_a_configuration_cannot_be_changed() -> None:
    config = load(None)

    with pytest.raises(ValidationError):
        config.server.port = 1
    with pytest.raises(FrozenInstanceError):
        config.queue(b"q").lease_ms = 1
    assert not hasattr(config.queue(b"q"), "__dict__")


def test_memory_queues_may_stand_beside_a_sync_that_is_the_default_of_the_others(
    file: Path,
) -> None:
    file.write_text('[queue_defaults]\nsync = "5s"\n[queues.metrics]\ndurable = false\n')

    assert load(file).queue(b"metrics").durable is False


# Precedence


def test_flags_win_over_the_environment_over_the_file_over_the_defaults(file: Path) -> None:
    file.write_text("[server]\nport = 1\nmax_queues = 1\nmax_connections = 1\n")
    environ = {"KESTRELPY_SERVER_PORT": "2", "KESTRELPY_SERVER_MAX_QUEUES": "2"}

    server = load(file, environ, port=3).server

    assert (server.port, server.max_queues, server.max_connections) == (3, 2, 1)
    assert server.max_open_reads == 1


def test_a_flag_that_is_none_was_not_given(file: Path) -> None:
    file.write_text("[server]\nport = 1\n")

    assert load(file, port=None).server.port == 1


def test_the_environment_speaks_in_words() -> None:
    config = load(
        None,
        {
            "KESTRELPY_SERVER_ALLOW_DELETE": "false",
            "KESTRELPY_SERVER_LOG_LEVEL": "error",
            "KESTRELPY_SERVER_IDLE_TIMEOUT": "none",
            "KESTRELPY_QUEUE_DEFAULTS_LEASE": "5m",
            "KESTRELPY_QUEUE_DEFAULTS_MAX_ITEMS": "12",
            "KESTRELPY_JOURNAL_SEGMENT_MAX": "1MiB",
            "KESTRELPY_JOURNAL_BATCH_MAX": "8192",
        },
    )

    assert (config.server.allow_delete, config.server.log_level) == (False, "error")
    assert config.server.idle_timeout_ms is None
    assert (config.queue(b"q").lease_ms, config.queue(b"q").max_items) == (300_000, 12)
    assert (config.journal.segment_max_bytes, config.journal.batch_max_bytes) == (1 << 20, 8192)


def test_names_in_the_environment_that_are_not_settings_are_left_alone() -> None:
    names = ["KESTRELPY_SERVER", "KESTRELPY_PORT", "KESTRELPY_SERVICE_HOST", "PATH", "KESTRELPY_"]

    assert load(None, dict.fromkeys(names, "127.0.0.1:22133")) == load(None)


def test_a_path_starts_at_its_file_and_other_paths_at_the_working_directory(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = file.parent / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    file.write_text('[server]\ndata_dir = "d"\nsocket = "s"\n[queues.jobs]\narchive_to = "a"\n')
    environ = {"KESTRELPY_SERVER_SOCKET": "s", "KESTRELPY_QUEUE_DEFAULTS_ARCHIVE_TO": "a"}

    assert load(file).server.data_dir == file.parent / "d"
    assert load(Path("../kestrelpy.toml")).server.data_dir == here / "../d"
    assert load(file, environ, data_dir=Path("d")).server.data_dir == here / "d"
    assert load(file, environ).server.socket == here / "s"
    assert load(file, environ).server.data_dir == file.parent / "d"
    assert load(file, environ).queue(b"jobs").archive_to == file.parent / "a"
    assert load(file, environ).queue(b"other").archive_to == here / "a"


def test_the_file_is_the_one_named_else_the_one_here_else_the_systems(tmp_path: Path) -> None:
    system = tmp_path / "etc" / "kestrelpy.toml"
    here = tmp_path / "kestrelpy.toml"

    assert find_config_file(None, tmp_path, system) is None
    system.parent.mkdir()
    system.touch()
    assert find_config_file(None, tmp_path, system) == system
    here.symlink_to("nowhere")
    assert find_config_file(None, tmp_path, system) == here, "broken, but meant: loading says so"
    assert find_config_file(Path("x.toml"), tmp_path, system) == tmp_path / "x.toml"
    assert find_config_file(tmp_path / "x", Path("/"), system) == tmp_path / "x"


# The file that ships


def uncommented(text: str) -> str:
    return re.sub(r"^#(?=[a-z_]+ = )", "", text, flags=re.MULTILINE)


def test_the_file_that_ships_means_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(TOP)

    assert load(SHIPPED) == load(None)
    assert load(SHIPPED).queues == {}


def test_every_key_is_documented_in_the_file_that_ships_with_its_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = uncommented(SHIPPED.read_text())
    (tmp_path / "all.toml").write_text(text)

    assert load(tmp_path / "all.toml") == load(None)
    assert {(s, key) for s, table in tomllib.loads(text).items() for key in table} == KEYS
    assert re.findall(r"^\n?#.*[^.:\n]\n[a-z]", text, flags=re.MULTILINE) == [], "ends its sentence"


def test_the_example_in_the_file_that_ships_can_be_used_as_it_is(tmp_path: Path) -> None:
    example = re.findall(r"^#     (.*)$", SHIPPED.read_text(), flags=re.MULTILINE)
    path = tmp_path / "example.toml"
    path.write_text("\n".join(example))

    config = load(path)

    assert config.queue(b"mail") == QueueSettings(lease_ms=300_000, max_attempts=5)
    assert config.queue(b"metrics").durable is False


def test_the_version_is_the_one_the_package_is_built_with() -> None:
    settings = tomllib.loads((TOP / "pyproject.toml").read_text())

    assert settings["project"]["dynamic"] == ["version"]
    assert TOP / settings["tool"]["hatch"]["version"]["path"] == Path(kestrelpy.__file__)
