// Queues: a hundred a page, sorted and searched by the server; all of it is in the address.

import { sparkline } from "./charts.js";
import { button, choice, el, exact, given, itemAt, note, nothing, queueAt, statusLine, tools } from "./dom.js";
import { Asking } from "./live.js";
import { numberColumn, Table } from "./tables.js";
import { sign } from "./verdict.js";
import { number, params, quoted, rate, sentence, span } from "./words.js";

const PAGE = 100;
const SORTS = [["trouble", "trouble"], ["oldest", "oldest item"], ["dead", "dead letters"], ["blocked", "blocked keys"],
  ["items", "items"], ["rate", "stored a second"], ["name", "name"]];

// Where a queue is, on a server with slices.
export const placeOf = ({ slice, member }) => (slice ? `slice ${slice}${member ? `, ${member}` : ""}` : "all slices");

function nameCell(row, tab = "now") {
  const why = row.why ?? (row.paused ? "paused" : null);
  return [el("a", { href: queueAt(row.name, tab) }, row.name), row.slice === undefined ? null : el("small", { class: "place" }, placeOf(row)), why ? sign(row.level === "ok" ? "warn" : row.level, why) : null];
}

export function queueTable(caption, none) {
  return new Table(caption, [
    { label: "Queue", kind: "name", key: (row) => [row.level, row.why, row.paused, row.slice, row.member], node: (row) => nameCell(row) },
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
function pager(offset, change) {
  const before = button("Before", () => change({ offset: Math.max(0, offset - PAGE) }), { id: "before" });
  const next = button("Next", () => change({ offset: offset + PAGE }), { id: "next" });
  return { element: tools(before, next), update(shown, total) {
    before.hidden = offset === 0;
    next.hidden = offset + shown >= total;
  } };
}

const offsetOf = ({ offset }) => Math.max(0, Math.min(100000, Number.parseInt(offset, 10) || 0));

export class Queues {
  constructor(_, parameters, change) {
    const { search = "", sort = "trouble" } = parameters;
    this.offset = offsetOf(parameters);
    const known = SORTS.some(([value]) => value === sort) ? sort : "trouble";
    this.query = { view: "queues", ...given({ search: search.slice(0, 128) }, "search"), sort: known, order: known === "name" ? "up" : "down", offset: this.offset, limit: PAGE };
    this.title = "Queues";
    const box = el("input", { id: "search", type: "search", value: search, maxlength: 128, onchange: () => change({ search: box.value, offset: null }) });
    const by = choice(known, SORTS, (value) => change({ sort: value, offset: null }), { id: "sort" });
    this.count = statusLine();
    this.table = queueTable("Queues", "No queue matches.");
    this.pager = pager(this.offset, change);
    this.elements = [tools(el("label", {}, "Part of the name", box), el("label", {}, "Sorted by", by), this.count),
      this.table.element, this.pager.element];
  }

  update(view) {
    const shown = view.queues.order.length;
    this.count.textContent = view.total ? `${number(this.offset + 1)} to ${number(this.offset + shown)} of ${number(view.total)}` : "";
    this.pager.update(shown, view.total);
    this.table.update(view.queues);
  }
}

// -- dead letters over all queues

export class DeadQueues {
  constructor(_, parameters, change) {
    this.offset = offsetOf(parameters);
    this.query = { view: "queues", sort: "dead", order: "down", offset: this.offset, limit: 100 };
    this.title = "Dead letters";
    this.table = new Table("Queues with dead letters", [
      { label: "Queue", kind: "name", key: (r) => [r.level, r.why, r.slice, r.member], node: (r) => nameCell(r, "dead") },
      numberColumn("Dead", "dead", { marks: true }),
      numberColumn("Ready", "ready", { marks: true }),
      numberColumn("Leased", "leased", { marks: true }),
    ], "No queue has dead letters.");
    this.pager = pager(this.offset, change);
    this.elements = [this.table.element, this.pager.element];
  }

  update({ queues, total }) {
    const order = queues.order.filter((id) => queues.rows[id].dead > 0);
    this.table.update({ order, rows: Object.fromEntries(order.map((id) => [id, queues.rows[id]])) });
    this.pager.update(order.length < queues.order.length ? total : queues.order.length, total);
  }
}

// -- what a text names, in all queues: every hit leads to its place

const KINDS = { queue: "Queue", item: "Item", marker: "Marker", token: "Token of a lease", id: "Dedupe id", key: "Key" };

function placeOfHit(hit) {
  return hit.item === null ? queueAt(hit.queue) : itemAt(hit.queue, hit.item);
}

function words(text, hit) {
  if (hit.item === null) return hit.queue;
  return hit.kind === "item" ? `item ${hit.item} of ${hit.queue}` : `${text}: item ${hit.item} of ${hit.queue}`;
}

export class Find extends Asking {
  constructor(_, { text = "" }) {
    super();
    this.title = `Find ${text}`;
    this.query = { view: "queues", limit: 1 };
    this.place = el("div", {}, nothing("Looking…"));
    this.elements = [this.place];
    this.look(text);
  }

  async look(text) {
    try {
      const { hits, is_whole: isWhole } = await this.ask(`/admin/find?${params({ text })}`);
      if (hits.length === 1 && isWhole) { location.replace(placeOfHit(hits[0])); return; }
      this.place.replaceChildren(hits.length ? el("ul", { class: "hits" }, ...hits.map((hit) => el("li", {},
        exact(KINDS[hit.kind] ?? hit.kind), el("a", { href: placeOfHit(hit) }, words(text, hit)),
        hit.kind === "key" ? el("a", { href: `#/queues/${quoted(hit.queue)}/items?${params({ key: text })}` }, "all items of this key") : null,
        hit.state ? exact(hit.state) : null)))
        : nothing("Nothing has this name, number, key or id. A key is found while an item holds it."));
      if (!isWhole) this.place.append(note("There may be more: these are the first."));
    } catch (error) {
      if (!this.signal.aborted) this.place.replaceChildren(el("p", { class: "error" }, sentence(error.message)));
    }
  }
}
