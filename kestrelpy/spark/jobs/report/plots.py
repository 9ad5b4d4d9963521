"""Figures to plots: small SVG pictures that take their colours from the page around them.

matplotlib draws in stand-in colours, one for each role; then they become variables of the page's
style (`var(--put)`), so that one picture is right on light and on dark paper. Text stays text: it
is sharp at every size, and can be searched and read aloud.

One rule: no text from a user is drawn here. The page writes names of queues, because it escapes
them; matplotlib reads a dollar sign as the beginning of a formula.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from math import isnan
from typing import Final

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from kestrelpy.spark.jobs.report.figures import Bucket, Series, Spread

# Roles, and the stand-in for each: colours that no style of matplotlib uses.
ROLES: Final = ("ink", "faint", "put", "confirmed", "depth", "p50", "p95", "p99")
_STAND_IN: Final = {role: f"#fe0c{number:02x}" for number, role in enumerate(ROLES, 1)}
_INCHES: Final = (4.5, 2.3)
_POINTS: Final = 9.5
_STYLE: Final = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",  # measured with it; the page's own font is shown
    "font.size": _POINTS,
    "axes.edgecolor": _STAND_IN["faint"],
    "axes.labelcolor": _STAND_IN["ink"],
    "text.color": _STAND_IN["ink"],
    "xtick.color": _STAND_IN["faint"],
    "ytick.color": _STAND_IN["faint"],
    "xtick.labelcolor": _STAND_IN["ink"],
    "ytick.labelcolor": _STAND_IN["ink"],
    "grid.color": _STAND_IN["faint"],
    "grid.alpha": 0.35,
    "grid.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": _POINTS,
}
_FEW_POINTS: Final = 60  # with at most this many, each has a dot: it shows a value between two gaps
# A journal has milliseconds: shorter latencies are on the lowest line.
_LATENCY_FLOOR_MS: Final = 1
_LATENCY_TICKS_MS: Final = (
    1, 10, 100, 1_000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 86_400_000, 864_000_000,
)  # fmt: skip
_DAY_MS: Final = 86_400_000
_STEPS_MS: Final = (
    *(seconds * 1_000 for seconds in (1, 2, 5, 10, 15, 30)),
    *(minutes * 60_000 for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720)),
    *(days * _DAY_MS for days in (1, 2, 7, 14, 28, 91, 182, 364)),
)
_TICKS_MAX: Final = 4  # of the longest label, a date
_NO_METADATA: Final = {"Creator": None, "Date": None, "Format": None, "Type": None}

_OPENING: Final = re.compile(r"\A.*?<svg\b[^>]*?viewBox=\"([^\"]*)\"[^>]*>", re.DOTALL)
_STYLE_BLOCK: Final = re.compile(r"<style\b.*?</style>", re.DOTALL)
_ID: Final = re.compile(r'(\bid="|url\(#|href="#)')
_FONT: Final = re.compile(r"(font(?:-family)?:[^;\"]*?)'DejaVu Sans'[^;\"]*")


def rates(series: Series, prefix: str, interval_ms: int) -> str:
    """Plot items put and confirmed per minute."""

    def draw(axes: Axes, times: Sequence[float]) -> None:
        per_minute = 60_000 / interval_ms
        for name, lines, width in (("put", "-", 1.8), ("confirmed", "--", 1.5)):
            values = [getattr(each, name) * per_minute for each in series.buckets]
            _line(axes, times, values, name, lines, width)
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 0.98), ncols=2, borderpad=0)
        _from_zero(axes)

    return _picture(series, prefix, draw)


def depth(series: Series, prefix: str) -> str:
    """Plot the items that are there at the end of each interval."""

    def draw(axes: Axes, times: Sequence[float]) -> None:
        values = [each.depth for each in series.buckets]
        axes.fill_between(times, values, color=_STAND_IN["depth"], alpha=0.25, linewidth=0)
        _line(axes, times, values, "depth", "-", 1.8)
        _from_zero(axes)

    return _picture(series, prefix, draw)


def waiting(series: Series, prefix: str) -> str:
    """Plot how long items waited, from their put to the first delivery."""
    return _latency(series, prefix, lambda bucket: bucket.waiting)


def service(series: Series, prefix: str) -> str:
    """Plot how long the confirmed delivery took."""
    return _latency(series, prefix, lambda bucket: bucket.service)


def latency_word(ms: float) -> str:
    """Return a latency in words: `350 ms`, `1.2 s`, `3 min`, ..."""
    for unit_ms, word in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if ms >= unit_ms:
            value = ms / unit_ms
            return f"{value:.1f}".removesuffix(".0") + f" {word}" if value < 10 else (
                f"{value:,.0f} {word}"
            )  # fmt: skip
    return f"{ms:g} ms" if ms >= 1 else "under 1 ms"


def _latency(series: Series, prefix: str, pick: Callable[[Bucket], Spread | None]) -> str:
    found = [pick(each) for each in series.buckets]

    def draw(axes: Axes, times: Sequence[float]) -> None:
        top = _LATENCY_FLOOR_MS * 10.0
        for name, lines, width in (("p99", ":", 1.4), ("p95", "--", 1.4), ("p50", "-", 1.8)):
            values = [
                float("nan") if each is None
                else float(max(getattr(each, f"{name}_ms"), _LATENCY_FLOOR_MS))
                for each in found
            ]  # fmt: skip
            top = max([top, *(each for each in values if not isnan(each))])
            _line(axes, times, values, name, lines, width)
        axes.set_yscale("log")
        axes.set_ylim(_LATENCY_FLOOR_MS * 0.8, top * 1.6)
        ticks = [each for each in _LATENCY_TICKS_MS if each <= top * 1.6]
        axes.yaxis.set_major_locator(FixedLocator(ticks))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda ms, _: latency_word(ms)))
        axes.legend(
            loc="lower left", bbox_to_anchor=(-0.02, 0.98), ncols=3, borderpad=0, reverse=True
        )

    return _picture(series, prefix, draw)


def _line(
    axes: Axes, times: Sequence[float], values: Sequence[float], role: str, line: str,
    width: float,
) -> None:  # fmt: skip
    marker = "o" if len(times) <= _FEW_POINTS else ""
    colour = _STAND_IN[role]
    axes.plot(
        times, values, line, color=colour, linewidth=width, label=role, marker=marker,
        markersize=2.6,
    )  # fmt: skip


def _from_zero(axes: Axes) -> None:
    axes.set_ylim(bottom=0)
    if axes.get_ylim()[1] < 4:
        axes.set_ylim(top=4)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(_number))


def _number(value: float, _: object = None) -> str:
    for unit, word in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= unit:
            divisor = 1e3 if word == "k" else unit
            return f"{value / divisor:.3g} {word}"
    return f"{value:,.0f}"


def _picture(
    series: Series, prefix: str, draw: Callable[[Axes, Sequence[float]], None]
) -> str:
    """Return an `<svg>` with ids that begin with `prefix`; the page adds a title."""
    times = [float(each.begin_ms) for each in series.buckets]
    with style.context(_STYLE):
        figure = Figure(_INCHES, layout="constrained")
        figure.patch.set_alpha(0)
        axes = figure.subplots()
        axes.patch.set_alpha(0)
        axes.grid(True, axis="y")
        draw(axes, times)
        _clock(axes, times)
        axes.tick_params(length=3)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata=_NO_METADATA)
    return _for_a_page(out.getvalue(), prefix)


def _clock(axes: Axes, times: Sequence[float]) -> None:
    """Set ticks at round times, with the day below if the tick does not show it."""
    if not times:
        return
    first, last = times[0], max(times[-1], times[0] + 1)
    span = int(last - first)
    years = _STEPS_MS[-1] * -(-span // (_STEPS_MS[-1] * _TICKS_MAX))
    step = next((each for each in _STEPS_MS if span / each < _TICKS_MAX), years)
    ticks = [n * step for n in range(int(-(-first // step)), int(last // step) + 1)]
    words = "%H:%M:%S" if step < 60_000 else "%H:%M" if step < _DAY_MS else "%Y-%m-%d"
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda ms, _: f"{_utc(ms):{words}}"))
    if step < _DAY_MS:
        days = dict.fromkeys(f"{_utc(ms):%Y-%m-%d}" for ms in (first, last))
        axes.set_xlabel(f"{' to '.join(days)} UTC", loc="right")


def _utc(ms: float) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _for_a_page(svg: str, prefix: str) -> str:
    """Return matplotlib's SVG without its file header, with the page's colours and fonts."""
    opening = _OPENING.match(svg)
    assert opening is not None, "matplotlib writes an svg with a viewBox"
    inside = _STYLE_BLOCK.sub("", svg[opening.end() :])
    inside = _ID.sub(rf"\1{prefix}", inside)
    inside = _FONT.sub(r"\1inherit", inside)
    for role, colour in _STAND_IN.items():
        inside = inside.replace(colour, f"var(--{role})")
    return f'<svg viewBox="{opening[1]}" role="img">{" ".join(inside.split())}'
