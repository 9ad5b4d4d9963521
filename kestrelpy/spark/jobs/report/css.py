"""The style sheet of the report: light and dark, wide and narrow.

It has the colours of the plots, one variable for each role (`plots.ROLES`). Each has a contrast of
at least 4.5 to 1 on light and dark paper, so that people with low vision can see the lines.
"""

from __future__ import annotations

from typing import Final

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
