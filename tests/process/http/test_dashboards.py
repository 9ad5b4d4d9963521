"""The Grafana dashboard and the alert rules name only what /metrics gives."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.support.daemon import DaemonProcess

_PACKAGING = Path(__file__).parents[3] / "packaging"
_SELECTOR = re.compile(r"(kestrelpy_\w+)(?:\{([^}]*)\})?")
_LABEL = re.compile(r'(\w+)\s*(?:=~|!=|=)\s*"([^"]*)"')
_ADDED = {"instance", "job"}  # by Prometheus


def rules() -> list[dict[str, Any]]:
    loaded = yaml.safe_load((_PACKAGING / "alerts.yaml").read_text())
    return [rule for group in loaded["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((_PACKAGING / "grafana.json").read_text())["panels"]
    return found


def expressions() -> Iterator[str]:
    for rule in rules():
        yield rule["expr"]
    for panel in panels():
        yield from (target["expr"] for target in panel["targets"])
    text = (_PACKAGING / "grafana.json").read_text()
    yield from re.findall(r"label_values\(([^,]+),", text)


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, set[str]]]:
    """The values of each label, by the names of the samples that a daemon gives."""
    with DaemonProcess(tmp_path_factory.mktemp("daemon") / "data", http_port="0") as server:
        client = server.client()
        client.set("jobs", b"x")
        client.get("jobs")
        text = httpx.get(f"http://127.0.0.1:{server.http_port}/metrics?queue=jobs").text
    found: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
    return found


def test_every_name_and_label_is_one_of_the_daemon(
    samples: dict[str, dict[str, set[str]]]
) -> None:
    seen = 0
    for expression in expressions():
        for name, selector in _SELECTOR.findall(expression):
            assert name in samples, f"{name} in {expression}"
            for label, value in _LABEL.findall(selector):
                assert label in samples[name] or label in _ADDED, f"{label} in {expression}"
                if label in ("state", "mode", "wire"):
                    assert value in samples[name][label], f"{value} in {expression}"
            seen += 1
    assert seen > 40


def test_every_figure_of_the_daemon_is_shown_or_watched(
    samples: dict[str, dict[str, set[str]]]
) -> None:
    named = {name for each in expressions() for name, _ in _SELECTOR.findall(each)}
    named = {re.sub("_(bucket|sum|count|total)$", "", name) for name in named}
    given = {re.sub("_(bucket|sum|count|total)$", "", name) for name in samples}
    elsewhere = {
        "kestrelpy_start_time_seconds", "kestrelpy_mode", "kestrelpy_queue_events",
        "kestrelpy_queue_waiting_seconds", "kestrelpy_queue_service_seconds",
    }  # fmt: skip
    assert given - named == elsewhere


def test_rules_and_panels_are_whole() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) >= 10
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]
    assert len({panel["id"] for panel in panels()}) == len(panels())
    for expression in expressions():
        for one, other in ("()", "{}", "[]"):
            assert expression.count(one) == expression.count(other), expression
