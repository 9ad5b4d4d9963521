// Dead letters of one queue, by reason.

import { bar } from "./charts.js";
import { actionButton, field } from "./dialogs.js";
import { alertLine, button, buttonRow, el, h3, itemAt, itemLink, note, queueAt, say } from "./dom.js";
import { List } from "./lists.js";
import { actOnDead, Selection } from "./selection.js";
import { numberColumn, Table } from "./tables.js";
import { bytes, counted, params, parseTime, pathOf, present, stamp } from "./words.js";

const REASONS_SHOWN = 100;
const LOOK_MS = 5000;

const NO_REASON = "no reason given";

export class Dead extends List {
  constructor(name, parameters, change) {
    super(change);
    this.name = name;
    this.change = change;
    this.filter = {
      reason: parameters.reason, died_from_ms: parameters.from ? parseTime(parameters.from) : null,
      died_before_ms: parameters.before ? parseTime(parameters.before) : null, attempts_least: Number.parseInt(parameters.attempts, 10) || null,
    };
    const { reason, ...rest } = this.filter;
    this.query = present({ view: "dead", queue: name, after: parameters.after, key: reason, ...rest });
    const isHere = (r) => parameters.reason === r.reason;
    this.reasons = new Table("Dead letters by reason", [
      { label: "Reason", kind: "t", key: isHere, node: (r) => el("a", { href: queueAt(name, `dead?${params(isHere(r) ? {} : { reason: r.reason })}`), "aria-current": isHere(r) ? "true" : null }, r.reason || NO_REASON) },
      numberColumn("Dead", "count"), { label: "", minor: true, key: (r) => [r.count, r.most], node: (r) => bar(r.count, r.most) },
      { label: "First", minor: true, time: (r) => r.first_ms }, { label: "Last", time: (r) => r.last_ms },
      { label: "Sample", minor: true, key: (r) => r.sample, node: (r) => itemLink(name, r.sample) },
    ], "No dead letters.");
    this.rest = note();
    this.said = el("p", { role: "status", class: "chosen-words" });
    const act = (action) => () => actOnDead(action, this.selection());
    this.bar = el("div", { class: "bar" }, this.said, buttonRow(
      actionButton("Redrive…", act("redrive")), actionButton("Move…", act("move")), actionButton("Purge…", act("purge"), { danger: true })));
    this.table = new Table("Dead letters", [
      { label: "Item", kind: "n", text: (r) => r.id, href: (r) => itemAt(name, r.id) },
      { label: "Reason", kind: "t", text: (r) => r.reason || NO_REASON },
      { label: "Died", time: (r) => r.died_ms },
      numberColumn("Attempts", "attempts"),
      { label: "Bytes", kind: "n", minor: true, text: (r) => bytes(r.bytes) },
    ], "No dead letter matches.", { select: () => this.tell() });
    this.elements = [h3("By reason"), el("div", { class: "reasons" }, this.reasons.element, this.rest), this.filters(parameters), this.bar, this.table.element, this.steps];
    this.tell();
    this.every(LOOK_MS, async () => this.showReasons(await this.ask(`${pathOf(this.name)}/dead/reasons?limit=${REASONS_SHOWN}`)));
  }

  filters(parameters) {
    const box = (id, more = {}) => el("input", { id, value: parameters[id] ?? "", ...more });
    const [from, before, attempts] = [box("from", { placeholder: "14:00, or a date" }), box("before", { placeholder: "now" }), box("attempts", { type: "number", min: 0 })];
    for (const [each, ms] of [[from, this.filter.died_from_ms], [before, this.filter.died_before_ms]]) if (ms != null) each.value = stamp(ms);
    const error = alertLine();
    const form = el("form", { class: "tools", onsubmit: (event) => {
      event.preventDefault();
      const bad = [from, before].find((each) => each.value.trim() && parseTime(each.value) === null);
      if (bad) { error.textContent = `“${bad.value}” is no time: write 14:00, 2026-01-31 14:00, or seconds since 1970.`; bad.focus(); return; }
      this.change({ from: parseTime(from.value), before: parseTime(before.value), attempts: attempts.value, after: null }); // the address has exact times
    } }, field("Died from", from), field("Died before", before), field("Attempts, at least", attempts), el("button", { type: "submit" }, "Filter"),
    button("No filter", () => this.change({ from: null, before: null, attempts: null, reason: null, after: null })), error);
    return el("details", { open: Boolean(parameters.from || parameters.before || parameters.attempts), class: "filters" }, el("summary", {}, "Filter by time and attempts"), form);
  }

  selection() {
    return new Selection(this.name, this.filter, [...this.table.chosen].map(Number));
  }

  tell() { say(this.said, `Chosen: ${this.selection().words()}`); }

  showReasons({ reasons: rows, matched, is_complete: isComplete }) {
    const most = rows[0]?.count;
    this.reasons.update({ order: rows.map((each) => each.reason), rows: Object.fromEntries(rows.map((each) => [each.reason, { ...each, most }])) });
    const rest = matched - rows.length;
    say(this.rest, `${rest > 0 ? `And ${counted(rest, "more reason")}. ` : ""}${isComplete ? "" : "There are more dead letters than were counted."}`);
  }

  update(view) {
    super.update(view);
    this.bar.hidden = !this.table.rows.size && !Object.keys(view.rows.rows).length;
  }
}
