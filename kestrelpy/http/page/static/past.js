// Where time goes, and time travel: retained items from a time or a marker on. Going there changes
// nothing on the server.

import { commandLine, nc } from "./commands.js";
import { field, sentence } from "./dialogs.js";
import { alertLine, button, el, given, h3, note, say, statusLine } from "./dom.js";
import { Heat } from "./heat.js";
import { itemColumns } from "./lists.js";
import { Asking } from "./live.js";
import { pathOf } from "./queue_actions.js";
import { Table } from "./tables.js";
import { moment, number, params, parseTime } from "./words.js";

const LIMIT = 50;
const CALLS_MAX = 200;

export class Past extends Asking {
  constructor(name, parameters, change) {
    super();
    this.name = name;
    this.query = { view: "queue", queue: name };
    this.heats = [new Heat("Waiting, by minute", "waiting"), new Heat("Service, by minute", "service")];
    const [at, key, text] = ["at", "key", "text"].map((id) => el("input", { id, value: parameters[id] ?? "", maxlength: 256 }));
    this.error = alertLine();
    const form = el("form", { class: "tools", onsubmit: (event) => {
      event.preventDefault();
      if (!placeOf(at.value)) { this.error.textContent = `“${at.value}” is neither a time nor a marker: write 03:12, a date, seconds since 1970, or #17.`; return; }
      change({ at: at.value.trim(), key: key.value, text: text.value });
    } }, field("Time or marker", at, "03:12, 2026-01-31 03:12, seconds since 1970, or #17"), field("Key", key), field("Text in the body", text), el("button", { type: "submit" }, "Go there"));
    this.said = statusLine();
    this.line = el("div", {});
    this.more = button("Step on", () => this.read(), { hidden: true });
    this.stop = button("Stop", () => { this.isStopped = true; }, { hidden: true });
    this.table = new Table("Retained items", itemColumns(name), "", { empty: false });
    this.elements = [h3("Where time goes"), el("div", { class: "charts", tabindex: 0, role: "group", "aria-label": "Where time goes" }, ...this.heats.map((each) => each.element)),
      h3("Go to a time"), form, this.error, this.said, this.table.element, el("div", { class: "tools" }, this.more, this.stop), this.line];
    this.table.scroll.hidden = true;
    const place = placeOf(parameters.at ?? "");
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
        say(this.said, `${number(this.rows.length)} items shown, ${number(looked)} looked at.${isOver ? " The items end here." : this.isStopped ? " Stopped." : ""}`);
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
