"""A wrong configuration is reported: one sentence per mistake, with all that helps to correct
it."""

import re
from pathlib import Path

import pytest

from kestrelpy.config.queue_settings import SETTINGS
from kestrelpy.config.reading import load_config
from tests.unit.config.files import KEYS, load_text, problems, problems_of, reader_of

WRONG_VALUES = [
    ("server", 'host = ""', "a host name or an address"),
    ("server", 'host = "a b"', "a host name or an address"),
    ("server", "port = 65536", "a whole number from 0 to 65535"),
    ("server", "port = true", "a whole number from 0 to 65535"),
    ("server", 'port = "22133"', "a whole number from 0 to 65535"),
    ("server", "port = 1.5", "a whole number from 0 to 65535"),
    ("server", "text_port = 65536", 'a whole number from 0 to 65535, or "off"'),
    ("server", 'http_host = ""', "a host name or an address"),
    ("server", "http_port = 65536", 'a whole number from 0 to 65535, or "off"'),
    ("server", 'http_allowed_hosts = "a"', "a list of host names"),
    ("server", 'http_allowed_hosts = ["a b"]', "a list of host names"),
    ("server", 'default_project = ""', "a project of 1 to 256 characters"),
    ("server", "insecure = 1", "true or false"),
    ("server", 'tls_cert = ""', 'a path, or "none"'),
    ("server", 'tls_key = ""', 'a path, or "none"'),
    ("server", 'tls_client_ca = ""', 'a path, or "none"'),
    ("server", 'data_dir = ""', "a path"),
    ("server", "data_dir = 5", "a path"),
    ("server", 'data_dir = "postgresql://db/q"', "an engine is named by [fleet] engine"),
    ("server", 'data_dir = "postgresql:/db/q"', "an engine is named by [fleet] engine"),
    ("server", 'socket = "\\u0000"', "a path"),
    ("server", "max_connections = 0", "a whole number from 1 to 9007199254740991"),
    ("server", 'max_queues = "none"', "a whole number from 1 to 9007199254740991"),
    ("server", 'max_connection_memory = "none"', "a size from 1 to 9007199254740991"),
    ("server", "max_memory = 0", "a size from 1 to 9007199254740991"),
    ("server", 'min_disk_free = "5%"', "a size from 0 to 9007199254740991"),
    ("server", "idle_timeout = 60", 'say 60s or 60ms), or "none"'),
    ("server", "max_open_reads = -1", "a whole number from 1"),
    ("server", 'allow_delete = "true"', "true or false"),
    ("server", "allow_flush_all = 0", "true or false"),
    ("server", "allow_shutdown = 1", "true or false"),
    ("server", 'log_format = "xml"', "'text' or 'json'"),
    ("server", 'log_level = "INFO"', "'debug', 'info', 'warning' or 'error'"),
    ("fleet", 'engine = "mysql://db"', "an address of PostgreSQL"),
    ("fleet", 'name = "a b"', "a name of 1 to 128 printable ASCII characters"),
    ("fleet", 'address = ""', "a name of 1 to 128 printable ASCII characters"),
    ("fleet", 'takeover = "0s"', "a duration from 200ms to 1h"),
    ("fleet", 'takeover = "199ms"', "a duration from 200ms to 1h"),
    ("fleet", 'takeover = "61m"', "a duration from 200ms to 1h"),
    ("fleet", 'single = "maybe"', "true or false"),
    ("fleet", 'patroni = "db1:8008"', 'an address like "http://db1:8008"'),
    ("fleet", "slices = 65", "a whole number from 1 to 64"),
    ("fleet", "secret_file = 1", "a path"),
    ("fleet", 'groups = ["a+b"]', 'a list of patterns of queue names, for instance ["shop.*"]'),
    ("fleet", "slice = 0", "a whole number from 1 to 64"),
    ("journal", "segment_min = 16383", "from 16KiB to 1GiB"),
    ("journal", 'segment_max = "2GiB"', "from 16KiB to 1GiB"),
    ("journal", 'batch_max = "4KB"', "from 4KiB to 1GiB: a whole number of bytes, or one with"),
    ("queue_defaults", "lease = 60", "say 60s or 60ms"),
    ("queue_defaults", 'lease = "0s"', "a duration from 1ms to 36500d"),
    ("queue_defaults", 'lease = "36501d"', "a duration from 1ms to 36500d"),
    ("queue_defaults", "max_items = 0", 'from 1 to 9007199254740991, or "none"'),
    ("queue_defaults", "max_bytes = 1.5", "a size from 1 to 9007199254740991"),
    ("queue_defaults", 'max_item_size = "none"', "a size from 1 to 1GiB"),
    ("queue_defaults", 'max_memory = "none"', "a size from 1 to 9007199254740991: a whole number"),
    ("queue_defaults", "discard_old_when_full = 0", "true or false"),
    ("queue_defaults", 'max_age = "1.5h"', "a whole number with a unit ms, s, m, h or d"),
    ("queue_defaults", 'max_queue_age = "forever"', 'or "none"'),
    ("queue_defaults", 'sync = "none"', '"always", "never" or a duration'),
    ("queue_defaults", "sync = 5", '"always", "never" or a duration'),
    ("queue_defaults", 'sync_in_turn = "yes"', "true or false"),
    ("queue_defaults", 'confirms = "always"', '"written" or "synced"'),
    ("queue_defaults", 'durable = "false"', "true or false"),
    ("queue_defaults", "max_leased = 0", 'or "none"'),
    ("queue_defaults", 'retry_delay = 5', "a duration from 0ms to 36500d"),
    ("queue_defaults", "retry_backoff = 0.5", "a number from 1 to 1000, decimals allowed"),
    ("queue_defaults", 'retry_delay_max = "none"', "a duration from 1ms to 36500d"),
    ("queue_defaults", 'max_attempts = "never"', 'a whole number from 1 to 9007199254740991, or "'),
    ("queue_defaults", 'key_format = "xml"', '"json", "msgpack", or "none"'),
    ("queue_defaults", 'key = "src_id"', 'a list of 1 to 16 different names or JSON pointers of'),
    ("queue_defaults", 'key_match = "all"', '"pair" or "any"'),
    ("queue_defaults", "key_unordered = 1", "true or false"),
    ("queue_defaults", "key_missing = false", '"reject" or "free"'),
    ("queue_defaults", 'expire_to = "a b"', "a queue's name (1 to 128 printable ASCII characters"),
    ("queue_defaults", 'dead_letter_to = "a/b"', 'no blank, / or +), or "none"'),
    ("queue_defaults", 'dead_letter_age = 5', 'a duration from 1ms to 36500d'),
    ("queue_defaults", 'dedupe = "body"', '"id" or "same body"'),
    ("queue_defaults", 'dedupe_window = "none"', 'or "forever"'),
    ("queue_defaults", "scope_window = 30", "a duration from 1ms to 36500d"),
    ("queue_defaults", "retain = 5", 'a duration (say "7d"), a size with a unit (say "10GiB"), '),
    ("queue_defaults", "fanout_only = 1", "true or false"),
    ("queue_defaults", 'fanout_create = "no"', "true or false"),
    ("queue_defaults", 'archive_to = ""', 'a path, or "none"'),
    ("queue_defaults", 'sliced = "yes"', "true or false"),
    ("queues.jobs", "max_attempts = 0", "a whole number from 1"),
]


@pytest.mark.parametrize(("section", "setting", "allowed"), WRONG_VALUES)
def test_a_wrong_value_is_reported_with_file_key_and_allowed_values(
    file: Path, section: str, setting: str, allowed: str
) -> None:
    file.write_text(f"[{section}]\n{setting}\n")

    problem = problems(file)

    assert problem.startswith(f"{file}: [{section}] {setting}, but must be ")
    assert allowed in problem
    assert problem.endswith(".")
    assert "\n" not in problem


@pytest.mark.parametrize(
    "text",
    [
        '[fleet]\nengine = "mysql://kestrel:sekret@db"',
        '[fleet]\nengine = "postgresql://kestrel:se@sekret@db"',
        '[fleet]\nengine = ["postgresql://kestrel:sekret@db"]',
        f'[fleet]\nengine = "postgresql://kestrel:sekret{"x" * 99}@d b"',
        '[fleet]\nengin = "postgresql://kestrel:sekret@db?password=sekret"',
        '[server]\nengine = "postgresql://kestrel:sekret@db"',
        '[fleet]\nengine = "host=db password=sekret"',
    ],
)
def test_a_password_is_not_in_the_report(file: Path, text: str) -> None:
    file.write_text(text)

    problem = problems(file)

    assert "engin" in problem
    assert "sekret" not in problem


def test_every_setting_of_the_server_has_a_wrong_value_in_the_table_above() -> None:
    covered = {(section, text.split()[0]) for section, text, _ in WRONG_VALUES}

    assert {key for key in KEYS if key[0] != "queue_defaults"} <= covered
    assert covered - {("queues.jobs", "max_attempts")} <= KEYS


def test_every_kind_of_a_setting_of_a_queue_has_a_wrong_value_in_the_table_above() -> None:
    covered = {text.split()[0] for section, text, _ in WRONG_VALUES if section == "queue_defaults"}

    readers = {reader_of(each.kind) for each in SETTINGS.values()}
    assert {reader_of(each.kind) for each in SETTINGS.values() if each.key in covered} == readers


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[server]\nprot = 1", "[server] prot = 1 is not a known key; the nearest is port; "),
        ("[journal]\nsegmentmax = 1", "segmentmax = 1 is not a known key; the nearest is segment_"),
        ("[queue_defaults]\nleese = 1", "leese = 1 is not a known key; the nearest is lease; "),
        (
            "[queues.a]\nmax_item = 1",
            "[queues.a] max_item = 1 is not a known key; the nearest is m",
        ),
        (
            "[server]\nlease = '5m'",
            'lease = "5m" is not a known key; it belongs in [queue_defaults]',
        ),
        ("port = 5", "port = 5 is not a known key; it belongs in [server]; allowed are server"),
        ("[sever]", "[sever] is not a known key; the nearest is server; allowed are ser"),
        ("[server]\nlease_ms = 5", "lease_ms = 5 is not a known key"),
        ("[queue_defaults]\nlease_ms = 5", "lease_ms = 5 is not a known key; the nearest is lease"),
        ("[server]\nzzzzzz = 5", "[server] zzzzzz = 5 is not a known key; allowed are host, port"),
        ("[server]\n'a\\nb' = {}", '[server."a\\\\nb"] is not a known key; allowed are host, po'),
    ],
)
def test_an_unknown_key_is_reported_with_the_nearest_and_the_allowed_ones(
    file: Path, text: str, problem: str
) -> None:
    file.write_text(text)

    assert problems(file).startswith(f"{file}: ")
    assert problem in problems(file)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "tab\t", "ü", "x" * 129])
def test_an_invalid_name_of_a_queue_is_reported(file: Path, name: str) -> None:
    file.write_text(f'[queues."{name}"]\n', encoding="utf-8")

    assert problems(file).startswith(f"{file}: [queues.")
    assert "a queue's name must be 1 to 128 printable ASCII characters" in problems(file)


def test_a_queue_may_have_any_name_the_wire_allows(file: Path) -> None:
    printable = "".join(map(chr, range(0x21, 0x7F)))
    names = ["x" * 128, re.sub(r'[/+"\\]', "", printable), "queues"]
    file.write_text("".join(f'[queues."{name}"]\nlease = "1s"\n' for name in names))

    config = load_config(file, environ={}, overrides={})

    assert {config.queue(name.encode()).lease_ms for name in names} == {1000}


@pytest.mark.parametrize("text", ["server = 5", "queues = 5", "[queues]\njobs = 5", "[[journal]]"])
def test_a_section_that_is_no_table_is_reported(file: Path, text: str) -> None:
    file.write_text(text)

    assert problems(file).endswith(", but must be a table.")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '[queues.a]\ndurable = false\nsync = "never"',
            "[queues.a] sync cannot be set with durable = false: a queue in memory has nothing",
        ),
        (
            '[queue_defaults]\ndurable = false\nsync = "always"\nconfirms = "written"',
            "[queue_defaults] sync and confirms cannot be set with durable = false: a queue in",
        ),
        (
            '[queue_defaults]\ndurable = false\n[queues.a]\nsync = "always"',
            "[queues.a] sync cannot be set with durable = false: a queue in memory has nothing",
        ),
        (
            '[queues.a]\ndurable = false\nsliced = true',
            "[queues.a] sliced = true: a sliced queue is on disk, leave out durable = false",
        ),
        (
            '[queues.a]\nkey_match = "any"\nsliced = true',
            "[queues.a] sliced = true: items that share one value may be in two slices",
        ),
        (
            '[queues.a]\nsliced = true\n[queues."a+b"]',
            "[queues.a] is sliced, and a sliced queue has no children",
        ),
        (
            '[queues.a]\ndurable = false\narchive_to = "old"',
            "[queues.a] archive_to cannot be set with durable = false: a queue in memory has no",
        ),
        (
            '[queues.a]\nkey = ["id"]',
            '[queues.a] key needs key_format, "json" or "msgpack": how messages are read',
        ),
        (
            '[queue_defaults]\nkey_format = "json"',
            "[queue_defaults] key_format needs key: the fields that make the key of a ",
        ),
        (
            '[queues.a]\nkey_missing = "free"\nkey_match = "any"',
            '[queues.a] key_missing = "free" needs key: without it every message is free',
        ),
        (
            '[queue_defaults]\nkey_format = "json"\nkey = ["id"]\n[queues.a]\nkey_format = "none"',
            "[queues.a] key needs key_format",
        ),
        (
            '[journal]\nsegment_min = "1MiB"\nsegment_max = "512KiB"',
            "[journal] segment_min = 1MiB must be at most segment_max = 512KiB.",
        ),
        (
            '[journal]\nsegment_max = "32KiB"',
            "[journal] segment_min = 64KiB must be at most segment_max = 32KiB.",
        ),
        ('[fleet]\nname = "a"', "[fleet] name without engine: this process would serve local"),
        ('[fleet]\nsingle = true\ntakeover = "5s"', "[fleet] takeover and single without engine:"),
    ],
)
def test_settings_that_contradict_each_other_are_reported(
    file: Path, text: str, problem: str
) -> None:
    file.write_text(text)

    assert problems(file).startswith(f"{file}: {problem}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("text_port = 22133", "port and text_port are both 22133"),
        ("port = 2223", "port and http_port are both 2223"),
        ("text_port = 2223", "text_port and http_port are both 2223"),
        ('text_port = 2223\nhttp_host = "::"', "text_port and http_port are both 2223"),
        ('text_port = 2223\nhost = "0.0.0.0"', "text_port and http_port are both 2223"),
    ],
)
def test_two_listeners_on_one_port_are_reported(file: Path, text: str, problem: str) -> None:
    assert f"{problem}: each listener needs its own" in problems_of(file, f"[server]\n{text}\n")


@pytest.mark.parametrize(
    "text",
    [
        "port = 0\ntext_port = 0\nhttp_port = 0",
        'text_port = 2223\nhttp_host = "127.0.0.2"',
        'text_port = 2223\nhttp_port = "off"',
    ],
)
def test_listeners_on_other_addresses_and_any_free_ports_are_allowed(
    file: Path, text: str
) -> None:
    assert load_text(file, f"[server]\n{text}\n").server.text_port is not None


def test_a_contradiction_between_two_sources_names_both(file: Path) -> None:
    file.write_text('[journal]\nsegment_min = "1MiB"\n')
    environ = {"KESTRELPY_JOURNAL_SEGMENT_MAX": "64KiB", "KESTRELPY_JOURNAL_BATCH_MAX": "1MiB"}

    assert problems(file, environ).startswith(
        f"{file} and environment variable KESTRELPY_JOURNAL_SEGMENT_MAX: [journal] segment_min ="
    )


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("SERVER_PORT", "x", '[server] port = "x", but must be a whole number from 0 to 65535'),
        ("SERVER_PORT", "", '[server] port = "", but must be a whole number from 0 to 65535'),
        ("SERVER_ALLOW_DELETE", "yes", '[server] allow_delete = "yes", but must be true or false.'),
        ("QUEUE_DEFAULTS_LEASE", "60", '[queue_defaults] lease = "60", but must be a duration'),
        ("SERVER_PROT", "1", '[server] prot = "1" is not a known key; the nearest is port; '),
        ("SERVER_HTTP_PORT", "x", '[server] http_port = "x", but must be a whole number from 0 to'),
        ("QUEUES_JOBS_LEASE", "5m", '[queues] jobs_lease = "5m", but must be a table.'),
    ],
)
def test_a_mistake_in_the_environment_names_the_variable(
    name: str, text: str, problem: str
) -> None:
    problem = f"environment variable KESTRELPY_{name}: {problem}"

    assert problems(None, {f"KESTRELPY_{name}": text}).startswith(problem)


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("port", 70000, "flag --port: [server] port = 70000, but must be a whole number from 0 to"),
        ("data_dir", "", 'flag --data-dir: [server] data_dir = "", but must be a path; '
     "an engine is named by [fleet] engine."),
        ("http_port", -1, "flag --http-port: [server] http_port = -1, but must be a whole number"),
    ],
)
def test_a_mistake_in_a_flag_names_the_flag(key: str, value: object, problem: str) -> None:
    assert problems(None, {}, **{key: value}).startswith(problem)


def test_all_mistakes_are_reported_at_once_each_on_its_own_line(file: Path) -> None:
    file.write_text("[server]\nport = -1\nprot = 1\n[queues.a]\nlease = 1\n")

    lines = problems(file, {"KESTRELPY_SERVER_MAX_QUEUES": "0"}, max_connections=0).split("\n")

    keys = ["prot = 1", "port = -1", "max_connections = 0", "max_queues = ", "lease = 1"]
    assert len(lines) == len(keys)
    assert all(key in line for key, line in zip(keys, lines, strict=True))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"[server]\nport = \n", "is not TOML: Invalid value (at line 2, column 8)."),
        (b"[server]\nhost = 'x", 'is not TOML: Expected "\'" (at line 2, column 10).'),
        (b"a\n", "is not TOML: Expected '=' after a key in a key/value pair (at line 1, column 2)"),
        (b"[server]\nport = 1\nport = 2\n", "is not TOML: Cannot overwrite a value (at line 3, c"),
        (b'[server]\nhost = "\xc3\xbc\xff"', "is not UTF-8 (at line 2, column 10)."),
        (b"[server]\nport = " + b"9" * 5000, "is not TOML: Exceeds the limit"),
        (b"a = " + b"[" * 100_000, "is not TOML: maximum recursion depth exceeded"),
    ],
)
def test_broken_toml_is_reported_with_file_line_and_column(
    file: Path, data: bytes, problem: str
) -> None:
    file.write_bytes(data)

    assert problems(file).startswith(f"{file}: {problem}")
    assert "\n" not in problems(file)


def test_an_unreadable_file_is_reported(file: Path) -> None:
    assert problems(file) == f"{file}: cannot be read: No such file or directory."
    assert problems(file.parent) == f"{file.parent}: cannot be read: Is a directory."


def test_every_message_can_be_printed(tmp_path: Path) -> None:
    text = problems(tmp_path / "a\nb\udcff.toml")

    assert text.encode() == f"{tmp_path}/a\\nb\\udcff.toml: cannot be read: No such ".encode() + (
        b"file or directory."
    )
