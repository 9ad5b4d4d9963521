"""Settings as a file has them, and as clients declared them, to policies as the core knows them.

One rule: nothing is decided here; every default stands in the configuration.
"""

from __future__ import annotations

from collections.abc import Callable

from kestrelpy.config import (
    Config,
    ConfigError,
    QueueBlock,
    QueueSettings,
    as_toml,
    find_circle,
    kept_block,
    read_declaration,
    settings_in_force,
)
from kestrelpy.core.broker import Broker
from kestrelpy.core.key_rule import KeySettings
from kestrelpy.core.policy import Policy
from kestrelpy.errors import ClientError
from kestrelpy.message_keys import MessageKey


class Policies:
    """The configuration, as the core and the conversations ask for it."""

    def __init__(self, config: Config) -> None:
        self.config = config  # another one after a reload
        # What clients declared for a queue that is there.
        self.declared_of: Callable[[bytes], bytes] = lambda name: b""

    def of(self, name: bytes, declared: bytes) -> Policy:
        """The rules of a queue for which this was declared."""
        return _policy(self.config, name, declared)

    def take(self, config: Config, broker: Broker) -> None:
        """Go by this one from now on, or raise ConfigError: a key stays as it was made."""
        problems = [
            f"queue {name.decode('ascii', 'replace')}: key settings cannot change while it holds "
            "items: they can when it is empty."
            for name, queue in sorted(broker.queues.items())
            if queue.reader.live
            and _policy(config, name, queue.declared).keys != queue.policy.keys
        ]
        if problems:
            raise ConfigError(problems)
        self.config = config

    def put_in_force(self, broker: Broker, now_ms: int) -> None:
        """Every queue goes by the configuration as it is now."""
        for queue in broker.queues.values():
            queue.set_policy(self.of(queue.name, queue.declared), now_ms)

    def declaration(self, name: bytes, body: bytes) -> bytes:
        """What a client declares for a queue, in the form that is kept; raises ClientError."""
        try:
            block = read_declaration(self.config, name, body)
            if block.expire_to or block.dead_letter_to:
                self._refuse_circle(name, block)
            return as_toml(block)
        except ConfigError as error:
            more = len(error.problems) - 1
            rest = f" And {more} more." if more else ""
            raise ClientError(error.problems[0] + rest) from None

    def _refuse_circle(self, name: bytes, block: QueueBlock) -> None:
        circle = find_circle(
            self.config, [name], lambda each: block if each == name else self._declared(each)
        )
        if circle is not None:
            raise ConfigError([f"declaration: {circle.key} leads in a circle: {circle.path}."])

    def refuse_circles(self, config: Config, broker: Broker) -> None:
        """Raises ConfigError where this file, with what was declared, makes a circle."""
        circle = find_circle(config, broker.queues, self._declared)
        if circle is not None:
            raise ConfigError([
                f"{circle.key} of queue {circle.names[0]} leads in a circle, with what was "
                f"declared for queues: {circle.path}."
            ])  # fmt: skip

    def _declared(self, name: bytes) -> QueueBlock | None:
        declared = self.declared_of(name)
        return kept_block(declared)[0] if declared else None

    def settings(self, name: bytes, declared: bytes) -> list[tuple[str, str, str]]:
        """The settings in force for a queue, each with its value and where that comes from."""
        return settings_in_force(self.config, name, kept_block(declared)[0])

    def notes(self, broker: Broker) -> list[str]:
        """What was declared for queues and this version cannot use."""
        return [
            f"queue {name.decode('ascii', 'replace')}: passed over: {problem}"
            for name, queue in sorted(broker.queues.items())
            if queue.declared
            for problem in kept_block(queue.declared)[1]
        ]


def _policy(config: Config, name: bytes, declared: bytes) -> Policy:
    block = kept_block(declared)[0] if declared else None
    return policy_of(config.queue(name, block))


def policy_of(settings: QueueSettings) -> Policy:
    """A queue's settings as the core knows them."""
    sync = settings.sync
    return Policy(
        lease_ms=settings.lease_ms,
        max_items=settings.max_items,
        max_bytes=settings.max_bytes,
        max_item_bytes=settings.max_item_bytes,
        discard_old_when_full=settings.discard_old_when_full,
        max_age_ms=settings.max_age_ms,
        max_queue_age_ms=settings.max_queue_age_ms,
        sync_ms=sync if isinstance(sync, int) else (0 if sync == "always" else -1),
        confirms_synced=settings.confirms_synced,
        durable=settings.durable,
        max_leased=settings.max_leased,
        max_attempts=settings.max_attempts,
        retry_delay_ms=settings.retry_delay_ms,
        retry_backoff=settings.retry_backoff,
        retry_delay_max_ms=settings.retry_delay_max_ms,
        expire_to=(settings.expire_to or "").encode(),
        dead_letter_to=(settings.dead_letter_to or "").encode(),
        max_memory_bytes=settings.max_memory_bytes,
        keys=_keys_of(settings),
        archive_to=str(settings.archive_to or ""),
    )


def _keys_of(settings: QueueSettings) -> KeySettings:
    rule = None
    if settings.key_format is not None and settings.key:
        rule = MessageKey(settings.key_format, settings.key, settings.key_is_free)
    return KeySettings(rule, settings.key_matches_any, settings.key_unordered)
