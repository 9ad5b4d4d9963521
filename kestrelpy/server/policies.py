"""Settings of the file, and settings declared by clients, become policies of the core.

One rule: nothing is decided here; every default is in the configuration.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import fields, replace
from functools import lru_cache
from typing import Final

from kestrelpy.access import Grant, Need, Role
from kestrelpy.config import (
    TARGETS,
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
from kestrelpy.errors import ClientError, Forbidden
from kestrelpy.message_keys import MessageKey

# There are many queues, and most have the same settings: these share one policy.
_POLICIES_CACHED_MAX: Final = 1024
# `policy_of` makes something else of these settings; the core has all others as they are.
MADE_OF: Final = frozenset({
    "sync", "key_format", "key", "key_matches_any", "key_unordered", "key_is_free", *TARGETS,
    "retain", "archive_to", "sliced",
})  # fmt: skip
_PLAIN: Final = [each.name for each in fields(QueueSettings) if each.name not in MADE_OF]
_LOOKS: Final = 2  # owners examined with each new one, so that those of deleted queues go


class Policies:
    """The configuration, as the core and the conversations see it."""

    def __init__(self, config: Config) -> None:
        self.config = config  # a reload replaces it
        # Returns the settings that clients declared for an existing queue.
        self.declared_of: Callable[[bytes], bytes] = lambda name: b""
        # The users who declared the targets of queues since the start: their rights count.
        self.owners: OrderedDict[bytes, str] = OrderedDict()

    def of(self, name: bytes, declared: bytes) -> Policy:
        """Return the policy of a queue with these declared settings."""
        return policy_in(self.config, name, declared, self.owners)

    def belong_to(self, broker: Broker) -> None:
        """Take the declared settings of this broker's queues, and name its aliases."""
        self.declared_of = broker.declared_of
        self.name_aliases(broker)

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

    def refuse_targets(self, name: bytes, declared: bytes, before: bytes, user: str | None) -> None:
        """Raise Forbidden if this user may not write a queue to which these settings send items,
        and those `before` do not."""
        block, old = stored_block(declared)[0], stored_block(before)[0]
        for key in TARGETS:
            target = getattr(block, key)
            if target and target != getattr(old, key) and not _may_write(self.config, user, target):
                raise Forbidden(f"forbidden: {key} needs the role write in queue {target}")
        targets = {key: getattr(block, key) for key in TARGETS if getattr(block, key)}
        if any(target != getattr(old, key) for key, target in targets.items()):
            self._take_owner(name, user)
        elif not targets:
            self.owners.pop(name, None)

    def _take_owner(self, name: bytes, user: str | None) -> None:
        """Note the user who declared the targets of a queue; forget some of deleted queues."""
        self.owners.pop(name, None)
        for _ in range(min(_LOOKS, len(self.owners))):
            each, owner = self.owners.popitem(last=False)
            if self.declared_of(each):
                self.owners[each] = owner
        if user is not None:
            self.owners[name] = user

    def _refuse_circle(self, name: bytes, block: QueueBlock) -> None:
        cycle = find_cycle(
            self.config, [name], lambda each: block if each == name else self._declared(each)
        )
        if cycle is not None:
            raise ConfigError([f"declaration: {cycle.key} makes a cycle: {cycle.path}."])

    def _refuse_alias(self, block: QueueBlock) -> None:
        for key in TARGETS:
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
        block = stored_block(declared)[0]
        found = settings_in_force(self.config, name, block)
        off = forbidden_targets(self.config, name, block, self.owners)
        return [(key, "none" if key in off else value, source) for key, value, source in found]

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


def policy_in(
    config: Config, name: bytes, declared: bytes, owners: Mapping[bytes, str]
) -> Policy:
    """Return the policy that a configuration gives a queue with these declared settings."""
    block = stored_block(declared)[0] if declared else None
    settings = config.queue(name, block)
    if block is not None and config.auth:
        off = forbidden_targets(config, name, block, owners)
        if "expire_to" in off:
            settings = replace(settings, expire_to=None)
        if "dead_letter_to" in off:
            settings = replace(settings, dead_letter_to=None)
    return policy_of(settings, config.children(name))


def forbidden_targets(
    config: Config, name: bytes, block: QueueBlock, owners: Mapping[bytes, str]
) -> list[str]:
    """Return the settings of this declaration that send items to a queue that the user who declared
    them may not write now. The declaring user of an earlier run is not known: such a declaration
    needs any user who may declare it.

    (A KNOWN FLAW: the journal does not name that user. So after a restart a target that one user
    may not declare any more stays in force while another one may.)
    """
    if not config.auth or b"+" in name:
        return []
    own = config.block(name)
    names = [owners[name]] if name in owners else list(config.auth)
    queue, found = name.decode("ascii", "replace"), []
    for key in TARGETS:
        target = getattr(block, key)
        if not target or (own is not None and key in own.model_fields_set):
            continue  # none, or the operator decided
        if not any(
            _may(config, user, Role.ADMIN, queue) and _may_write(config, user, target)
            for user in names
        ):
            found.append(key)
    return found


def _may_write(config: Config, user: str | None, target: str) -> bool:
    return not config.auth or (user is not None and _may(config, user, Role.WRITE, target))


def _may(config: Config, user: str, role: Role, queue: str) -> bool:
    """True if this user of the configuration has this role in the queue."""
    found = config.auth.get(user)
    if found is None:
        return False
    grant = Grant(user, Role[found.role.upper()], found.queues)
    return grant.may(Need(role, queue.encode("ascii", "replace")))


@lru_cache(maxsize=_POLICIES_CACHED_MAX)
def policy_of(settings: QueueSettings, children: tuple[bytes, ...] = ()) -> Policy:
    """Return a queue's settings as a policy of the core."""
    sync = settings.sync
    plain = {name: getattr(settings, name) for name in _PLAIN}
    return Policy(
        **plain,
        sync_ms=sync if isinstance(sync, int) else (0 if sync == "always" else -1),
        expire_to=(settings.expire_to or "").encode(),
        dead_letter_to=(settings.dead_letter_to or "").encode(),
        keys=_keys_of(settings),
        archive_to=str(settings.archive_to or ""),
        retain_ms=settings.retain.ms,
        retain_bytes=settings.retain.size_bytes,
        children=children,
    )


def _keys_of(settings: QueueSettings) -> KeySettings:
    rule = None
    if settings.key_format is not None and settings.key:
        rule = MessageKey(settings.key_format, settings.key, settings.key_is_free)
    return KeySettings(rule, settings.key_matches_any, settings.key_unordered)
