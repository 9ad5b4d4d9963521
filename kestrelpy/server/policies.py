"""Settings as a file has them, and as clients declared them, to policies as the core knows them.

One rule: nothing is decided here; every default stands in the configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from functools import lru_cache
from typing import Final

from kestrelpy.config.chains import find_circle, targets_of
from kestrelpy.config.declared import as_toml, kept_block, read_declaration, settings_in_force
from kestrelpy.config.mistakes import ConfigError
from kestrelpy.config.settings import Config, QueueBlock, QueueSettings
from kestrelpy.core.broker import Broker
from kestrelpy.core.key_rule import KeySettings
from kestrelpy.core.policy import Policy
from kestrelpy.errors import ClientError
from kestrelpy.message_keys import MessageKey

# Queues are many, and most have the same settings: these share one policy.
_POLICIES_KEPT: Final = 1024


class Policies:
    """The configuration, as the core and the conversations ask for it."""

    def __init__(self, config: Config) -> None:
        self.config = config  # another one after a reload
        # What clients declared for a queue that is there.
        self.declared_of: Callable[[bytes], bytes] = lambda name: b""

    def of(self, name: bytes, declared: bytes) -> Policy:
        """The rules of a queue for which this was declared."""
        return policy_in(self.config, name, declared)

    def name_aliases(self, broker: Broker) -> None:
        """Those of the configuration, and no others."""
        broker.aliases = {
            name.encode(): tuple(target.encode() for target in alias.to)
            for name, alias in self.config.aliases.items()
        }

    def declaration(self, name: bytes, body: bytes) -> bytes:
        """What a client declares for a queue, in the form that is kept; raises ClientError."""
        try:
            block = read_declaration(self.config, name, body)
            if block.expire_to or block.dead_letter_to:
                self._refuse_circle(name, block)
                self._refuse_alias(block)
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

    def _refuse_alias(self, block: QueueBlock) -> None:
        for key in ("expire_to", "dead_letter_to"):
            if (target := getattr(block, key)) in self.config.aliases:
                raise ConfigError([f"declaration: {key} must name a queue: {target} is an alias."])

    def refuse_alias_names(self, config: Config, queues: Container[bytes]) -> None:
        """Raises ConfigError where an alias has the name of a queue that is there."""
        problems = [
            f"[aliases.{name}] has the name of a queue that is there: delete the queue first."
            for name in config.aliases
            if name.encode() in queues
        ]
        if problems:
            raise ConfigError(problems)

    def refuse_aliases(
        self, config: Config, names: Iterable[bytes], declared_of: Mapping[bytes, bytes]
    ) -> None:
        """Raises ConfigError where items of a queue go to an alias by what was declared for it."""
        if not config.aliases:
            return
        problems = [
            f"{key} of queue {name.decode('ascii', 'replace')} leads to an alias, with what was "
            f"declared for queues: {name.decode('ascii', 'replace')} -> {target}."
            for name in sorted(names)
            if declared_of.get(name)
            for key, target in targets_of(config, name, _block(declared_of, name))
            if target in config.aliases
        ]
        if problems:
            raise ConfigError(problems)

    def refuse_circles(
        self, config: Config, names: Iterable[bytes], declared_of: Mapping[bytes, bytes]
    ) -> None:
        """Raises ConfigError where this file, with what was declared, makes a circle that can be
        reached from one of these queues."""
        circle = find_circle(config, names, lambda name: _block(declared_of, name))
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


def _block(declared_of: Mapping[bytes, bytes], name: bytes) -> QueueBlock | None:
    declared = declared_of.get(name)
    return kept_block(declared)[0] if declared else None


def policy_in(config: Config, name: bytes, declared: bytes) -> Policy:
    """The rules that a configuration makes for a queue for which this was declared."""
    block = kept_block(declared)[0] if declared else None
    return policy_of(config.queue(name, block), config.children(name))


@lru_cache(maxsize=_POLICIES_KEPT)
def policy_of(settings: QueueSettings, children: tuple[bytes, ...] = ()) -> Policy:
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
        dedupe_window_ms=settings.dedupe_window_ms,
        scope_window_ms=settings.scope_window_ms,
        retain_ms=settings.retain.ms,
        retain_bytes=settings.retain.size_bytes,
        fanout_only=settings.fanout_only,
        fanout_create=settings.fanout_create,
        children=children,
    )


def _keys_of(settings: QueueSettings) -> KeySettings:
    rule = None
    if settings.key_format is not None and settings.key:
        rule = MessageKey(settings.key_format, settings.key, settings.key_is_free)
    return KeySettings(rule, settings.key_matches_any, settings.key_unordered)
