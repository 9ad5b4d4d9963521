"""The plan of a run: queues, their settings, crashes, and faults.

One rule: settings are small enough that a run of a second reaches every limit.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from journal.files import SHORTAGE_ERRORS
from journal.patience import TRIES_MAX
from kestrelpy.config.settings import Config
from tests.simulation.books import DAY_US, NEVER, Rules
from tests.simulation.house import configuration
from tests.simulation.ticks import SETTINGS
from tests.support.memory_disk import Fault, MemoryDisk


@dataclass
class Plan:
    """The plan of one run, made before it begins."""

    rules: dict[str, Rules]
    crashes: int
    faults: float  # the probability that a life has one
    config: Config
    ticks: bool = False  # is there a schedule?
    has_shortages: bool = False  # may there be times in which no file can be opened?
    later: Random = field(default_factory=Random)
    http: bool = False  # are there clients of HTTP?

    @classmethod
    def of(cls, random: Random, later: Random, http: bool) -> Plan:
        """Return a random plan; `later` decides about features that were added later, so that the
        rest of an old seed's plan stays the same."""
        rules: dict[str, Rules] = {}
        settings: dict[str, dict[str, Any]] = {}
        for name in random.sample(("jobs", "mail", "logs"), random.choice((1, 2, 2, 3))):
            rules[name], settings[name] = _some_rules(random)
        if len(rules) > 1 and random.random() < 0.35:
            _connect(random, rules, settings)
        _newer(random, rules, settings)
        _retaining(later, rules, settings)
        _versions(later, rules)
        crashes, faults = random.choice((0, 1, 2, 3, 5)), random.choice((0, 0.3, 0.7))
        ticks = random.random() < 0.4
        config = configuration(random, settings, SETTINGS if ticks else {}, http)
        short = later.random() < 0.25
        return cls(rules, crashes, faults, config, ticks, short, later, http)

    def new_faults(self, random: Random, disk: MemoryDisk, tell: Callable[[str], None]) -> None:
        """Plan a fault for the life that begins, or none."""
        if random.random() >= self.faults:
            return
        verb, path, most, times = random.choice(_FAULTS)
        fault = Fault(
            verb, path, nth=random.randint(1, most), times=random.randint(1, times),
            error=random.choice((5, 28)), keep_sectors=random.choice((0, 0, 1, 3)),
        )  # fmt: skip
        if verb == "read":
            fault.error = 5  # no disk is too full to be read
        disk.faults.append(fault)
        tell(f"in store: {fault}")

    def new_shortage(self, disk: MemoryDisk, tell: Callable[[str], None]) -> None:
        """Plan a time without free descriptors in the life that begins, or none."""
        later = self.later
        if not self.has_shortages or later.random() < 0.3:
            return
        verb, path, most = later.choice(_SHORT)
        error = later.choice((errno.EMFILE, errno.ENFILE, errno.ENOMEM))
        times = later.randint(1, SHORT_TIMES_MAX)
        left = (each.times - each.fired for each in disk.faults if _is_short(each, verb))
        if sum(left) + times >= TRIES_MAX:
            return  # both in one row may be too many for a start
        fault = Fault(verb, path, nth=later.randint(1, most), times=times, error=error)
        disk.faults.append(fault)
        tell(f"in store: {fault}")


def _is_short(fault: Fault, verb: str) -> bool:
    return fault.verb == verb and fault.error in SHORTAGE_ERRORS


def _connect(
    random: Random, rules: dict[str, Rules], settings: dict[str, dict[str, Any]]
) -> None:
    """Let items move from queue to queue, always to a later one."""
    names = [*rules]
    for at, name in enumerate(names):
        dead_letter_to, expire_to = (random.choice([*names[at + 1 :], ""]) for _ in range(2))
        rules[name] = replace(
            rules[name], moves=True, discards=False, dead_letter_to=dead_letter_to,
            expire_to=expire_to,
        )  # fmt: skip
        settings[name] |= {
            "discard_old_when_full": False, "dead_letter_to": dead_letter_to or "none",
            "expire_to": expire_to or "none",
        }  # fmt: skip


def _newer(
    random: Random, rules: dict[str, Rules], settings: dict[str, dict[str, Any]]
) -> None:
    """Add ids, hand-off or children to half of the runs.

    The other half meets everything else as often as before.
    """
    if random.random() < 0.5:
        return
    hands = random.random() < 0.5
    for name in [*rules]:
        ids = random.random() < 0.5
        window = random.choice(("24h", "24h", "24h", "forever", "1500ms"))
        window_us = 1_500_000 if window == "1500ms" else DAY_US
        rules[name] = replace(rules[name], hands=hands, ids=ids, window_us=window_us)
        settings[name]["dedupe_window"] = window
        kids = random.choice((0, 0, 1, 1, 2)) if not rules[name].moves else 0
        for kid in ("a", "b")[:kids]:
            own, block = Rules(), dict[str, Any]()
            if random.random() < 0.5:
                own, block = _some_rules(random)
                block.pop("sync")
                settings[f"{name}+{kid}"] = block
            rules[f"{name}+{kid}"] = replace(
                own, always_synced=rules[name].always_synced, keyed=rules[name].keyed,
                hands=hands, configured=bool(block),
            )  # fmt: skip


def _retaining(
    random: Random, rules: dict[str, Rules], settings: dict[str, dict[str, Any]]
) -> None:
    """In a third of the runs, let most queues retain done items, for good or for a while."""
    if random.random() >= 0.35:
        return
    for name in [each for each in rules if "+" not in each]:
        if random.random() < 0.75:
            retain = random.choice([*_RETAIN, "forever", "forever"])
            us, size = _RETAIN[retain]
            rules[name] = replace(rules[name], retain_us=us, retain_bytes=size)
            settings[name]["retain"] = retain


def _versions(random: Random, rules: dict[str, Rules]) -> None:
    """In a third of the runs, let writers of some queues name versions."""
    if random.random() >= 0.35:
        return
    for name in [each for each in rules if "+" not in each]:
        remembers = rules[name].window_us >= DAY_US or rules[name].retains
        if rules[name].retains or (remembers and random.random() < 0.4):
            rules[name] = replace(rules[name], versions=True)


def has_http(seed: int) -> bool:
    """True if the run of this seed has clients of HTTP."""
    return Random(f"http {seed}").random() < _HTTP


_HTTP: Final = 0.3
_RETAIN: Final = {
    "forever": (NEVER, 0),
    "1m": (60_000_000, 0),
    "3s": (3_000_000, 0),
    "500ms": (500_000, 0),
    "16KiB": (0, 16 << 10),
    "192KiB": (0, 192 << 10),
}
# Less than the tries of a start (`TRIES_MAX`).
SHORT_TIMES_MAX: Final = 12
_SHORT: Final = (
    ("open", "*.segment", 6),
    ("open", "*.segment", 30),
    ("read", "*.segment", 30),
    ("read", "*", 60),
    ("create", "*.segment", 6),
    ("create", "*.snapshot", 4),
    ("names", "*", 8),
)
_FAULTS: Final = (
    ("sync", "*.segment", 8, 1),
    ("sync", "*.segment", 40, 1),
    ("sync", "*.segment", 40, 1),
    ("sync", "*.segment", 200, 1),
    ("write", "*.segment", 100, 1),
    ("write", "*.segment", 300, 2),
    ("create", "*.segment", 10, 4),
    ("create:rename", "*.segment", 10, 2),
    ("create:names", "*.segment", 10, 1),
    ("create", "*.snapshot", 6, 2),
    ("remove", "*", 10, 2),
    ("read", "*", 30, 1),
    ("open", "*", 3, 1),
    ("rename", "*", 3, 1),
    ("names", "*", 10, 1),
    ("make_folder", "*", 6, 1),
)


def _some_rules(random: Random) -> tuple[Rules, dict[str, Any]]:
    """Return a queue's settings, for the checker and for the configuration."""
    lease_ms = random.choice((None, 1_800_000, 1_800_000, 1_800_000, 400, 100, 30))
    max_items = random.choice((None, None, None, 3, 12))
    attempts = random.choice((None, 100, 100, 2, 1))
    leased = random.choice((None, None, None, None, 1, 3))
    discards = max_items is not None and random.random() < 0.3
    synced = random.random() < 0.3
    sync: str = random.choice(("always",) * 7 + ("20ms", "never"))
    keyed = random.random() < 0.4
    rules = Rules(
        lease_ms, max_items, attempts, leased, discards, synced, sync == "always", keyed
    )
    settings: dict[str, Any] = {
        "lease": "none" if lease_ms is None else f"{lease_ms}ms",
        "max_items": max_items or "none",
        "max_attempts": attempts or "none",
        "max_leased": leased or "none",
        "discard_old_when_full": discards,
        "confirms": "synced" if synced else "written",
        "sync": sync,
    }
    return rules, settings
