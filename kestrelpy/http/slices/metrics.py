"""The metrics of all slices as one text.

    kestrelpy_items{queue="jobs",state="ready"} 7      the same series of several slices: the sum
    kestrelpy_start_time_seconds 1.7e+09               what is no sum: see RULES

One rule: a family stands there once, with the help of the first slice that has it. Those of the
fleet are the router's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from kestrelpy.fleet import FleetFacts
from kestrelpy.http.metrics import rendered

Values = list[float]
_PREFIX: Final = "kestrelpy_"
_OTHERS: Final = 'queue="all others"'
_NEW_QUEUES: Final = _PREFIX + "new_queues_possible"
# The families that are no sums.
RULES: Final[dict[str, Callable[[Values], float]]] = {
    "build_info": max, "start_time_seconds": min, "recovery_seconds": max,
    "disk_free_bytes": min, "mode": max, "oldest_item_age_seconds": max,
    "new_queues_possible": min,
}  # fmt: skip
# By family: the series that the router counts itself.
Counted = dict[str, float]


def merged(texts: list[bytes], counted: Counted) -> bytes:
    """Return the text of all; `counted` has the series that the router counts itself."""
    heads: dict[str, list[str]] = {}
    series: dict[str, dict[str, Values]] = {}
    for text in texts:
        family = ""
        for line in text.decode().splitlines():
            if line.startswith("# "):
                family = line.split(" ", 3)[2]
                head = heads.setdefault(family, [])
                if line not in head and len(head) < 2:
                    head.append(line)
                series.setdefault(family, {})
            elif line:
                name, _, value = line.rpartition(" ")
                series[family].setdefault(name, []).append(float(value))
    _refuse_new_queues(series.get(_NEW_QUEUES, {}))
    lines = list[str]()
    for family, found in series.items():
        lines += heads[family]
        rule = RULES.get(family.removeprefix(_PREFIX), sum)
        lines += [
            f"{name} {counted.get(name, rule(values))!r}" for name, values in found.items()
        ]
    return ("\n".join(lines) + "\n").encode()


def of_fleet(facts: FleetFacts) -> bytes:
    """Return the families of the slices and, in a fleet, of its members."""
    by_slice, by_member = ("slice",), ("member", "address")
    beat = GaugeMetricFamily(
        f"{_PREFIX}slice_beat_age_seconds",
        "Time since the last commit of a slice, or its last sign of life.", labels=by_slice,
    )  # fmt: skip
    for slice_ in facts.slices:
        if slice_.beat_age_ms is not None:
            beat.add_metric((str(slice_.slice),), slice_.beat_age_ms / 1000)
    takeovers = CounterMetricFamily(
        f"{_PREFIX}takeovers", "Claims of slices by members, or restarts of slices.",
        value=facts.takeovers_total,
    )  # fmt: skip
    families: list[Metric] = [beat, takeovers]
    if facts.members:
        up, held = (
            GaugeMetricFamily(f"{_PREFIX}{name}", help_, labels=by_member)
            for name, help_ in (
                ("member_up", "1 if a member has said lately that it is there."),
                ("member_slices", "Slices that a member owns."),
            )
        )
        for each in facts.members:
            up.add_metric((each.member, each.address), int(each.state != "gone"))
            held.add_metric((each.member, each.address), len(each.owns))
        families += [up, held]
    return b"".join(map(rendered, families))


def _refuse_new_queues(found: dict[str, Values]) -> None:
    """Leave only the reasons, if a slice can make no new queue."""
    if any(0.0 in values for values in found.values()):
        for name in [name for name, values in found.items() if 0.0 not in values]:
            del found[name]
