"""Figures beside their goals: one figure a line, as a table and as JSON.

One rule: a missed goal is stated, and fails nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

MIB = float(1 << 20)
KIB = float(1 << 10)


@dataclass(frozen=True)
class Figure:
    """One number with its unit. `at_most` or `at_least` is the goal; neither: it only informs."""

    scenario: str
    name: str
    value: float
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None

    @property
    def reached(self) -> bool | None:
        """True if the goal is reached; None: there is no goal."""
        if self.at_most is not None:
            return self.value <= self.at_most
        return self.value >= self.at_least if self.at_least is not None else None

    @property
    def goal(self) -> str:
        if self.at_most is not None:
            return f"≤ {shown(self.at_most)} {self.unit}".rstrip()
        return f"≥ {shown(self.at_least)} {self.unit}".rstrip() if self.at_least is not None else ""


def shown(value: float) -> str:
    """Return three digits, or all before the point."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def table(figures: Sequence[Figure]) -> list[str]:
    rows = ["| scenario | figure | found | goal | reached |", "|---|---|---:|---:|---|"]
    for each in figures:
        reached = {True: "yes", False: "**NO**", None: ""}[each.reached]
        found = f"{shown(each.value)} {each.unit}".rstrip()
        rows.append(f"| {each.scenario} | {each.name} | {found} | {each.goal} | {reached} |")
    return rows


def markdown(
    title: str, figures: Sequence[Figure], about: Mapping[str, str], notes: Sequence[str]
) -> str:
    """Return the whole report; `notes` name what could not be measured, and why."""
    lines = [f"# {title}", ""]
    lines += [f"- {name}: {text}" for name, text in about.items()]
    lines += [f"- **Note**: {note}" for note in notes]
    verdicts = [each.reached for each in figures]
    lines += [
        "", *table(figures), "",
        f"Goals: {verdicts.count(True)} reached, {verdicts.count(False)} NOT reached.", "",
    ]  # fmt: skip
    return "\n".join(lines)


def as_json(
    figures: Sequence[Figure], about: Mapping[str, str], notes: Sequence[str]
) -> dict[str, object]:
    """Return the same for programs."""
    return {
        "about": dict(about),
        "notes": list(notes),
        "figures": [{**asdict(each), "reached": each.reached} for each in figures],
    }
