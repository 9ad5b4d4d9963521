"""From figures to metric families, in base units.

    kestrelpy_items{queue="jobs",state="ready"} 7      a gauge for each state
    kestrelpy_items_stored_total{queue="jobs"} 93      a counter for each event
    kestrelpy_item_waiting_seconds_bucket{le="1.024"}  histograms: limits are powers of two

One rule: a family is made when it is rendered, so that other work goes on between two.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from kestrelpy.core import Broker
from kestrelpy.http.answers import without_paths
from kestrelpy.http.metrics.figures import (
    COLUMNS,
    OTHERS,
    SERIES,
    SERVER_SERIES,
    STATES,
    Row,
    WalkedFigures,
)
from kestrelpy.http.ports import HttpHost
from kestrelpy.operations import HEALTH_STATES, MODES, ServerFacts, server_figures

_QUEUE: Final = ("queue",)
_MILLI: Final = 1000
_MICRO: Final = 1_000_000
_MS_BITS: Final = range(0, 30, 2)  # 1 ms to 3 days
_US_BITS: Final = range(6, 27, 2)  # 64 us to 67 s
_RECORD_BITS: Final = range(1, 14)  # 1 to 8191


def queue_families(figures: WalkedFigures) -> Iterator[Metric]:
    """Yield the families with a series for each queue that has a seat; gauges have one for the
    others as well."""
    rows: list[tuple[str, Row]] = list(figures.rows.items())
    if figures.others is not None:
        rows.append((OTHERS, figures.others))
    items = GaugeMetricFamily(
        "kestrelpy_items", "Items by state.", labels=("queue", "state")
    )
    for name, row in rows:
        for state in STATES:
            items.add_metric((name, state), row[COLUMNS[state]])
    yield items
    age = GaugeMetricFamily(
        "kestrelpy_oldest_item_age_seconds", "Age of the oldest ready item.", labels=_QUEUE
    )
    for name, row in rows:
        age.add_metric((name,), row[COLUMNS["age_ms"]] / _MILLI)
    yield age
    for column, series in SERIES.items():
        name, place = f"kestrelpy_{series.family}", COLUMNS[column]
        if series.is_counter:
            counter = CounterMetricFamily(name, series.help, labels=_QUEUE)
            for queue, row in figures.rows.items():
                counter.add_metric((queue,), row[place])
            yield counter
        else:
            gauge = GaugeMetricFamily(name, series.help, labels=_QUEUE)
            for queue, row in rows:
                gauge.add_metric((queue,), row[place])
            yield gauge


def server_families(
    figures: WalkedFigures, host: HttpHost, free_bytes: int | None, now_ms: int
) -> Iterator[Metric]:
    """Yield the families of the server as a whole."""
    broker = host.broker
    yield _info(host)
    start_s = (host.started_ms + broker.clock.offset_ms) / _MILLI
    yield _one("start_time_seconds", "Start of the process, in unix seconds.", start_s)
    yield _one("recovery_seconds", "Time that the start took to recover the queues.",
               host.recovery_seconds)  # fmt: skip
    if free_bytes is not None:
        yield _one("disk_free_bytes", "Free bytes of the disk with the data.", free_bytes)
    mode = GaugeMetricFamily("kestrelpy_mode", "1 for the mode in force.", labels=("mode",))
    for word in MODES:
        mode.add_metric((word,), int(host.mode == word))
    yield mode
    queues = GaugeMetricFamily("kestrelpy_queues", "Queues by state.", labels=("state",))
    for health in HEALTH_STATES:
        queues.add_metric((health,), figures.states.get(health, 0))
    yield queues
    yield _new_queues(broker)
    yield from _traffic(broker, host)
    yield from figure_families(server_figures(broker, host, now_ms))
    yield histogram("item_waiting_seconds", "From being stored to the first delivery.",
                    figures.waiting_ms, _MS_BITS, _MILLI)  # fmt: skip
    yield histogram("item_service_seconds", "From a delivery to its confirm.",
                    figures.service_ms, _MS_BITS, _MILLI)  # fmt: skip
    counters = broker.counters
    yield histogram("sync_seconds", "Time of a sync of a journal.",
                    counters.sync_us.counts, _US_BITS, _MICRO)  # fmt: skip
    yield histogram("loop_lag_seconds", "How late the loop is, looked at once a second.",
                    counters.loop_lag_us.counts, _US_BITS, _MICRO)  # fmt: skip
    yield histogram("batch_records", "Records that a journal wrote together.",
                    counters.batch_records.counts, _RECORD_BITS)  # fmt: skip


def _new_queues(broker: Broker) -> GaugeMetricFamily:
    """Return whether a new queue can be made, and if not, why."""
    family = GaugeMetricFamily(
        "kestrelpy_new_queues_possible",
        "1 if a new queue can be made; if not, 0 and the reason.", labels=("reason",),
    )  # fmt: skip
    family.add_metric((without_paths(broker.no_new_queue),), int(not broker.no_new_queue))
    return family


def _traffic(broker: Broker, host: HttpHost) -> Iterator[Metric]:
    counters = broker.counters
    connections = GaugeMetricFamily(
        "kestrelpy_connections", "Connections by wire.", labels=("wire",)
    )
    connections.add_metric(("memcache",), counters.connections)
    connections.add_metric(("http",), host.http_connections)
    yield connections
    requests = CounterMetricFamily(
        "kestrelpy_requests", "Requests by wire and status.", labels=("wire", "status")
    )
    for wire, counted in sorted(counters.wires.items()):
        errors = counted.client_errors + counted.server_errors
        requests.add_metric((wire, "ok"), max(counted.commands - errors, 0))
        requests.add_metric((wire, "client_error"), counted.client_errors)
        requests.add_metric((wire, "server_error"), counted.server_errors)
    for status, count in sorted(counters.http_statuses.items()):
        requests.add_metric(("http", str(status)), count)
    yield requests


def figure_families(facts: ServerFacts) -> Iterator[Metric]:
    """Yield the families of the facts of the server that have a series."""
    families = dict[str, CounterMetricFamily | GaugeMetricFamily]()
    for fact, series in SERVER_SERIES.items():
        label = series.label or ()
        family = families.get(series.family)
        if family is None:
            made = CounterMetricFamily if series.is_counter else GaugeMetricFamily
            name = f"kestrelpy_{series.family}"
            family = families[series.family] = made(name, series.help, labels=label[:1])
        family.add_metric(label[1:], getattr(facts, fact))
    yield from families.values()


def queue_histograms(broker: Broker, names: Sequence[bytes]) -> Iterator[Metric]:
    """Yield the histograms of these queues; one that is not there has none."""
    for word, text, column in (
        ("queue_waiting_seconds", "From being stored to the first delivery.", "waiting_ms"),
        ("queue_service_seconds", "From a delivery to its confirm.", "service_ms"),
    ):
        family = HistogramMetricFamily(f"kestrelpy_{word}", text, labels=_QUEUE)
        for name in names:
            queue = broker.queues.get(name)
            counts = getattr(queue.reader.counters, column) if queue is not None else None
            if counts is not None:
                _add(family, (name.decode("ascii"),), counts, _MS_BITS, _MILLI)
        yield family


def histogram(
    word: str, text: str, counts: Sequence[int], bits: range, unit: int = 0
) -> HistogramMetricFamily:
    """Return a histogram without labels; `unit` values make one of the base unit (0: whole)."""
    family = HistogramMetricFamily(f"kestrelpy_{word}", text, labels=())
    _add(family, (), counts, bits, unit)
    return family


def _add(
    family: HistogramMetricFamily, labels: Sequence[str], counts: Sequence[int], bits: range,
    unit: int,
) -> None:  # fmt: skip
    buckets = list[tuple[str, float]]()
    for most in bits:
        limit = (1 << most) / unit if unit else float((1 << most) - 1)
        buckets.append((repr(limit), float(sum(counts[: most + 1]))))
    buckets.append(("+Inf", float(sum(counts[:-1]))))
    family.add_metric(labels, buckets, counts[-1] / (unit or 1))


def _one(word: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"kestrelpy_{word}", text, value=value)


def _info(host: HttpHost) -> GaugeMetricFamily:
    info = GaugeMetricFamily(
        "kestrelpy_build_info", "1; the labels tell the versions.", labels=("version", "python")
    )
    python = ".".join(map(str, sys.version_info[:3]))
    info.add_metric((host.version, python), 1)
    return info
