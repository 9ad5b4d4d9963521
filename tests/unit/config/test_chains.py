"""Where queues send their items: a cycle is refused, with every queue on it named."""

from pathlib import Path

import pytest

from kestrelpy.config.chains import find_cycle
from kestrelpy.config.mistakes import ConfigError
from kestrelpy.config.queue_settings import QueueBlock
from kestrelpy.config.settings import Config
from kestrelpy.core.broker import Broker
from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.log.memory_log import MemoryLog
from kestrelpy.errors import ClientError
from kestrelpy.server.policies import Policies
from tests.unit.config.files import load_text, problems_of


def test_a_chain_that_ends_is_taken(file: Path) -> None:
    config = load_text(
        file,
        """
        [queue_defaults]
        dead_letter_to = "failed"
        [queues.failed]
        dead_letter_to = "none"
        expire_to = "old"
        [queues.old]
        dead_letter_to = "none"
        """,
    )
    assert config.queue(b"jobs").dead_letter_to == "failed"
    assert config.queue(b"failed").dead_letter_to is None
    assert config.queue(b"failed").expire_to == "old"


def test_a_queue_that_sends_to_itself_is_refused(file: Path) -> None:
    assert problems_of(file, '[queues.jobs]\ndead_letter_to = "jobs"\n') == (
        f'{file}: [queues.jobs] dead_letter_to = "jobs", but that makes a cycle: jobs -> jobs.'
    )


def test_a_cycle_of_both_settings_is_refused_with_its_queues(file: Path) -> None:
    text = (
        '[queues.a]\ndead_letter_to = "b"\n[queues.b]\nexpire_to = "c"\n'
        '[queues.c]\nexpire_to = "d"\ndead_letter_to = "a"\n'
    )
    assert problems_of(file, text) == (
        f'{file}: [queues.a] dead_letter_to = "b", but that makes a cycle: a -> b -> c -> a.'
    )


def test_a_target_of_all_queues_that_has_it_too_is_refused_with_the_remedy(file: Path) -> None:
    assert problems_of(file, '[queue_defaults]\ndead_letter_to = "failed"\n') == (
        f'{file}: [queue_defaults] dead_letter_to = "failed", but that makes a cycle: '
        "failed -> failed (the defaults apply to this queue as well, unless "
        '[queues.failed] says dead_letter_to = "none").'
    )


def test_a_child_that_sends_to_where_its_items_come_from_is_refused(file: Path) -> None:
    assert problems_of(file, '[queues."o+a"]\nexpire_to = "o"\n') == (
        f'{file}: [queues."o+a"] expire_to = "o", but that makes a cycle: o+a -> o -> o+a.'
    )
    text = '[queues.o]\ndead_letter_to = "p"\n[queues."p+a"]\ndead_letter_to = "o"\n'
    assert problems_of(file, text) == (
        f'{file}: [queues.o] dead_letter_to = "p", but that makes a cycle: '
        "o -> p -> p+a -> o."
    )


def test_items_that_the_defaults_send_to_the_parent_end_in_a_child() -> None:
    blocks = {"failed": {"dead_letter_to": "none"}}
    config = Config.model_validate(
        {"queue_defaults": {"dead_letter_to": "failed"}, "queues": blocks}
    )
    assert config.queue(b"failed+audit").dead_letter_to is None
    assert config.queue(b"jobs+audit").dead_letter_to == "failed"


def test_a_chain_may_be_long() -> None:
    blocks = {f"q{n}": {"dead_letter_to": f"q{n + 1}"} for n in range(5000)}
    config = Config.model_validate({"queues": blocks})
    assert find_cycle(config, [b"q0"], lambda _: None) is None

    config = Config.model_validate({"queues": blocks | {"q5000": {"expire_to": "q4998"}}})
    cycle = find_cycle(config, [b"q0"], lambda _: None)
    assert cycle is not None
    assert cycle.path == "q4998 -> q4999 -> q5000 -> q4998"


def declared(**blocks: str) -> Policies:
    """Return the defaults, and queues with these declared settings."""
    policies = Policies(Config())
    said = {name.encode(): text.encode() for name, text in blocks.items()}
    policies.declared_of = lambda name: said.get(name, b"")
    return policies


def declarations(broker: Broker) -> tuple[list[bytes], dict[bytes, bytes]]:
    """Return the existing queues, and the declared settings of each."""
    return list(broker.queues), {name: queue.declared for name, queue in broker.queues.items()}


def test_a_declaration_that_makes_a_cycle_is_refused_with_its_queues() -> None:
    policies = declared(b='dead_letter_to = "c"\n', c='expire_to = "a"\n')
    with pytest.raises(ClientError) as refusal:
        policies.declaration(b"a", b'dead_letter_to = "b"')
    assert str(refusal.value) == (
        "declaration: dead_letter_to makes a cycle: a -> b -> c -> a."
    )
    assert policies.declaration(b"d", b'dead_letter_to = "b"') == b'dead_letter_to = "b"\n'


def test_a_declaration_may_not_send_to_its_own_queue() -> None:
    with pytest.raises(ClientError, match="cycle: a -> a"):
        declared().declaration(b"a", b'expire_to = "a"')


def test_a_file_that_makes_a_cycle_with_declared_settings_is_refused() -> None:
    policies = declared(b='dead_letter_to = "a"\n')
    broker = Broker(policies.of, lambda _: MemoryLog(), ClockOffset(0), 9)
    policies.declared_of = broker.declared_of
    broker.create(b"b", 0, b'dead_letter_to = "a"\n')
    policies.refuse_cycles(Config(), *declarations(broker))

    config = Config.model_validate({"queues": {"a": {"expire_to": "b"}}})
    with pytest.raises(ConfigError) as refusal:
        policies.refuse_cycles(config, *declarations(broker))
    assert str(refusal.value) == (
        "dead_letter_to of queue b makes a cycle, with the declared settings: "
        "b -> a -> b."
    )


def test_an_alias_to_which_a_queue_was_declared_to_send_is_refused() -> None:
    policies = declared()
    broker = Broker(policies.of, lambda _: MemoryLog(), ClockOffset(0), 9)
    policies.declared_of = broker.declared_of
    broker.create(b"a", 0, b'dead_letter_to = "b"\nexpire_to = "c"\n')
    policies.refuse_aliases(Config(), *declarations(broker))

    aliases = {"b": {"to": ["d"]}, "c": {"to": ["d"]}}
    file = {"aliases": aliases, "queues": {"a": {"expire_to": "none"}}}  # the file overrides it
    with pytest.raises(ConfigError) as refusal:
        policies.refuse_aliases(Config.model_validate(file), *declarations(broker))
    assert str(refusal.value) == (
        "dead_letter_to of queue a leads to an alias, with the declared settings: a -> b."
    )


def test_a_setting_of_the_file_can_break_a_declared_cycle() -> None:
    config = Config.model_validate({"queues": {"a": {"dead_letter_to": "none"}}})
    block = QueueBlock.model_validate({"dead_letter_to": "a"})
    assert find_cycle(config, [b"a"], lambda name: block) is None
