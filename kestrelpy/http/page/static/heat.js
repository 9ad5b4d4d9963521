// How long items waited or were worked on, minute by minute: darker cells have more items; the two
// lines are p50 and p99.

import { figure } from "./charts.js";
import { el, renew, say, svg } from "./dom.js";
import { minute, number, span } from "./words.js";

const COLUMNS = 60;
const TABLE_ROWS = 12;

function edge(edges, cell) {
  return cell < edges.length ? `under ${span(edges[cell])}` : `${span(edges.at(-1))} or more`;
}

// The cell that this part of the items of a column keeps; null: it has none.
function cellOf(column, part) {
  let left = column.reduce((sum, each) => sum + each, 0) * part;
  if (!left) return null;
  return column.findIndex((each) => { left -= each; return each > 0 && left <= 1e-9; });
}

export class Heat {
  constructor(title, name) {
    this.title = title;
    this.name = name;
    this.cells = svg("g");
    this.lines = [svg("path", { class: "p50" }), svg("path", { class: "p99" })];
    this.drawing = svg("svg", { viewBox: `0 0 ${COLUMNS} 13`, role: "img", preserveAspectRatio: "none", class: "heat" }, this.cells, ...this.lines);
    this.values = [el("b"), el("b")];
    this.edges = el("div", { class: "edges", "aria-hidden": "true" });
    [this.from, this.until] = [el("span"), el("span")];
    this.rows = el("tbody");
    this.element = figure(title, [["p50", "p50", this.values[0]], ["p99", "p99", this.values[1]]], [this.edges, this.drawing], [this.from, this.until],
      ["Minute", "Items", "p50", "p99"], this.rows);
  }

  update(view) {
    const { heat } = view;
    const columns = heat[this.name];
    say(this.values[0], span(view[this.name === "waiting" ? "wait_p50_ms" : "service_p50_ms"]));
    say(this.values[1], span(view[this.name === "waiting" ? "wait_p99_ms" : "service_p99_ms"]));
    renew(this.cells, [columns, heat.since_ms], () => this.draw(columns, heat));
  }

  draw(columns, heat) {
    const height = heat.edges_ms.length + 1;
    const first = COLUMNS - columns.length;
    const most = columns.flat().reduce((top, each) => Math.max(top, each), 1);
    const cells = [];
    const lines = ["", ""];
    const rows = [];
    columns.forEach((column, at) => {
      const when = minute(heat.since_ms + at * heat.step_ms);
      column.forEach((count, cell) => {
        if (!count) return;
        const strength = (0.15 + 0.85 * (Math.log1p(count) / Math.log1p(most))).toFixed(2);
        cells.push(svg("rect", { x: first + at, y: height - 1 - cell, width: 0.92, height: 0.92, "fill-opacity": strength },
          svg("title", {}, `${when}: ${number(count)} ${edge(heat.edges_ms, cell)}`)));
      });
      const parts = [0.5, 0.99].map((part) => cellOf(column, part));
      parts.forEach((cell, nth) => { if (cell !== null) lines[nth] += `M${first + at} ${height - cell - 0.5}h1`; });
      if (parts[0] !== null) {
        rows.push(el("tr", {}, ...[when, number(column.reduce((sum, each) => sum + each, 0)), ...parts.map((cell) => edge(heat.edges_ms, cell))].map((each) => el("td", {}, each))));
      }
    });
    this.lines.forEach((each, nth) => each.setAttribute("d", lines[nth]));
    this.rows.replaceChildren(...rows.slice(-TABLE_ROWS).reverse());
    this.edges.replaceChildren(...[12, 8, 4, 0].filter((cell) => cell < heat.edges_ms.length + 1).map((cell) => el("span", {}, span(heat.edges_ms[Math.max(0, cell - 1)]))));
    const end = heat.since_ms + columns.length * heat.step_ms;
    say(this.from, minute(end - COLUMNS * heat.step_ms));
    say(this.until, minute(end));
    const said = rows.length ? `the newest minute: p50 ${rows.at(-1).children[2].textContent}, p99 ${rows.at(-1).children[3].textContent}` : "no item in the last hour";
    this.drawing.setAttribute("aria-label", `${this.title}: ${said}`);
    return cells;
  }
}
