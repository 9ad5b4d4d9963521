"""Plots: one picture for light and dark, in the page's own style, without a word of a user's."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from kestrelpy.spark.jobs.report import plots
from kestrelpy.spark.jobs.report.figures import Series
from kestrelpy.spark.jobs.report.page import STYLE
from tests.support.figures import make_series

pytestmark = pytest.mark.slow

DRAW = {
    "rates": lambda series, prefix: plots.rates(series, prefix, 60_000),
    "depth": plots.depth,
    "waiting": plots.waiting,
    "service": plots.service,
}
XLINK = 'xmlns:xlink="http://www.w3.org/1999/xlink"'


@pytest.fixture(params=DRAW)
def svg(request: pytest.FixtureRequest) -> str:
    return DRAW[request.param](make_series("jobs"), "x-")


def test_a_picture_is_whole_and_has_no_colour_of_its_own(svg: str) -> None:
    ElementTree.fromstring(svg.replace("<svg", f"<svg {XLINK}", 1))

    assert not re.search(r"#[0-9a-f]{6}", svg)
    used = set(re.findall(r"var\(--(\w+)\)", svg))
    assert used & {"put", "confirmed", "depth", "p50"}
    for role in used:
        assert STYLE.count(f"--{role}:") == 2, f"{role} needs a colour on light and on dark paper"


def test_pictures_on_one_page_share_no_ids(svg: str) -> None:
    ids = re.findall(r'\bid="([^"]*)"', svg)
    used = re.findall(r'(?:url\(#|href="#)([^")]*)', svg)

    assert len(set(ids)) == len(ids)
    assert all(each.startswith("x-") for each in ids)
    assert set(used) <= set(ids)


def test_a_picture_refers_to_nothing_outside(svg: str) -> None:
    assert "http" not in svg
    assert "<style" not in svg
    assert "<metadata" not in svg


def test_text_stays_text(svg: str) -> None:
    said = re.findall(r"<text[^>]*>([^<]*)</text>", svg)

    assert "2026-09-21 UTC" in said
    assert "14:15" in said


@pytest.mark.parametrize("minutes", [0, 1, 2, 61, 1440])
def test_any_number_of_intervals_can_be_drawn(minutes: int) -> None:
    series = make_series("jobs", minutes=minutes)

    for draw in DRAW.values():
        assert draw(series, "x-").endswith("</svg>")


def test_nothing_measured_is_an_empty_plot() -> None:
    quiet = Series("jobs", 1, make_series("jobs", minutes=1).buckets, None, None)

    assert "1 ms" in plots.service(quiet, "x-")


def test_latencies_are_said_as_people_say_them() -> None:
    said = [plots.latency_word(ms) for ms in (0, 7, 350, 1_000, 1_250, 12_345, 180_000, 7_200_000)]

    assert said == ["under 1 ms", "7 ms", "350 ms", "1 s", "1.2 s", "12 s", "3 min", "2 h"]
