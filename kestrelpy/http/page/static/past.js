// Where time goes, and time travel: retained items from a time or a marker on. Going there changes
// nothing on the server.

import { figure } from "./charts.js";
import { commandLine, nc } from "./commands.js";
import { field } from "./dialogs.js";
import { alertLine, button, el, given, h3, note, renew, say, statusLine, svg, tools } from "./dom.js";
import { itemColumns } from "./lists.js";
import { Asking } from "./live.js";
import { Table } from "./tables.js";
import { counted, minute, moment, number, params, parseTime, pathOf, sentence, span, stamp } from "./words.js";

const LIMIT = 50;
const CALLS_MAX = 200;

export class Past extends Asking {
  constructor(name, parameters, change) {
    super();
    this.name = name;
    this.query = { view: "queue", queue: name };
    this.heats = [new Heat("Waiting, by minute", "waiting"), new Heat("Service, by minute", "service")];
    const place = placeOf(parameters.at ?? "");
    const [at, key, text] = ["at", "key", "text"].map((id) => el("input", { id, value: parameters[id] ?? "", maxlength: 256 }));
    at.placeholder = "03:12, a date, or #17";
    if (place?.ms) at.value = stamp(place.ms);
    this.error = alertLine();
    const form = el("form", { class: "tools", onsubmit: (event) => {
      event.preventDefault();
      if (!placeOf(at.value)) { this.error.textContent = `“${at.value}” is neither a time nor a marker: write 03:12, a date, seconds since 1970, or #17.`; return; }
      change({ at: placeOf(at.value).ms ?? at.value.trim(), key: key.value, text: text.value });
    } }, field("Time or marker", at), field("Key", key), field("Text in the body", text), el("button", { type: "submit" }, "Go there"));
    this.said = statusLine();
    this.line = el("div", {});
    this.more = button("Step on", () => this.read(), { hidden: true });
    this.stop = button("Stop", () => { this.isStopped = true; }, { hidden: true });
    this.table = new Table("Retained items", itemColumns(name), "", { empty: false });
    this.elements = [h3("Where time goes"), el("div", { class: "charts", tabindex: 0, role: "group", "aria-label": "Where time goes" }, ...this.heats.map((each) => each.element)),
      h3("Go to a time"), form, this.error, this.said, this.table.element, tools(this.more, this.stop), this.line];
    this.table.scroll.hidden = true;
    const wanted = { ...given(parameters, "key", "text"), limit: LIMIT };
    this.path = `${pathOf(name)}/at?${params({ ...place, ...wanted })}`;
    this.rows = [];
    if (parameters.at && place) this.read();
  }

  // Read on, until a page is full, the items end, or the button is pressed.
  async read() {
    this.isStopped = false;
    this.more.hidden = true;
    this.stop.hidden = false;
    this.error.textContent = "";
    let [looked, found] = [0, 0];
    try {
      for (let call = 0; call < CALLS_MAX && !this.signal.aborted; call += 1) {
        const said = await this.ask(this.path);
        looked += said.looked;
        found += said.items.length;
        this.show(said.items);
        const isOver = said.next === null;
        this.path = said.next;
        this.more.hidden = isOver;
        say(this.said, `${counted(this.rows.length, "item")} shown, ${number(looked)} looked at.${isOver ? " The items end here." : this.isStopped ? " Stopped." : ""}`);
        if (isOver || found >= LIMIT || this.isStopped) break;
      }
    } catch (error) { if (!this.signal.aborted) this.error.textContent = sentence(error.message); }
    this.stop.hidden = true;
  }

  show(items) {
    this.rows.push(...items);
    this.table.update({ order: this.rows.map((each) => String(each.id)), rows: Object.fromEntries(this.rows.map((each) => [each.id, each])) });
    const first = this.rows[0];
    if (first) this.line.replaceChildren(note(`The same by hand, from ${moment(first.stored_ms)} on:`), ...nc(`gets ${this.name}/peek/after=${Math.max((first.marker ?? first.id) - 1, 0)}/n=${LIMIT}`).map(commandLine));
  }

  update(view) { for (const each of this.heats) each.update(view); }
}

// Where to go: {after} a marker for "#17", {ms} for a time; null: the text is neither.
function placeOf(text) {
  const marker = /^#(\d{1,15})$/.exec(text.trim());
  if (marker) return { after: Math.max(Number(marker[1]) - 1, 0) };
  const ms = text.trim() ? parseTime(text) : null;
  return ms === null ? null : { ms };
}

// -- how long items waited or were worked on, minute by minute: darker cells have more items; the
// lines are p50 and p99

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

class Heat {
  constructor(title, name) {
    this.title = title;
    this.name = name;
    this.cells = svg("g");
    this.lines = [svg("path", { class: "p50" }), svg("path", { class: "p99" })];
    this.drawing = svg("svg", { viewBox: `0 0 ${COLUMNS} 13`, role: "img", "aria-label": title, preserveAspectRatio: "none", class: "heat" }, this.cells, ...this.lines);
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
    const most = Math.max(1, ...columns.flat());
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
    this.edges.replaceChildren(...[12, 8, 4, 0].filter((cell) => cell < heat.edges_ms.length + 1).map((cell) => el("span", {}, span(heat.edges_ms[Math.max(0, cell - 1)]).split(" ", 2).join(" "))));
    const end = heat.since_ms + columns.length * heat.step_ms;
    say(this.from, minute(end - COLUMNS * heat.step_ms));
    say(this.until, minute(end));
    const said = rows.length ? `the newest minute: p50 ${rows.at(-1).children[2].textContent}, p99 ${rows.at(-1).children[3].textContent}` : "no item in the last hour";
    this.drawing.setAttribute("aria-label", `${this.title}: ${said}`);
    return cells;
  }
}
