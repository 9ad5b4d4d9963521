"""The report: medians, ratios, goals, Markdown and JSON. No I/O, no clock.

One rule: a ratio is taken within a round, between neighbours in time, and only then is the
median taken over the rounds. A ratio of two medians would mix minutes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from bench.grid import CONSUME, LINES, Goal, Line, goals
from bench.loadgen import Result
from bench.peers import Run

OURS = "kestrelpy"
COMPILED = "compiled"  # the same source, by `make compile`
PEERS = ("redis", "beanstalkd")
CEILING = "memcached"
ECHO = "echo"  # the ceiling of a server in Python
NEAR_CEILING = 1.2
SERVERS = (OURS, COMPILED, *PEERS, CEILING, ECHO)


@dataclass(frozen=True)
class Spread:
    """Median, smallest and largest of a few figures."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread | None:
    """Return the spread of these figures; None: there are none."""
    if not values:
        return None
    return Spread(median(values), min(values), max(values))


def ratio(ours: Mapping[int, Result], theirs: Mapping[int, Result]) -> Spread | None:
    """Return our rate over theirs, round by round, without rounds that one of the two missed."""
    both = sorted(ours.keys() & theirs.keys())
    return spread(
        [ours[r].ops_per_s / theirs[r].ops_per_s for r in both if theirs[r].ops_per_s > 0]
    )


def compiled_over_redis(run: Run, line: Line) -> Spread | None:
    """Return the rate of the compiled daemon over that of Redis."""
    return ratio(run.of(line, COMPILED), run.of(line, "redis"))


def verdict(goal: Goal, found: Spread | None) -> str:
    """Return `reached`, `NOT reached` or `not measured`, with its goal."""
    wanted = f"{'' if goal.ours == OURS else goal.ours + ' '}≥ {goal.at_least:g} {goal.peer}"
    if found is None:
        return f"{wanted}: not measured"
    return f"{wanted}: {'reached' if found.median >= goal.at_least else 'NOT reached'}"


def verdicts(run: Run) -> list[str]:
    """Return one verdict per goal, over all lines."""
    return [said for line in LINES for said in _verdicts(run, line)]


def _verdicts(run: Run, line: Line) -> list[str]:
    return [
        verdict(goal, ratio(run.of(line, goal.ours), run.of(line, goal.peer)))
        for goal in goals(line)
    ]


def tally(run: Run) -> str:
    """Return how many verdicts there are of each kind."""
    ends = [said.split(": ")[1] for said in verdicts(run)]
    kinds = ("reached", "NOT reached", "not measured")
    return ", ".join(f"{ends.count(kind)} {kind}" for kind in kinds)


def headroom(run: Run, line: Line) -> float | None:
    """Return the generator's requests to memcached over those to the busiest server.

    Requests count, not items: a peer with two trips per item asks twice as much of the generator.
    """
    ceiling = _requests(run, line, CEILING)
    names = (OURS, COMPILED, *PEERS)
    rates = [rate for name in names if (rate := _requests(run, line, name)) is not None]
    return ceiling / max(rates) if ceiling is not None and rates and max(rates) > 0 else None


def near_the_ceiling(run: Run) -> str:
    """Return a sentence on the lines where the generator, not the server, may have set the rate."""
    rooms = [room for line in LINES if (room := headroom(run, line)) is not None]
    if not rooms:
        return "It was not measured."
    near = sum(room < NEAR_CEILING for room in rooms)
    if not near:
        return f"It is not: the smallest is {min(rooms):.1f}."
    return (
        f"On {near} of {len(rooms)} lines it is below {NEAR_CEILING:g}: there the busiest server "
        "may be faster than shown."
    )


def _requests(run: Run, line: Line, server: str) -> float | None:
    found = spread([r.requests_per_s for r in run.of(line, server).values()])
    return found.median if found else None


def _shown(found: Spread | None) -> str:
    return f"**{found.median:.2f}** ({found.low:.2f}–{found.high:.2f})" if found else "–"


def _row(line: Line) -> str:
    shape = line.cell.shape
    return f"| {line.job} | {line.cell.body_bytes} B | {shape.connections} | {shape.in_flight} |"


def ratio_table(run: Run) -> list[str]:
    rows = [
        "| job | body | connections | in flight | kestrelpy / redis | kestrelpy / beanstalkd "
        "| goal | memcached / busiest | compiled / redis |",
        "|---|---:|---:|---:|---:|---:|---|---:|---:|",
    ]
    for line in LINES:
        ours = run.of(line, OURS)
        ratios = {peer: ratio(ours, run.of(line, peer)) for peer in PEERS}
        said = "; ".join(_verdicts(run, line)) or "none set"
        room = headroom(run, line)
        rows.append(
            f"{_row(line)} {_shown(ratios['redis'])} | {_shown(ratios['beanstalkd'])} "
            f"| {said} | {f'{room:.1f}' if room else '–'} "
            f"| {_shown(compiled_over_redis(run, line))} |"
        )
    return rows


def server_table(run: Run, cell: Callable[[Sequence[Result]], str]) -> list[str]:
    """Return a table with a column for each server; `cell` words its results on a line."""
    heads = " | ".join(SERVERS)
    rows = [
        f"| job | body | connections | in flight | {heads} |",
        "|---|---:|---:|---:|" + "---:|" * len(SERVERS),
    ]
    for line in LINES:
        cells = " | ".join(cell(list(run.of(line, name).values())) for name in SERVERS)
        rows.append(f"{_row(line)} {cells} |")
    return rows


def _cost(results: Sequence[Result]) -> str:
    """Return the server's processor time for one item in microseconds: user + system."""
    measured = [each for each in results if each.ops and each.user_s + each.system_s]
    if not measured:
        return "–"
    user_us = median(1e6 * each.user_s / each.ops for each in measured)
    system_us = median(1e6 * each.system_s / each.ops for each in measured)
    return f"{user_us:.1f} + {system_us:.1f}"


def _rate(results: Sequence[Result]) -> str:
    if not results:
        return "–"
    rate = median(r.ops_per_s for r in results)
    low = median(r.p50_us for r in results)
    high = median(r.p99_us for r in results)
    busy = median(r.generator_busy for r in results)
    return f"{rate:,.0f} · {low:,.0f} / {high:,.0f} µs · {busy:.0%}"


def markdown(run: Run, about: Mapping[str, str], notes: Sequence[str]) -> str:
    """Return the report. `about` describes the run and the machine, `notes` the gaps."""
    lines = ["# Durable queues side by side", ""]
    lines += [f"- {name}: {text}" for name, text in about.items()]
    lines += [f"- **Note**: {note}" for note in (*notes, *run.failures)]
    lines += [
        "",
        "## Ratios: median over the rounds (smallest–largest)",
        "",
        *ratio_table(run),
        "",
        f"Goals: {tally(run)}.",
        "",
        "The last column but one says whether the generator is the bottleneck: memcached under the "
        "same load, in requests per second, over the busiest of the others. "
        f"{near_the_ceiling(run)}",
        "",
        "## This machine's figures: items/s · latency p50 / p99 · how busy the generator was",
        "",
        *server_table(run, _rate),
        "",
        "## Processor time of the server for one item, in µs: its own + the kernel's for it",
        "",
        *server_table(run, _cost),
        "",
        f"`{CONSUME}` of memcached and echo is a plain read: a ceiling, not a queue. echo is the "
        "least that a server in Python does for a request, without queue and disk. These figures "
        "compare nothing with another machine or another day.",
        "",
    ]
    return "\n".join(lines)


def as_json(run: Run, about: Mapping[str, str], notes: Sequence[str]) -> dict[str, object]:
    """Return the same with the figures of every round, for programs."""
    return {
        "about": dict(about),
        "notes": [*notes, *run.failures],
        "goals": tally(run),
        "lines": [_line_json(run, line) for line in LINES],
    }


def _line_json(run: Run, line: Line) -> dict[str, object]:
    ours = run.of(line, OURS)
    ratios = {peer: ratio(ours, run.of(line, peer)) for peer in PEERS}
    return {
        "job": line.job,
        "body_bytes": line.cell.body_bytes,
        "connections": line.cell.shape.connections,
        "in_flight": line.cell.shape.in_flight,
        "ratios": {peer: asdict(found) if found else None for peer, found in ratios.items()},
        "compiled_over_redis": asdict(found) if (found := compiled_over_redis(run, line)) else None,
        "goals": _verdicts(run, line),
        "memcached_over_busiest": headroom(run, line),
        "servers": {
            name: [{"round": r + 1, **asdict(result)} for r, result in run.of(line, name).items()]
            for name in SERVERS
        },
    }
