"""The style sheet: colours that people with low vision can see, on light and on dark paper."""

from __future__ import annotations

import re

from kestrelpy.spark.jobs.report.page import STYLE


def luminance(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_and_lines_stand_out_on_light_and_on_dark_paper() -> None:
    light, dark = STYLE.split("@media (prefers-color-scheme: dark)")
    for paper in (light, dark.split("* {")[0]):
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", paper))
        for ink in ("ink", "soft", "accent", "put", "confirmed", "depth", "p50", "p95", "p99"):
            for ground in ("paper", "card"):
                assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
        assert contrast(colours["warn-ink"], colours["warn"]) >= 4.5
        assert contrast(colours["faint"], colours["card"]) >= 3


def test_both_papers_have_the_same_variables_and_every_one_that_is_used() -> None:
    light, dark = STYLE.split("@media (prefers-color-scheme: dark)")
    named = [re.findall(r"--([\w-]+):", paper) for paper in (light, dark)]

    assert named[0] == named[1]
    assert set(re.findall(r"var\(--([\w-]+)\)", STYLE)) <= set(named[0])


def test_every_brace_is_closed_and_nothing_is_fetched() -> None:
    assert STYLE.count("{") == STYLE.count("}")
    assert not re.search(r"url\(|@import|</", STYLE)
