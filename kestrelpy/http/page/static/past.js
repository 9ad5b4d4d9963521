// Where time goes, and time travel: retained items from a time or a marker on. Going there changes
// nothing on the server.

import { commandLine } from "/page/copying.js";
import { button, el, note, say } from "/page/dom.js";
import { Heat } from "/page/heat.js";
import { printed } from "/page/lists.js";
import { given, itemAt } from "/page/places.js";
import { pathOf } from "/page/queue_actions.js";
import { ask } from "/page/server.js";
import { field, sentence } from "/page/dialogs.js";
import { Table } from "/page/tables.js";
import { bytes, moment, nc, number, parseTime } from "/page/words.js";

const LIMIT = 50;
const CALLS_MAX = 200;

export class Past {
  constructor(name, parameters, change) {
    this.name = name;
    this.query = { view: "queue", queue: name };
    this.heats = [new Heat("Waiting, by minute", "waiting"), new Heat("Service, by minute", "service")];
    this.ending = new AbortController();
    const [at, key, text] = ["at", "key", "text"].map((id) => el("input", { id, value: parameters[id] ?? "", maxlength: 256 }));
    this.error = el("p", { class: "error", role: "alert" });
    const form = el("form", { class: "tools", onsubmit: (event) => {
      event.preventDefault();
      if (!placeOf(at.value)) { this.error.textContent = `“${at.value}” is neither a time nor a marker: write 03:12, a date, seconds since 1970, or #17.`; return; }
      change({ at: at.value.trim(), key: key.value, text: text.value });
    } }, field("Time or marker", at, "03:12, 2026-01-31 03:12, seconds since 1970, or #17"), field("Key", key), field("Text in the body", text), el("button", { type: "submit" }, "Go there"));
    this.said = el("p", { class: "exact", role: "status" });
    this.line = el("div", {});
    this.more = button("Step on", () => this.read(), { hidden: true });
    this.stop = button("Stop", () => { this.isStopped = true; }, { hidden: true });
    this.table = new Table("Retained items", [
      { label: "Item", kind: "n", text: (r) => r.id, href: (r) => itemAt(name, r.id) },
      { label: "Marker", kind: "n", minor: true, text: (r) => r.marker ?? "–" },
      { label: "Stored", time: (r) => r.stored_ms },
      { label: "State", text: (r) => r.state },
      { label: "Key", kind: "t", minor: true, text: (r) => r.key ?? "–" },
      { label: "Bytes", kind: "n", minor: true, text: (r) => bytes(r.bytes) },
      { label: "Body", kind: "t body", minor: true, text: (r) => printed(r.body ?? `base64: ${r.base64}`).slice(0, 120) },
    ], "", { empty: false });
    this.elements = [el("h3", {}, "Where time goes"), el("div", { class: "charts", tabindex: 0, role: "group", "aria-label": "Where time goes" }, ...this.heats.map((each) => each.element)),
      el("h3", {}, "Go to a time"), form, this.error, this.said, this.table.element, el("div", { class: "tools" }, this.more, this.stop), this.line];
    this.table.scroll.hidden = true;
    const place = placeOf(parameters.at ?? "");
    const wanted = { ...given(parameters, "key", "text"), limit: LIMIT };
    this.path = `${pathOf(name)}/at?${new URLSearchParams({ ...place, ...wanted })}`;
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
      for (let call = 0; call < CALLS_MAX && !this.ending.signal.aborted; call += 1) {
        const said = await ask(this.path, { signal: this.ending.signal });
        looked += said.looked;
        found += said.items.length;
        this.show(said.items);
        const isOver = said.next === null;
        this.path = said.next;
        this.more.hidden = isOver;
        say(this.said, `${number(this.rows.length)} items shown, ${number(looked)} looked at.${isOver ? " The items end here." : this.isStopped ? " Stopped." : ""}`);
        if (isOver || found >= LIMIT || this.isStopped) break;
      }
    } catch (error) { if (!this.ending.signal.aborted) this.error.textContent = sentence(error.message); }
    this.stop.hidden = true;
  }

  show(items) {
    this.rows.push(...items);
    this.table.update({ order: this.rows.map((each) => String(each.id)), rows: Object.fromEntries(this.rows.map((each) => [each.id, each])) });
    const first = this.rows[0];
    if (first) this.line.replaceChildren(note(`The same by hand, from ${moment(first.stored_ms)} on:`), commandLine(nc(`gets ${this.name}/peek/after=${Math.max((first.marker ?? first.id) - 1, 0)}/n=${LIMIT}`)));
  }

  update(view) { for (const each of this.heats) each.update(view); }

  end() { this.ending.abort(); }
}

// Where to go: {after} a marker for "#17", {ms} for a time; null: the text is neither.
export function placeOf(text) {
  const marker = /^#(\d{1,15})$/.exec(text.trim());
  if (marker) return { after: Math.max(Number(marker[1]) - 1, 0) };
  const ms = text.trim() ? parseTime(text) : null;
  return ms === null ? null : { ms };
}
