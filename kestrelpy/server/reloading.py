"""A reload of the configuration, while all queues go on.

    read ──▶ check, on a thread ──▶ take, at one moment ──▶ put in force, queue by queue ──▶ reply

Queues that are created or declared between check and take are checked at the take. A queue that is
created later has the new configuration at once. An older queue has the old configuration until its
turn comes.

One rule: every queue takes all of a configuration, or no queue takes any of it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from kestrelpy.aside import TookTooLong, run_aside
from kestrelpy.config import Config, ConfigError, changed_settings, stored_block
from kestrelpy.core import AnyQueue, Broker, Policy, Queue
from kestrelpy.errors import ServerError
from kestrelpy.server.policies import Policies, forbidden_targets, policy_in

log = logging.getLogger("kestrelpy")
_T = TypeVar("_T")

# Queues and children per turn: 3 to 5 ms of work.
STEPS_MAX: Final = 100
# At most this many queues are checked at the moment of the take; if there are more, the thread
# checks them first.
LATE_MAX: Final = 100
# The files of a configuration are small: a start or a reload waits for them no longer than this.
READ_SECONDS: Final = 10.0
_NAMED_MAX: Final = 10  # queues that a reload could not reach, in the log


_Declared = tuple[AnyQueue, bytes, str | None]  # with its declared settings, and their owner


class _Known(NamedTuple):
    """A queue as the check saw it, and its policy under the new configuration.

    `owner` is the user who declared its targets; None: no user has since the start.
    """

    queue: AnyQueue
    declared: bytes
    owner: str | None
    policy: Policy

    def is_as(self, queue: AnyQueue, owner: str | None) -> bool:
        """True if this is the queue as it is now."""
        return (
            self.queue is queue and self.declared == queue.declared and self.owner == owner
        )


class Reload:
    """One configuration on its way. All but `check` and `free` is for the loop's thread: with
    60,000 blocks a comparison takes 0.7 s, and to free them 0.1.

    `changed` names the settings that differ from those in force until now.
    """

    def __init__(self, policies: Policies, broker: Broker, config: Config) -> None:
        self.config = config
        self._policies = policies
        self._broker = broker
        self._before: Config | None = policies.config
        self._outdated = policies.config.parts()
        self.changed = ""
        self._known: dict[bytes, _Known] = {}
        self._unchecked = self._late()
        self._enforcement: Enforcement | None = None

    def check(self) -> None:
        """Check the queues that the loop passed last; raise ConfigError if the configuration does
        not fit.

        Pure, for any thread: it reads nothing that changes.
        """
        if self._before is not None:
            names = changed_settings(self._before, self.config)
            self.changed, self._before = ", ".join(names) or "nothing has changed", None
        self._check(self._unchecked)

    def free(self) -> None:
        """Free the configuration that is not in force any more part by part, on any thread."""
        while self._outdated:
            self._outdated.pop()

    def take(self) -> bool:
        """Take this configuration from now on; return False if so much has changed that `check`
        must run again.

        Raise ConfigError if it no longer fits.
        """
        other = self._differing()
        if other is None:
            return False
        for each in other:  # before it holds an item whose key is made by the old rule
            each.queue.set_keys(each.policy.keys)
        self._policies.config = self.config
        self._policies.name_aliases(self._broker)
        self._enforcement = Enforcement(self._policies, self._broker, self._known)
        return True

    def would_be_taken(self) -> bool:
        """Return what `take` would, and change nothing. Raise ConfigError if it would."""
        return self._differing() is not None

    def _differing(self) -> list[_Known] | None:
        """Return the queues whose keys have other settings now; None if so much has changed that
        `check` must run again. Raise ConfigError if the configuration no longer fits."""
        queues, late = self._broker.queues, self._late()
        if late:
            self._known = {name: each for name, each in self._known.items() if name in queues}
        if len(late) > LATE_MAX:
            self._unchecked = late
            return None
        if late:
            self._check(late)
        known = self._known
        self._policies.refuse_alias_names(self.config, queues)
        self._refuse_places(queues)
        other = [
            each
            for name, queue in queues.items()
            if (each := known[name]).policy is not queue.policy
            and each.policy.keys != queue.policy.keys
        ]
        problems = [
            f"queue {each.queue.name.decode('ascii', 'replace')}: key settings cannot change while "
            "it holds items: they can when it is empty."
            for each in sorted(other, key=lambda each: each.queue.name)
            if each.queue.reader.live
        ]
        if problems:
            raise ConfigError(problems)
        return other

    def _refuse_places(self, queues: Iterable[bytes]) -> None:
        """Raise ConfigError if a queue is here that is in several slices, and is sliced no more."""
        number, slice_of = self.config.fleet.slice, self.config.placement.slice_of
        problems = [] if number is None else [
            f"queue {name.decode('ascii', 'replace')} is in several slices: write sliced = true in "
            "its block, or delete it when it is empty."
            for name in sorted(queues)
            if slice_of(name) != number and not self.config.queue(name).sliced
        ]  # fmt: skip
        if problems:
            raise ConfigError(problems)

    def go_on(self, now_ms: int) -> bool:
        """Put it in force for the next few queues; return True when it is for all of them."""
        assert self._enforcement is not None, "put in force before it was taken"
        return self._enforcement.go_on(now_ms, STEPS_MAX)

    @property
    def failed(self) -> dict[bytes, Exception]:
        """The queues for which it could not be put in force, each with the error."""
        return self._enforcement.failed if self._enforcement is not None else {}

    def _late(self) -> list[_Declared]:
        """Return the queues that have changed since the check."""
        known, late, owners = self._known, [], self._policies.owners
        for name, queue in self._broker.queues.items():
            seen, owner = known.get(name), owners.get(name)
            if seen is None or not seen.is_as(queue, owner):
                late.append((queue, queue.declared, owner))
        return late

    def _check(self, some: list[_Declared]) -> None:
        policies, config = self._policies, self.config
        for queue, declared, owner in some:
            owners = {queue.name: owner} if owner is not None else {}
            policy = policy_in(config, queue.name, declared, owners)
            self._known[queue.name] = _Known(queue, declared, owner, policy)
        declared_of = {name: each.declared for name, each in self._known.items()}
        names = [queue.name for queue, _, _ in some]
        policies.refuse_cycles(config, names, declared_of)
        policies.refuse_aliases(config, names, declared_of)


class Enforcement:
    """Puts the configuration in force for the existing queues, a few at a time."""

    def __init__(
        self, policies: Policies, broker: Broker, known: dict[bytes, _Known] | None = None
    ) -> None:
        """`known` holds policies made before."""
        self._policies = policies
        self._broker = broker
        self._known = known or {}
        self._queues: deque[AnyQueue] = deque(broker.queues.values())
        self._children: deque[tuple[Queue, bytes]] = deque()  # to be created
        self.failed: dict[bytes, Exception] = {}  # by queue or child

    def go_on(self, now_ms: int, steps: int) -> bool:
        """Take that many steps; return True when none is left. A failure of one queue stops no
        other."""
        for _ in range(steps):
            if not (self._children or self._queues):
                return True
            try:
                if self._children:
                    parent, name = self._children.popleft()
                    self._broker.mention_wanted(parent, name, now_ms)
                else:
                    queue = self._queues.popleft()
                    name = queue.name
                    self._enforce(queue, now_ms)
            except Exception as error:
                self.failed[name] = error
        return not (self._children or self._queues)

    def _enforce(self, queue: AnyQueue, now_ms: int) -> None:
        broker, name = self._broker, queue.name
        if broker.queues.get(name) is not queue:
            return  # deleted since
        known = self._known.get(name)
        if known is not None and known.is_as(queue, self._policies.owners.get(name)):
            policy = known.policy
        else:
            policy = self._policies.of(name, queue.declared)
        self._note_targets(queue, policy)
        queue.set_policy(policy, now_ms)
        if queue.child is None:
            queue.files.fanout.set_passing(policy.fanout_only, now_ms)
            self._children += ((queue.files, child) for child in broker.wanted(queue.files))


    def _note_targets(self, queue: AnyQueue, policy: Policy) -> None:
        """Log the declared targets that no user may write any more."""
        before, name = queue.policy, queue.name.decode("ascii", "replace")
        block = stored_block(queue.declared)[0]
        for key in forbidden_targets(
            self._policies.config, queue.name, block, self._policies.owners
        ):
            if getattr(before, key) and not getattr(policy, key):
                log.warning(
                    "queue %s: %s = %s is not in force any more: who declared it may not write "
                    "that queue now; its items stay", name, key, getattr(before, key).decode(),
                )  # fmt: skip


def put_in_force(policies: Policies, broker: Broker, now_ms: int) -> None:
    """Put the configuration in force for every queue at once."""
    policies.name_aliases(broker)
    enforcement = Enforcement(policies, broker)
    while not enforcement.go_on(now_ms, STEPS_MAX):
        pass
    for error in enforcement.failed.values():
        raise error


async def in_time(read: Callable[[], _T]) -> _T:
    """Return the result of `read`, run on a thread; raise ConfigError if the files do not come."""
    try:
        return await run_aside(read, READ_SECONDS)
    except TookTooLong:
        raise ConfigError([
            f"the configuration and its files could not be read within {READ_SECONDS:.0f} s: does "
            "one of them lie on a disk that does not answer?"
        ]) from None


def refuse_at_start(policies: Policies, broker: Broker) -> None:
    """Raise ConfigError if the configuration does not fit the recovered queues."""
    declared_of = {name: queue.declared for name, queue in broker.queues.items()}
    names: Iterable[bytes] = declared_of
    policies.refuse_cycles(policies.config, names, declared_of)
    policies.refuse_alias_names(policies.config, broker.queues)
    policies.refuse_aliases(policies.config, names, declared_of)


def left_out(failed: dict[bytes, Exception]) -> str:
    """Log the first queues that a reload could not reach; return the sentence for the client."""
    for name, error in islice(failed.items(), _NAMED_MAX):
        trace = None if isinstance(error, ServerError) else error
        log.error("queue %s: not reloaded: %s", name.decode("ascii"), error, exc_info=trace)
    first, more = next(iter(failed)).decode("ascii"), len(failed) - 1
    others = f" and {more} more" if more else ""
    return f"configuration reloaded, but not for queue {first}{others}: the log says why"
