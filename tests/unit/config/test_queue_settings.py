"""The settings of a queue; fan-out children: limits of their own over the settings of
their queue."""

from pathlib import Path

import pytest

from kestrelpy.config.queue_settings import DEFAULTS, SETTINGS, SHARED, QueueBlock
from kestrelpy.server.policies import Policies
from tests.unit.config.files import load, load_text, problems_of


def complaint(file: Path, text: str) -> str:
    return problems_of(file, text).replace(f"{file}: ", "")


def test_a_child_has_limits_of_its_own_and_shares_the_settings_of_the_log(file: Path) -> None:
    file.write_text(
        """
        [queue_defaults]
        lease = "1m"
        [queues.orders]
        lease = "2m"
        max_items = 5
        max_item_size = "1KiB"
        retain = "7d"
        [queues."orders+audit"]
        lease = "3m"
        discard_old_when_full = true
        """
    )
    config = load(file)
    policies = Policies(config)

    audit = policies.of(b"orders+audit", b"")
    other = policies.of(b"orders+other", b"")

    assert (audit.lease_ms, audit.max_items, audit.discard_old_when_full) == (180_000, None, True)
    assert (audit.max_item_bytes, audit.retain_ms) == (1024, 7 * 86_400_000)
    assert (other.lease_ms, other.max_items, other.max_item_bytes) == (60_000, None, 1024)
    assert policies.of(b"orders", b"").children == (b"audit",)
    assert policies.of(b"orders+audit", b"").children == ()


def test_declared_settings_of_the_log_apply_to_children() -> None:
    policies = Policies(load(None))

    audit = policies.of(b"orders+audit", b'max_items = 5\nretain = "forever"\n')

    assert (audit.max_items, audit.retain_ms, audit.retains) == (None, None, True)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a+b+c", "a child has no children: a child's name is <queue>+<child>, with one +."),
        ("+b", "a + names a fan-out child, <queue>+<child>, with a name on either side of it."),
        ("a+", "a + names a fan-out child, <queue>+<child>, with a name on either side of it."),
    ],
)
def test_an_invalid_name_of_a_child_is_reported(file: Path, name: str, why: str) -> None:
    said = complaint(file, f'[queues."{name}"]\nlease = "1s"\n')

    assert said == f'[queues."{name}"], but {why}'


def test_a_setting_of_the_queue_in_a_child_is_reported(file: Path) -> None:
    said = complaint(file, '[queues."a+b"]\nretain = "1d"\n')

    assert said.startswith(
        '[queues."a+b"] retain = "1d" belongs in [queues.a], whose items this child reads; '
        "allowed are lease, max_items, max_bytes, max_memory, discard_old_when_full, "
    )


def test_an_unknown_option_of_a_child_is_reported_with_the_nearest(file: Path) -> None:
    said = complaint(file, '[queues."a+b"]\nleese = "1d"\n')

    assert said.startswith(
        '[queues."a+b"] leese = "1d" is not a known key; the nearest is lease; allowed are lease, '
    )


def test_every_shared_setting_is_one() -> None:
    assert set(QueueBlock.model_fields) > SHARED


def test_a_block_that_says_nothing_names_a_child(file: Path) -> None:
    config = load_text(file, '[queues."o+a"]\n[queues."o+b"]\nlease = "1s"\n')
    assert config.children(b"o") == (b"a", b"b")


NAMES = (  # noqa: SIM905
    "lease max_items max_bytes max_item_size max_memory discard_old_when_full max_age "
    "max_queue_age sync sync_in_turn confirms durable max_leased max_attempts retry_delay "
    "retry_backoff retry_delay_max key_format key key_match key_unordered key_missing expire_to "
    "dead_letter_to dead_letter_age dedupe dedupe_window scope_window retain fanout_only "
    "fanout_create archive_to sliced"
).split()


def test_names_of_settings_stay_as_listed_and_new_ones_come_last() -> None:
    assert [each.key for each in SETTINGS.values()][: len(NAMES)] == NAMES


def test_a_block_has_a_field_of_each_setting_with_its_default() -> None:
    block = QueueBlock()
    assert {name: getattr(block, name) for name in QueueBlock.model_fields} == {
        name: getattr(DEFAULTS, name) for name in SETTINGS
    }
    assert not block.model_fields_set
