"""From settings, those of the file and those declared by clients, to the policies of the core.

One rule: nothing is decided here; every default is in the configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from functools import lru_cache
from typing import Final

from kestrelpy.config import (
    Config,
    ConfigError,
    QueueBlock,
    QueueSettings,
    as_toml,
    find_cycle,
    read_declaration,
    settings_in_force,
    stored_block,
    targets_of,
)
from kestrelpy.core import Broker, KeySettings, Policy
from kestrelpy.errors import ClientError
from kestrelpy.message_keys import MessageKey

# There are many queues, and most have the same settings: these share one policy.
_POLICIES_KEPT: Final = 1024


class Policies:
    """The configuration, as the core and the conversations see it."""

    def __init__(self, config: Config) -> None:
        self.config = config  # a reload replaces it
        # Returns the settings that clients declared for an existing queue.
        self.declared_of: Callable[[bytes], bytes] = lambda name: b""

    def of(self, name: bytes, declared: bytes) -> Policy:
        """Return the policy of a queue with these declared settings."""
        return policy_in(self.config, name, declared)

    def name_aliases(self, broker: Broker) -> None:
        """Set the aliases of the configuration, and no others."""
        broker.aliases = {
            name.encode(): tuple(target.encode() for target in alias.to)
            for name, alias in self.config.aliases.items()
        }

    def declaration(self, name: bytes, body: bytes) -> bytes:
        """Return the declared settings of a queue in the stored form; raise ClientError."""
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
        cycle = find_cycle(
            self.config, [name], lambda each: block if each == name else self._declared(each)
        )
        if cycle is not None:
            raise ConfigError([f"declaration: {cycle.key} makes a cycle: {cycle.path}."])

    def _refuse_alias(self, block: QueueBlock) -> None:
        for key in ("expire_to", "dead_letter_to"):
            if (target := getattr(block, key)) in self.config.aliases:
                raise ConfigError([f"declaration: {key} must name a queue: {target} is an alias."])

    def refuse_alias_names(self, config: Config, queues: Container[bytes]) -> None:
        """Raise ConfigError if an alias has the name of an existing queue."""
        problems = [
            f"[aliases.{name}] has the name of an existing queue: delete the queue first."
            for name in config.aliases
            if name.encode() in queues
        ]
        if problems:
            raise ConfigError(problems)

    def refuse_aliases(
        self, config: Config, names: Iterable[bytes], declared_of: Mapping[bytes, bytes]
    ) -> None:
        """Raise ConfigError if a queue's declared settings send its items to an alias."""
        if not config.aliases:
            return
        problems = [
            f"{key} of queue {name.decode('ascii', 'replace')} leads to an alias, with the "
            f"declared settings: {name.decode('ascii', 'replace')} -> {target}."
            for name in sorted(names)
            if declared_of.get(name)
            for key, target in targets_of(config, name, _block(declared_of, name))
            if target in config.aliases
        ]
        if problems:
            raise ConfigError(problems)

    def refuse_cycles(
        self, config: Config, names: Iterable[bytes], declared_of: Mapping[bytes, bytes]
    ) -> None:
        """Raise ConfigError if the file and the declared settings make a cycle that one of these
        queues can reach."""
        cycle = find_cycle(config, names, lambda name: _block(declared_of, name))
        if cycle is not None:
            raise ConfigError([
                f"{cycle.key} of queue {cycle.names[0]} makes a cycle, with the "
                f"declared settings: {cycle.path}."
            ])  # fmt: skip

    def _declared(self, name: bytes) -> QueueBlock | None:
        declared = self.declared_of(name)
        return stored_block(declared)[0] if declared else None

    def settings(self, name: bytes, declared: bytes) -> list[tuple[str, str, str]]:
        """Return the settings in force for a queue, each with its value and its source."""
        return settings_in_force(self.config, name, stored_block(declared)[0])

    def notes(self, broker: Broker) -> list[str]:
        """Return notes on declared settings that this version cannot use."""
        return [
            f"queue {name.decode('ascii', 'replace')}: ignored: {problem}"
            for name, queue in sorted(broker.queues.items())
            if queue.declared
            for problem in stored_block(queue.declared)[1]
        ]


def _block(declared_of: Mapping[bytes, bytes], name: bytes) -> QueueBlock | None:
    declared = declared_of.get(name)
    return stored_block(declared)[0] if declared else None


def policy_in(config: Config, name: bytes, declared: bytes) -> Policy:
    """Return the policy that a configuration gives a queue with these declared settings."""
    block = stored_block(declared)[0] if declared else None
    return policy_of(config.queue(name, block), config.children(name))


@lru_cache(maxsize=_POLICIES_KEPT)
def policy_of(settings: QueueSettings, children: tuple[bytes, ...] = ()) -> Policy:
    """Return a queue's settings as a policy of the core."""
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
        sync_in_turn=settings.sync_in_turn,
        confirms_synced=settings.confirms_synced,
        durable=settings.durable,
        max_leased=settings.max_leased,
        max_attempts=settings.max_attempts,
        retry_delay_ms=settings.retry_delay_ms,
        retry_backoff=settings.retry_backoff,
        retry_delay_max_ms=settings.retry_delay_max_ms,
        expire_to=(settings.expire_to or "").encode(),
        dead_letter_to=(settings.dead_letter_to or "").encode(),
        dead_letter_age_ms=settings.dead_letter_age_ms,
        max_memory_bytes=settings.max_memory_bytes,
        keys=_keys_of(settings),
        archive_to=str(settings.archive_to or ""),
        dedupe_same_body=settings.dedupe_same_body,
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
