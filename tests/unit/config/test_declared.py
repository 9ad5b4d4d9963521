"""Declarations: the file's models and sentences, one form for one meaning, precedence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrelpy.config import kinds
from kestrelpy.config.declared import as_toml, read_declaration, settings_in_force, stored_block
from kestrelpy.config.mistakes import ConfigError
from kestrelpy.config.queue_settings import SETTINGS, QueueBlock
from kestrelpy.config.settings import Config
from tests.unit.config.files import reader_of
from tests.unit.config.test_mistakes import WRONG_VALUES
from tests.unit.config.test_settings_anything import JUNK, toml

KEYS = [each.key for each in SETTINGS.values()]
OPERATORS = ("archive_to", "sliced", "sync_in_turn")
DECLARABLE = [key for key in KEYS if key not in OPERATORS]
WRONG = [
    (setting, allowed)
    for section, setting, allowed in WRONG_VALUES
    if section == "queue_defaults" and not setting.startswith(OPERATORS)
]


def read(text: str, config: Config | None = None) -> QueueBlock:
    return read_declaration(config or Config(), b"jobs", text.encode())


def refused(text: str | bytes, config: Config | None = None) -> str:
    data = text.encode() if isinstance(text, str) else text
    with pytest.raises(ConfigError) as refusal:
        read_declaration(config or Config(), b"jobs", data)
    return str(refusal.value)


def config_of(**sections: Any) -> Config:
    return Config.model_validate(sections)


# -- refusals -------------------------------------------------------------------------------


@pytest.mark.parametrize(("setting", "allowed"), WRONG)
def test_a_wrong_value_is_reported_with_its_key_and_the_allowed_values(
    setting: str, allowed: str
) -> None:
    assert refused(setting).startswith(f"declaration: {setting}, but must be ")
    assert allowed in refused(setting)


def test_an_unknown_key_is_reported_with_the_nearest_and_the_allowed_ones() -> None:
    allowed = f"allowed are {', '.join(DECLARABLE)}."
    assert refused('leese = "5m"') == (
        f'declaration: leese = "5m" is not a known key; the nearest is lease; {allowed}'
    )
    assert refused("port = 5") == (
        f"declaration: port = 5 is not a known key; it belongs in [server]; {allowed}"
    )
    assert refused('[queues.jobs]\nlease = "5m"').startswith("declaration: [queues] is not a known")


def test_all_mistakes_are_reported_but_only_the_first_of_very_many() -> None:
    assert len(refused("max_items = 0\nlease = 5\nsync = 1").split("\n")) == 3
    assert len(refused("".join(f"k{n} = 1\n" for n in range(5000))).split("\n")) == 10


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lease =", "declaration is not TOML: Invalid value (at line 1, column 8)."),
        (b"# \xc3\xbc\n\xff", "declaration is not UTF-8 (at line 2, column 1)."),
        ("a." * 30_000 + "b = 1", "declaration is not a table of settings: there are too many"),
        ('archive_to = "/tmp"', 'declaration: archive_to = "/tmp" is a path on the server and can'),
        ('archive_to = "none"', "declaration: archive_to"),
        ("sliced = true", "declaration: sliced = true is what the router goes by and cannot"),
        ("sync_in_turn = true", "declaration: sync_in_turn = true is a risk for all other queues"),
        (
            'durable = false\nsync = "never"\nconfirms = "synced"',
            "declaration is refused: sync and confirms cannot be set with durable = false: a qu",
        ),
    ],
)
def test_declarations_that_are_refused_as_a_whole(text: str | bytes, expected: str) -> None:
    assert refused(text).startswith(expected)


def test_a_comment_may_have_any_number_of_dots() -> None:
    assert as_toml(read("# " + "." * 5000 + "\nmax_items = 1")) == b"max_items = 1\n"


def test_a_declaration_is_refused_only_if_it_contradicts_the_file() -> None:
    in_memory = config_of(queue_defaults={"durable": False})
    expected = "declaration is refused: sync cannot be set with durable = false"
    assert refused('sync = "never"', in_memory).startswith(expected)
    read('sync = "never"\ndurable = true', in_memory)
    kept = config_of(queue_defaults={"durable": False}, queues={"jobs": {"durable": True}})
    read('sync = "never"', kept)
    synced = config_of(queues={"jobs": {"confirms": "synced"}})
    assert refused("durable = false", synced) == (
        "declaration is refused: [queues.jobs] confirms cannot be set with durable = false: "
        "a queue in memory has nothing on disk, leave one out."
    )


# -- one form for one meaning ------------------------------------------------------------------

MS = st.integers(1, 36_500 * 86_400_000)
DURATIONS = MS.map(lambda ms: f"{ms}ms")
COUNTS = st.integers(1, 2**53 - 1)
OF_KINDS: dict[object, st.SearchStrategy[Any]] = {
    kinds.Bytes: COUNTS | st.integers(1, 9).map(lambda n: f"{n}MiB"),
    kinds.BytesOrNone: COUNTS | st.just("none"),
    kinds.Confirms: st.sampled_from(["written", "synced"]),
    kinds.CountOrNone: COUNTS | st.just("none"),
    kinds.Dedupe: st.sampled_from(["id", "same body"]),
    kinds.ItemBytes: st.integers(1, 1 << 30),
    kinds.KeyFields: st.lists(
        st.sampled_from(["src_id", "/to/0", '"', "\\", "\u00e9", "\U0001f642"]), min_size=1,
        unique=True,
    ),
    kinds.KeyFormat: st.sampled_from(["json", "msgpack"]),
    kinds.KeyMatch: st.sampled_from(["pair", "any"]),
    kinds.KeyMissing: st.sampled_from(["reject", "free"]),
    kinds.Ms: DURATIONS,
    kinds.MsOrForever: DURATIONS | st.just("forever"),
    kinds.MsOrNone: DURATIONS | st.just("none"),
    kinds.MsOrZero: DURATIONS | st.just("0ms"),
    kinds.QueueOrNone: st.sampled_from(["old", "failed", "a.b", "none"]),
    kinds.Retaining: st.sampled_from(["none", "forever"])
    | DURATIONS
    | st.integers(1, 9).map(lambda n: f"{n}GiB"),
    kinds.SyncWord: st.sampled_from(["always", "never"]) | DURATIONS,
    kinds.Times: st.integers(1, 1000) | st.floats(1, 1000),
    kinds.Truth: st.booleans(),
}
BY_READER = {reader_of(kind): values for kind, values in OF_KINDS.items()}
# A value that other settings would refuse is left out.
VALUES = {
    each.key: BY_READER[reader_of(each.kind)]
    for each in SETTINGS.values()
    if each.key not in OPERATORS
} | {"durable": st.just(True)}


def without_contradictions(values: dict[str, Any]) -> dict[str, Any]:
    """Return the same without the settings that would need another one."""
    if not {"key", "key_format"} <= set(values):
        return {k: v for k, v in values.items() if k not in ("key", "key_format", "key_missing")}
    return values


@given(st.fixed_dictionaries({}, optional=VALUES), st.randoms())
def test_the_stored_form_has_the_declared_meaning_and_is_canonical(
    values: Any, random: Any
) -> None:
    values = without_contradictions(values)
    shuffled = list(values.items())
    random.shuffle(shuffled)
    block = read("\n\n".join(f"{key} = {toml(value)}  # why" for key, value in shuffled))
    text = as_toml(block)
    again, problems = stored_block(text)
    assert (again, again.model_fields_set, problems) == (block, block.model_fields_set, ())
    assert as_toml(read(text.decode())) == text
    assert block.model_fields_set == QueueBlock.model_validate(values).model_fields_set


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('lease = "60s"', 'lease = "1m"'),
        ("max_bytes = 1048576", 'max_bytes = "1MiB"'),
        ("max_items = 5\nlease = '5s'", "# five\nlease = '5s'\n\nmax_items = 5"),
        ("", "# nothing"),
    ],
)
def test_two_declarations_of_one_meaning_have_one_stored_form(one: str, other: str) -> None:
    assert as_toml(read(one)) == as_toml(read(other))


def test_a_default_that_is_declared_is_not_the_same_as_none_declared() -> None:
    assert as_toml(read('lease = "30m"')) == b'lease = "30m"\n'


@given(st.dictionaries(st.sampled_from(KEYS) | st.text("abc._ \n", max_size=5), JUNK, max_size=4))
def test_any_table_is_a_declaration_or_is_refused(table: dict[str, object]) -> None:
    text = "".join(f"{toml(key)} = {toml(value)}\n" for key, value in table.items())
    try:
        as_toml(read(text))
    except ConfigError as refusal:
        assert all(each.startswith("declaration") for each in refusal.problems)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_declaration_or_are_refused(data: bytes) -> None:
    try:
        read_declaration(Config(), b"jobs", data)
    except ConfigError as refusal:
        assert refusal.problems


# -- stored settings ------------------------------------------------------------------------


def test_usable_stored_settings_are_used_and_the_others_reported() -> None:
    block, problems = stored_block(b'lease = "5m"\nretained = "1d"\nmax_items = 0\n')
    assert as_toml(block) == b'lease = "5m"\n'
    assert [each.split(",")[0].split(";")[0] for each in problems] == [
        'declaration: retained = "1d" is not a known key',
        "declaration: max_items = 0",
    ]
    not_text = ("declaration is not UTF-8 (at line 1, column 1).",)
    assert stored_block(b"\xff") == (QueueBlock(), not_text)


# -- precedence --------------------------------------------------------------------------------


def test_the_files_block_overrides_declared_settings_and_those_the_defaults() -> None:
    config = config_of(
        queue_defaults={"lease": "1s", "max_items": 10, "max_age": "1h"},
        queues={"jobs": {"lease": "3s"}},
    )
    declared = read('lease = "2s"\nmax_items = 20', config)
    found = config.queue(b"jobs", declared)
    assert (found.lease_ms, found.max_items, found.max_age_ms) == (3000, 20, 3_600_000)
    other = config.queue(b"other", declared)
    assert (other.lease_ms, other.max_items) == (2000, 20)
    assert config.queue(b"jobs", QueueBlock()) == config.queue(b"jobs")
    words = {key: (value, source) for key, value, source in settings_in_force(
        config, b"jobs", declared
    )}  # fmt: skip
    assert list(words) == KEYS
    assert words["lease"] == ("3s", "file")
    assert words["max_items"] == ("20", "declared")
    assert words["max_age"] == ("1h", "queue_defaults")
    assert words["sync"] == ("always", "default")
    assert words["discard_old_when_full"] == ("false", "default")


def test_values_are_shown_as_people_write_them(tmp_path: Path) -> None:
    config = config_of(queue_defaults={"archive_to": str(tmp_path), "max_bytes": "2GiB"})
    block = read('sync = "500ms"\nconfirms = "synced"\nlease = "none"')
    words = {key: value for key, value, _ in settings_in_force(config, b"jobs", block)}
    assert words["archive_to"] == str(tmp_path)
    assert (words["sync"], words["confirms"], words["lease"]) == ("500ms", "synced", "none")
    assert words["max_bytes"] == "2GiB"


def test_a_list_is_shown_as_in_the_file() -> None:
    block = read('key_format = "json"\nkey = ["src_id", "/to/id"]\nkey_match = "any"')
    words = {key: value for key, value, _ in settings_in_force(Config(), b"jobs", block)}
    assert words["key"] == '["src_id", "/to/id"]'
    assert (words["key_format"], words["key_match"]) == ("json", "any")
    assert (words["key_unordered"], words["key_missing"]) == ("false", "reject")


def test_key_settings_that_need_each_other_may_come_from_two_sources() -> None:
    config = config_of(queue_defaults={"key_format": "json", "key": ["id"]})
    block = read('key = ["other"]', config)
    assert config.queue(b"jobs", block).key == ("other",)
    assert refused('key_format = "none"', config).startswith(
        "declaration is refused: key needs key_format"
    )


def test_a_contradiction_that_came_later_stops_nothing() -> None:
    """A reload does not know the declared settings: a queue in memory ignores `sync`."""
    declared = read('sync = "never"')
    assert not config_of(queues={"jobs": {"durable": False}}).queue(b"jobs", declared).durable
