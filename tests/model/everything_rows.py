"""The configurations of the machine of everything: each pair of settings stands in some row.

    ROWS        rows of a covering array, one value of each factor
    features    what a row switches on, by name
    Met         which features met in one example, over a whole run

One rule: a pair that cannot be drawn is named here, with its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final

from covertable import make

Row = dict[str, str]
Settings = dict[str, Any]

# Each value's settings go to the block of `jobs`, but for those of _EVERYWHERE and _CHILDREN.
FACTORS: Final[dict[str, dict[str, Settings]]] = {
    "memory": {"plenty": {}, "tiny": {"max_memory": 1}},
    "keys": {
        "pair": {},
        "unordered": {"key_unordered": True},
        "any": {"key_match": "any"},
        "any unordered": {"key_match": "any", "key_unordered": True},
    },
    "limit": {
        "none": {}, "items": {"max_items": 4}, "bytes": {"max_bytes": 40},
        "ring": {"max_items": 4, "discard_old_when_full": True},
    },
    "children": {
        "free": {}, "full": {"max_items": 3},
        "ring": {"max_items": 3, "discard_old_when_full": True}, "only": {},
    },
    "retain": {
        "none": {}, "forever": {"retain": "forever"}, "4s": {"retain": "4s"},
        "8KiB": {"retain": "8KiB"},
    },
    "dead": {
        "own": {"max_attempts": 2}, "to": {"max_attempts": 2, "dead_letter_to": "failed"},
        "aged": {"max_attempts": 2, "dead_letter_to": "failed", "dead_letter_age": "4300ms"},
    },
    "age": {
        "none": {}, "max_age": {"max_age": "9s"}, "to": {"expire_to": "late"},
        "both": {"max_age": "9s", "expire_to": "late"},
    },
    "retry": {
        "none": {}, "fixed": {"retry_delay": "1500ms"},
        "grows": {"retry_delay": "700ms", "retry_backoff": 3, "retry_delay_max": "4s"},
    },
    "lease": {"long": {}, "short": {"lease": "2500ms"}, "none": {"lease": "none"}},
    "leased": {"any": {}, "one": {"max_leased": 1}, "two": {"max_leased": 2}},
    "window": {
        "day": {}, "short": {"dedupe_window": "3300ms"}, "ever": {"dedupe_window": "forever"},
    },
    "scopes": {"month": {}, "short": {"scope_window": "2600ms"}},
    "confirms": {"written": {}, "synced": {"confirms": "synced"}},
    "durable": {"yes": {}, "no": {"durable": False}},
    # `catch_up` of the schedule that puts into `jobs`.
    "schedule": {"off": {}, "none": {}, "last": {}, "all": {}},
}  # fmt: skip
EVERYWHERE: Final = ("memory", "keys")
ON_CHILDREN: Final = ("children", "dead", "age", "retry", "lease", "leased")

# Pairs that no row has, because the model would have to guess: (factor, value, factor, value).
IMPOSSIBLE: Final = {
    ("memory", "tiny", "age", age): "what expires on disk alone is known when it is read back"
    for age in ("max_age", "to", "both")
} | {
    ("memory", "tiny", "dead", "aged"): "as above"
} | {
    ("durable", "no", "retain", kept): "a queue in memory retains nothing: it is refused"
    for kept in ("forever", "4s", "8KiB")
} | {
    ("durable", "no", "confirms", "synced"): "a queue in memory syncs nothing: it is refused"
}  # fmt: skip
# Pairs of a verb that no walk meets.
NEVER_MET: Final = {
    ("expired", "memory=tiny"): "as above",
    ("expiry", "memory=tiny"): "as above",
    ("children=only", "from"): "what is retained then, the spec does not say",
    ("from", "retain=4s"): "what a child begins with may be gone by then",
    ("from", "retain=none"): "as above",
    ("from", "retain=8KiB"): "as above",
    ("durable=no", "from"): "it retains nothing",
    ("schedule=off", "scheduled"): "there is none",
}


def _rows() -> list[Row]:
    constraints = [
        {
            "operator": "or",
            "conditions": [
                {"operator": "ne", "left": one, "value": value},
                {"operator": "ne", "left": other, "value": second},
            ],
        }
        for one, value, other, second in IMPOSSIBLE
    ]
    factors = {name: list(values) for name, values in FACTORS.items()}
    rows = [dict(row) for row in make(factors, strength=2, constraints=constraints)]
    # A child begins with retained items only if the queue stores for itself: these rows let that
    # meet each setting.
    once_more = [row for row in rows if row["retain"] == "forever" and row["children"] == "only"]
    return rows + [row | {"children": "free"} for row in once_more]


ROWS: Final = _rows()


def settings_of(row: Row, factors: Iterable[str]) -> Settings:
    """Return the settings that the row's values of these factors stand for."""
    found: Settings = {}
    for name in factors:
        found |= FACTORS[name][row[name]]
    return found


def features(row: Row) -> set[str]:
    """Return what the row switches on."""
    return {f"{name}={value}" for name, value in row.items()}


# The things that are pending when a reload comes, and the settings that it changes.
PENDING: Final = ("waiters", "leases", "delays", "retained", "runs")
CHANGES: Final = (
    "retry_delay", "max_attempts", "lease", "max_leased", "retain", "max_items", "max_bytes",
    "keys", "schedule",
)  # fmt: skip


@dataclass
class Met:
    """Which features met in one example, how often, and which of them were pending in a reload."""

    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    alone: Counter[str] = field(default_factory=Counter)
    reloads: Counter[tuple[str, str]] = field(default_factory=Counter)
    words: set[str] = field(default_factory=set)  # the verbs of the wire

    def example(self, seen: set[str]) -> None:
        """Count one example in which these were all met."""
        self.alone.update(seen)
        self.pairs.update(combinations(sorted(seen), 2))

    def missing_reloads(self) -> list[tuple[str, str]]:
        """Return what was never pending beside a reload that changes that, but should have been."""
        every = {(one, other) for one in PENDING for other in CHANGES}
        return sorted(every - {*self.reloads})

    def table(self) -> str:
        """Return the table feature x feature; a number is how many examples met both."""
        names = sorted(self.alone)
        lines = [f"{number:3d} {name}" for number, name in enumerate(names)]
        lines.append("    " + "".join(f"{number:5d}" for number in range(len(names))))
        for number, name in enumerate(names):
            cells = [self.pairs[min(name, other), max(name, other)] for other in names[:number]]
            lines.append(f"{number:3d} " + "".join(f"{count:5d}" for count in cells))
        lines += [f"reload beside {one}: {self._of(one)}" for one in PENDING]
        return "\n".join(lines)

    def _of(self, pending: str) -> str:
        return ", ".join(f"{self.reloads[pending, change]} {change}" for change in CHANGES)

    def missing(self, verbs: Iterable[str]) -> list[tuple[str, str]]:
        """Return the pairs of settings and verbs that no example met, but should have."""
        every = sorted({*verbs, *(f"{n}={v}" for n, values in FACTORS.items() for v in values)})
        never = {
            tuple(sorted((f"{one}={value}", f"{other}={second}")))
            for one, value, other, second in IMPOSSIBLE
        }
        never |= {*NEVER_MET}
        return [
            pair for pair in combinations(every, 2)
            if not self.pairs[pair] and pair not in never and not _same_factor(*pair)
        ]  # fmt: skip


def _same_factor(one: str, other: str) -> bool:
    factor = one.partition("=")[0]
    return factor in FACTORS and factor == other.partition("=")[0]
