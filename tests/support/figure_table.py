"""The table of the figures of a queue in docs/http/admin.md, made from their rows.

`python -m tests.support.figure_table` writes it; a test says if it is not what the rows say.

One rule: the page has it between two lines that name this module.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kestrelpy.http.metrics.figures import FACTS, SERIES
from kestrelpy.operations import QueueFacts

PAGE: Final = Path(__file__).parents[2] / "docs" / "http" / "admin.md"
_BEGIN: Final = "<!-- made by python -m tests.support.figure_table -->\n"
_END: Final = "<!-- the end of what it makes -->\n"


def table() -> str:
    """Return the lines of the table."""
    lines = ["| metric | in `stats q` | is |", "|---|---|---|"]
    for column, series in SERIES.items():
        name = f"kestrelpy_{series.family}{'_total' * series.is_counter}"
        fact = FACTS[column]
        stat = f"`{fact}`" if fact in QueueFacts._fields else ""
        lines.append(f"| `{name}` | {stat} | {series.help} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the page as it has to be."""
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    return f"{before}{_BEGIN}{table()}{_END}{rest.partition(_END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page())
