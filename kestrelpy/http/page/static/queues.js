// Queues: a hundred a page, sorted and searched by the server; all of it is in the address.

import { sparkline } from "./charts.js";
import { button, el, queueAt, statusLine } from "./dom.js";
import { numberColumn, Table } from "./tables.js";
import { sign } from "./verdict.js";
import { number, rate, span } from "./words.js";

const PAGE = 100;
const SORTS = [["trouble", "trouble"], ["oldest", "oldest item"], ["dead", "dead letters"], ["blocked", "blocked keys"],
  ["items", "items"], ["rate", "stored a second"], ["name", "name"]];

export function nameCell(row, tab = "now") {
  const why = row.why ?? (row.paused ? "paused" : null);
  return [el("a", { href: queueAt(row.name, tab) }, row.name), why ? sign(row.level === "ok" ? "warn" : row.level, why) : null];
}

export function queueTable(caption, none) {
  return new Table(caption, [
    { label: "Queue", kind: "name", key: (row) => [row.level, row.why, row.paused], node: (row) => nameCell(row) },
    numberColumn("Ready", "ready", { marks: true }),
    { label: "Leased", kind: "n", marks: true, text: (row) => number(row.leased) + (row.max_leased == null ? "" : ` of ${number(row.max_leased)}`) },
    numberColumn("Dead", "dead", { marks: true }),
    numberColumn("Delayed", "delayed", { minor: true, marks: true }),
    numberColumn("Blocked keys", "blocked", { minor: true, marks: true }),
    { label: "Oldest", kind: "n", minor: true, text: (row) => (row.oldest_ms ? span(row.oldest_ms) : "–") },
    { label: "In", kind: "n", minor: true, text: (row) => rate(row.rate) },
    { label: "Out", kind: "n", minor: true, text: (row) => rate(row.out_rate) },
    { label: "Ready, 1 h", minor: true, key: (row) => row.spark, node: (row) => sparkline(row.spark) },
  ], none);
}

// Buttons to the page before and the next one of a list by position.
export function pager(offset, change) {
  const before = button("Before", () => change({ offset: Math.max(0, offset - PAGE) }), { id: "before" });
  const next = button("Next", () => change({ offset: offset + PAGE }), { id: "next" });
  return { element: el("div", { class: "tools" }, before, next), update(shown, total) {
    before.hidden = offset === 0;
    next.hidden = offset + shown >= total;
  } };
}

export class Queues {
  constructor(_, parameters, change) {
    const { search = "", sort = "trouble" } = parameters;
    this.offset = Math.max(0, Math.min(100000, Number.parseInt(parameters.offset, 10) || 0));
    const known = SORTS.some(([value]) => value === sort) ? sort : "trouble";
    this.query = { view: "queues", search: search.slice(0, 128), sort: known, order: known === "name" ? "up" : "down", offset: this.offset, limit: PAGE };
    this.title = "Queues";
    const box = el("input", { id: "search", type: "search", value: search, maxlength: 128, onchange: () => change({ search: box.value, offset: null }) });
    const by = el("select", { id: "sort", onchange: () => change({ sort: by.value, offset: null }) }, ...SORTS.map(([value, word]) => el("option", { value }, word)));
    by.value = known;
    this.count = statusLine();
    this.table = queueTable("Queues", "No queue matches.");
    this.pager = pager(this.offset, change);
    this.elements = [el("div", { class: "tools" }, el("label", {}, "Part of the name", box), el("label", {}, "Sorted by", by), this.count),
      this.table.element, this.pager.element];
  }

  update(view) {
    const shown = view.queues.order.length;
    this.count.textContent = view.total ? `${number(this.offset + 1)} to ${number(this.offset + shown)} of ${number(view.total)}` : "";
    this.pager.update(shown, view.total);
    this.table.update(view.queues);
  }
}
