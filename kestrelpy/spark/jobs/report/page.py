"""Figures to one self-contained page of HTML: no script, no font, no network.

    head line ─ tiles ─ all queues: four plots ─ each busy queue: four plots ─ tables ─ notes

Light and dark follow the reader's system, and a phone gets one column (`STYLE`). The style has the
colours of the plots, one variable for each role (`plots.ROLES`). Each has a contrast of at least
4.5 to 1 on light and dark paper, so that people with low vision can see the lines. The text
describes what each plot shows, and the figures are next to the page as CSV.

One rule: every text from a user (names of queues and servers, reasons) passes through `_safe`; a
content security policy forbids scripts in case one gets past it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

from kestrelpy.spark.jobs.report import plots
from kestrelpy.spark.jobs.report.figures import (
    BUCKETS_MAX,
    Bucket,
    KnownSince,
    ReportFigures,
    ReportRow,
    Series,
    Spread,
    interval_word,
    series_name,
)

_SERVER_SHOWN: Final = 8
_OPEN_SECTIONS: Final = 3  # queues with plots that show without a click
_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), 127)}
_NONE: Final = "–"


def page(figures: ReportFigures, title: str, made_ms: int, percentile_error: str) -> str:
    """Return the page. `percentile_error` is a sentence on the exactness of the percentiles."""
    body = "\n".join([
        *_head(figures, title, made_ms),
        *_tiles(figures.total, figures),
        *_all_queues(figures),
        *_each_queue(figures),
        *_rows(figures),
        *_deaths(figures),
        *_histories(figures),
        *_notes(figures, percentile_error),
    ])  # fmt: skip
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">\n"
        f"<title>{_safe(title)}</title>\n<style>\n{STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _head(figures: ReportFigures, title: str, made_ms: int) -> Iterator[str]:
    span = plots.latency_word(max(figures.last_ms - figures.first_ms, 1))
    yield "<header>"
    yield f"<h1>{_safe(title)}</h1>"
    yield (
        f"<p>{_count(figures.queues, 'queue')} on {_count(figures.servers, 'server')}, "
        f"{_clock(figures.first_ms)} to {_clock(figures.last_ms)} UTC ({span}). "
        f"Each point is one {interval_word(figures.interval_ms)}. "
        f"Made {_clock(made_ms)} UTC.</p>"
    )
    broken = figures.broken
    if broken:
        yield (
            f'<p class="note">{_count(broken, "journal")} no longer '
            f"{'has its' if broken == 1 else 'have their'} whole history: see "
            '<a href="#histories">where each begins</a>. Earlier records are not counted.</p>'
        )
    if figures.problems:
        yield (
            f'<p class="note">{_count(len(figures.problems), "problem")} met while reading: see '
            '<a href="#histories">the end of the histories</a>.</p>'
        )
    yield "</header>"


def _tiles(total: ReportRow, figures: ReportFigures) -> Iterator[str]:
    yield '<section aria-label="In short"><dl class="tiles">'
    rate = total.repeated / total.delivered if total.delivered else 0.0
    waits, served = figures.everything.waiting, figures.everything.service
    tiles = [
        ("Put", f"{total.put:,}", ""),
        ("Confirmed", f"{total.confirmed:,}", ""),
        ("Still there", f"{total.ready:,}", "ready or lent"),
        ("Dead", f"{total.dead:,}", f"{total.died:,} died in all"),
        (
            "Repeated deliveries", f"{total.repeated:,}",
            f"{_share(rate)} of the items that were delivered",
        ),
        ("Waiting", _latency(waits, "p50_ms"), f"median; p99 {_latency(waits, 'p99_ms')}"),
        ("Service", _latency(served, "p50_ms"), f"median; p99 {_latency(served, 'p99_ms')}"),
    ]  # fmt: skip
    lost = total.expired + total.dropped
    if lost:
        both = f"{total.expired:,} expired, {total.dropped:,} dropped"
        tiles.insert(4, ("Expired or dropped", f"{lost:,}", both))
    for name, value, more in tiles:
        small = f"<small>{more}</small>" if more else ""
        yield f"<div><dt>{name}</dt><dd>{value}{small}</dd></div>"
    yield "</dl></section>"


def _all_queues(figures: ReportFigures) -> Iterator[str]:
    if len(figures.series) == 1:
        return
    yield '<section><h2>All queues</h2><div class="plots">'
    yield from _plots(figures.everything, "all queues", "a", figures.interval_ms)
    yield "</div></section>"


def _each_queue(figures: ReportFigures) -> Iterator[str]:
    if not figures.series:
        yield "<p>There is no item in what was read.</p>"
    for number, series in enumerate(figures.series):
        name = series_name(series)
        done = sum(each.confirmed for each in series.buckets)
        put = sum(each.put for each in series.buckets)
        mark = " open" if number < _OPEN_SECTIONS else ""
        yield (
            f"<details{mark}><summary><h2>{_safe(name)}</h2> "
            f"<span>{put:,} put, {done:,} confirmed</span></summary>"
        )
        yield '<div class="plots">'
        yield from _plots(series, name, f"q{number}", figures.interval_ms)
        yield "</div></details>"


def _plots(series: Series, name: str, prefix: str, interval_ms: int) -> Iterator[str]:
    each = interval_word(interval_ms)
    yield _figure(
        "Rates", "items per minute", plots.rates(series, f"{prefix}r-", interval_ms),
        f"Rates of {name}: at most "
        f"{_peak(series, lambda b: b.put) * 60_000 / interval_ms:,.0f} put and "
        f"{_peak(series, lambda b: b.confirmed) * 60_000 / interval_ms:,.0f} confirmed per minute.",
    )  # fmt: skip
    last = series.buckets[-1].depth if series.buckets else 0
    yield _figure(
        "Depth", f"items ready or lent at the end of each {each}",
        plots.depth(series, f"{prefix}d-"),
        f"Depth of {name}: at most {_peak(series, lambda b: b.depth):,}, {last:,} at the end.",
    )  # fmt: skip
    for title, what, draw, found in (
        ("Waiting", "put to first delivery", plots.waiting, series.waiting),
        ("Service", "delivery to confirm", plots.service, series.service),
    ):
        if found is None:
            yield f"<figure><figcaption><b>{title}</b> {what}: none on record</figcaption></figure>"
            continue
        said = ", ".join(f"{p} {_latency(found, f'{p}_ms')}" for p in ("p50", "p95", "p99"))
        yield _figure(
            title, what, draw(series, f"{prefix}{title[0].lower()}-"),
            f"{title} of {name}: {said} over {found.count:,} items.",
        )  # fmt: skip


def _figure(title: str, what: str, svg: str, said: str) -> str:
    opening, _, rest = svg.partition(">")
    return (
        f"<figure><figcaption><b>{title}</b> {what}</figcaption>"
        f'{opening} aria-label="{_safe(said)}"><title>{_safe(said)}</title>{rest}</figure>'
    )


def _rows(figures: ReportFigures) -> Iterator[str]:
    left_out = figures.rows_left_out
    what = "Every queue of every server" if not left_out else (
        f"The {len(figures.rows):,} busiest queues of servers; {left_out:,} more are in the sum"
    )  # fmt: skip
    heads = ("Put", "Confirmed", "Given back", "Expired", "Dropped", "Died", "There", "Dead")
    yield "<section><h2>Servers and queues</h2>"
    if not figures.rows:
        yield "<p>None.</p></section>"
        return
    named = [(row, _server(row.server), _safe(row.queue)) for row in figures.rows]
    total = (figures.total, "All", "")
    yield from _table(
        f"{what}: items and what became of them", ("Server", "Queue", *heads), 2,
        [_counts(*each) for each in named], _counts(*total),
    )  # fmt: skip
    times = ("Delivered", "Repeated", "Waiting p50 / p95 / p99", "Service p50 / p95 / p99")
    yield from _table(
        f"{what}: deliveries and latencies", ("Server", "Queue", *times), 2,
        [_times(*each) for each in named], _times(*total),
    )  # fmt: skip
    yield "</section>"


def _counts(row: ReportRow, server: str, queue: str) -> Sequence[str]:
    counts = (
        row.put, row.confirmed, row.returned, row.expired, row.dropped, row.died, row.ready,
        row.dead,
    )  # fmt: skip
    return (server, queue, *(f"{each:,}" for each in counts))


def _times(row: ReportRow, server: str, queue: str) -> Sequence[str]:
    repeated = f"{row.repeated:,} ({_share(row.repeated / row.delivered)})" if row.repeated else "0"
    return (
        server, queue, f"{row.delivered:,}", repeated, _triple(row.waiting), _triple(row.service),
    )  # fmt: skip


def _server(name: str) -> str:
    """Return a server's id, 32 digits: the first eight are shown, all of them on hover."""
    if len(name) <= _SERVER_SHOWN:
        return _safe(name)
    return f'<abbr title="{_safe(name)}">{_safe(name[:_SERVER_SHOWN])}…</abbr>'


def _deaths(figures: ReportFigures) -> Iterator[str]:
    yield "<section><h2>Dead letters by reason</h2>"
    if figures.deaths:
        rows = [
            (_safe(each.queue or "other"), _safe(each.reason or "other"), f"{each.count:,}")
            for each in figures.deaths
        ]
        yield from _table("Items that died, and why", ("Queue", "Reason", "Items"), 2, rows, None)
    else:
        yield "<p>No item died.</p>"
    yield "</section>"


def _histories(figures: ReportFigures) -> Iterator[str]:
    yield '<section id="histories"><h2>Where the history begins</h2>'
    left_out = figures.journals - len(figures.histories)
    more = f"; {left_out:,} more are not shown" if left_out else ""
    rows = [
        (
            _server(each.server), _safe(each.queue), f"{each.generation}", _beginning(each),
            _clock(each.end_ms),
        )
        for each in figures.histories
    ]  # fmt: skip
    heads = ("Server", "Queue", "Generation", "Every record from", "Last event (UTC)")
    yield from _table(f"Journals that were read{more}", heads, 2, rows, None)
    if figures.problems:
        yield "<p>Not read, or read with gaps:</p><ul>"
        yield from (f"<li>{_safe(each)}</li>" for each in figures.problems)
        yield "</ul>"
    yield "</section>"


def _beginning(each: KnownSince) -> str:
    if each.is_whole:
        return "its first: whole"
    return f"{_clock(each.begin_ms)} UTC (record {each.lsn:,})"


def _table(
    caption: str, heads: Sequence[str], texts: int, rows: Iterable[Sequence[str]],
    foot: Sequence[str] | None,
) -> Iterator[str]:  # fmt: skip
    """Return a table; the first `texts` columns are words, the others numbers. Cells are HTML."""
    yield f'<div class="scroll" tabindex="0" role="region" aria-label="{_safe(caption)}"><table>'
    yield f"<caption>{_safe(caption)}</caption>"
    columns = "".join(f'<th scope="col">{head}</th>' for head in heads)
    yield f"<thead><tr>{columns}</tr></thead>"
    yield "<tbody>"
    yield from (_cells(row, texts) for row in rows)
    yield "</tbody>"
    if foot is not None:
        yield f"<tfoot>{_cells(foot, texts)}</tfoot>"
    yield "</table></div>"


def _cells(row: Sequence[str], texts: int) -> str:
    names = "".join(f'<th scope="row">{cell}</th>' for cell in row[:texts])
    return f"<tr>{names}{''.join(f'<td>{cell}</td>' for cell in row[texts:])}</tr>"


def _notes(figures: ReportFigures, percentile_error: str) -> Iterator[str]:
    yield "<section><h2>How to read this</h2><ul>"
    notes = [
        "<b>Waiting</b> is from being stored to the first delivery on record, counted when that "
        "began; <b>service</b> from a delivery to the confirm that ended it, counted when it was "
        "confirmed. A plain <code>get</code> confirms as it hands out: its service is 0.",
        "A delivery that a crash of the server ended has no record: it is neither a delivery nor "
        "a repeated one here, and what waited across it seems to have waited longer.",
        "<b>Repeated deliveries</b> are those beyond the first of each item, whatever ended the "
        "earlier ones: given back, hung up, lease over, dead. Their share is that of the items.",
        f"{percentile_error} A journal knows milliseconds; what took none is drawn at 1 ms.",
        f"Times are UTC, by the wall clocks of the servers. A page has at most {BUCKETS_MAX:,} "
        "points in time; a longer history has wider ones.",
        "The figures of this page as CSV: <code>minutes.csv</code>, <code>queues.csv</code>, "
        "<code>dead.csv</code>, <code>histories.csv</code>, in the same folder.",
    ]  # fmt: skip
    if figures.total.unknown:
        notes.insert(
            2,
            f"Of {_count(figures.total.unknown, 'item')} the put is still on record, and how it "
            "ended is not: they are not part of the depth.",
        )
    yield from (f"<li>{each}</li>" for each in notes)
    yield "</ul></section>"


def _safe(text: str) -> str:
    """Escape a user's text for HTML between tags or in quotes; show control characters by code."""
    return escape(text.translate(_CONTROL))


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _share(rate: float) -> str:
    if not rate:
        return "0 %"
    return f"{rate:.2%}" if rate >= 0.0001 else f"{rate * 1e6:.3g} per million"


def _clock(ms: int | None) -> str:
    if ms is None:
        return _NONE
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def _latency(found: Spread | None, name: str) -> str:
    return _NONE if found is None else plots.latency_word(int(getattr(found, name)))


def _triple(found: Spread | None) -> str:
    if found is None:
        return _NONE
    return " / ".join(_latency(found, f"{p}_ms") for p in ("p50", "p95", "p99"))


def _peak(series: Series, value: Callable[[Bucket], int]) -> int:
    return max(map(value, series.buckets), default=0)


STYLE: Final = """\
:root {
  --paper: #f6f7f9; --card: #ffffff; --ink: #1c2430; --soft: #566070; --line: #d9dee6;
  --faint: #8a94a3; --accent: #0b5fb0; --warn: #fff3d6; --warn-ink: #5c4200;
  --put: #0b6bcb; --confirmed: #b1470b; --depth: #6a3fb5;
  --p50: #0f766e; --p95: #a45a00; --p99: #b3123f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #12161c; --card: #1b2129; --ink: #e6eaf0; --soft: #a7b1bf; --line: #323b47;
    --faint: #78838f; --accent: #7cb8ff; --warn: #3a2f12; --warn-ink: #ffdf95;
    --put: #5fb0ff; --confirmed: #ff9d5c; --depth: #b79bff;
    --p50: #3fd0c0; --p95: #ffb84d; --p99: #ff7d9d;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 1120px; padding: 1.5rem 1rem 3rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans",
  sans-serif; overflow-wrap: anywhere;
}
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
p { margin: .3rem 0; }
header p, li, small, figcaption, summary span { color: var(--soft); }
a { color: var(--accent); }
.note {
  background: var(--warn); color: var(--warn-ink); padding: .5rem .8rem; border-radius: .5rem;
}
.note a { color: inherit; }
.tiles {
  display: grid; grid-template-columns: repeat(4, 1fr); gap: .75rem;
  margin: 1.2rem 0 0;
}
.tiles div, figure, .scroll {
  background: var(--card); border: 1px solid var(--line); border-radius: .6rem;
}
.tiles div { padding: .7rem .9rem; }
dt { color: var(--soft); font-size: .85rem; }
dd { margin: 0; font-size: 1.5rem; font-weight: 600; font-variant-numeric: tabular-nums; }
small { display: block; font-size: .8rem; font-weight: 400; line-height: 1.35; }
.plots {
  display: grid; gap: .75rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr));
}
figure { margin: 0; padding: .7rem .8rem .3rem; min-width: 0; }
figcaption { font-size: .85rem; }
figcaption b { color: var(--ink); font-size: 1rem; margin-right: .3rem; }
figure svg { display: block; width: 100%; height: auto; margin-top: .3rem; font-family: inherit; }
details { margin-top: 1rem; }
.scroll + .scroll { margin-top: .75rem; }
abbr { text-decoration: none; }
summary { cursor: pointer; margin-bottom: .6rem; }
summary h2 { display: inline; margin-right: .5rem; }
summary:focus-visible, .scroll:focus-visible {
  outline: 2px solid var(--accent); outline-offset: 2px;
}
.scroll { overflow-x: auto; }
table {
  border-collapse: collapse; width: 100%; font-size: .88rem;
  font-variant-numeric: tabular-nums;
}
caption { text-align: left; padding: .6rem .8rem; color: var(--soft); }
th, td {
  padding: .35rem .8rem; text-align: right; white-space: nowrap;
  border-top: 1px solid var(--line);
}
thead th { font-weight: 600; color: var(--soft); }
tbody th, tfoot th { font-weight: 400; }
th:nth-child(-n+2) { text-align: left; white-space: normal; min-width: 8rem; max-width: 22rem; }
tfoot th, tfoot td { font-weight: 600; }
code { font-size: .9em; }
@media (max-width: 44rem) {
  .tiles { grid-template-columns: 1fr 1fr; }
  body { padding: 1rem .75rem 2rem; }
}
@media print { details:not([open]) { display: none; } body { max-width: none; } }
"""
