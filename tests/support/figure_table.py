"""The tables of figures in docs/http/admin.md, of a queue and of the server, made from their rows.

`python -m tests.support.figure_table` writes them; a test says if they are not what the rows say.

One rule: the page has each between two lines that name this module.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kestrelpy.http.metrics.figures import FACTS, SERIES, SERVER_SERIES
from kestrelpy.operations import MetricSeries, QueueFacts

PAGE: Final = Path(__file__).parents[2] / "docs" / "http" / "admin.md"
_BEGIN: Final = "<!-- made by python -m tests.support.figure_table -->\n"
_END: Final = "<!-- the end of what it makes -->\n"


def queue_table() -> str:
    """Return the lines of the table of a queue."""
    lines = ["| metric | in `stats q` | is |", "|---|---|---|"]
    for column, series in SERIES.items():
        fact = FACTS[column]
        stat = f"`{fact}`" if fact in QueueFacts._fields else ""
        lines.append(f"| `{_name(series)}` | {stat} | {series.help} |")
    return "\n".join(lines) + "\n"


def server_table() -> str:
    """Return the lines of the table of the server: a line for each family."""
    lines, stats = ["| metric | in `stats` | is |", "|---|---|---|"], dict[str, list[str]]()
    for fact, series in SERVER_SERIES.items():
        stats.setdefault(_name(series), []).append(f"`{fact}`")
    helps = {_name(series): series.help for series in SERVER_SERIES.values()}
    lines += [f"| `{name}` | {', '.join(facts)} | {helps[name]} |" for name, facts in stats.items()]
    return "\n".join(lines) + "\n"


def _name(series: MetricSeries) -> str:
    label = f"{{{series.label[0]}}}" if series.label is not None else ""
    return f"kestrelpy_{series.family}{'_total' * series.is_counter}{label}"


def page() -> str:
    """Return the page as it has to be."""
    text, *rest = PAGE.read_text().split(_BEGIN)
    for table, after in zip((queue_table(), server_table()), rest, strict=True):
        text += f"{_BEGIN}{table}{_END}{after.partition(_END)[2]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page())
