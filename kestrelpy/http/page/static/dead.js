// Dead letters: over all queues, and of one queue by reason.

import { bar } from "./charts.js";
import { actionButton, field } from "./dialogs.js";
import { alertLine, button, el, framed, given, h3, isHeld, itemAt, itemLink, note, nothing, renew, say } from "./dom.js";
import { List } from "./lists.js";
import { pathOf } from "./queue_actions.js";
import { nameCell, pager } from "./queues.js";
import { actOnDead, Selection } from "./selection.js";
import { numberColumn, Table } from "./tables.js";
import { bytes, counted, nowMs, number, params, parseTime, quoted, times } from "./words.js";

const REASONS_SHOWN = 100;
const LOOK_MS = 5000;

export class DeadQueues {
  constructor(_, parameters, change) {
    this.offset = Math.max(0, Math.min(100000, Number.parseInt(parameters.offset, 10) || 0));
    this.query = { view: "queues", sort: "dead", order: "down", offset: this.offset, limit: 100 };
    this.title = "Dead letters";
    this.table = new Table("Queues with dead letters", [
      { label: "Queue", kind: "name", key: (r) => [r.level, r.why], node: (r) => nameCell(r, "dead") },
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
    this.query = { view: "dead", queue: name, ...given(parameters, "after"), ...(parameters.reason ? { key: parameters.reason } : {}) };
    this.reasons = el("div", {});
    this.said = el("p", { role: "status", class: "chosen-words" });
    const act = (action) => () => actOnDead(action, this.selection());
    this.bar = el("div", { class: "bar" }, this.said, el("div", { class: "buttons" },
      actionButton("Redrive…", act("redrive")), actionButton("Move…", act("move")), actionButton("Purge…", act("purge"), { danger: true })));
    this.table = new Table("Dead letters", [
      { label: "Item", kind: "n", text: (r) => r.id, href: (r) => itemAt(name, r.id) },
      { label: "Reason", kind: "t", text: (r) => r.reason || NO_REASON },
      { label: "Died", time: (r) => r.died_ms },
      numberColumn("Attempts", "attempts"),
      { label: "Bytes", kind: "n", minor: true, text: (r) => bytes(r.bytes) },
    ], "No dead letters here.", { select: () => this.tell() });
    this.elements = [h3("By reason"), this.reasons, this.filters(parameters), this.bar, this.table.element, this.steps];
    this.tell();
    this.every(LOOK_MS, async () => this.showReasons(await this.ask(`${pathOf(this.name)}/dead/reasons?limit=${REASONS_SHOWN}`)));
  }

  filters(parameters) {
    const box = (id, more = {}) => el("input", { id, value: parameters[id] ?? "", ...more });
    const [from, before, attempts] = [box("from", { placeholder: "14:00, or a date" }), box("before", { placeholder: "now" }), box("attempts", { type: "number", min: 0 })];
    const error = alertLine();
    const form = el("form", { class: "tools", onsubmit: (event) => {
      event.preventDefault();
      const bad = [from, before].find((each) => each.value.trim() && parseTime(each.value) === null);
      if (bad) { error.textContent = `“${bad.value}” is no time: write 14:00, 2026-01-31 14:00, or seconds since 1970.`; bad.focus(); return; }
      this.change({ from: from.value.trim(), before: before.value.trim(), attempts: attempts.value, after: null });
    } }, field("Died from", from), field("Died before", before), field("Attempts, at least", attempts), el("button", { type: "submit" }, "Filter"),
    button("No filter", () => this.change({ from: null, before: null, attempts: null, reason: null, after: null })), error);
    const isOpen = Boolean(parameters.from || parameters.before || parameters.attempts);
    return el("details", { open: isOpen, class: "filters" }, el("summary", {}, "Filter by time and attempts"), form);
  }

  selection() {
    return new Selection(this.name, this.filter, [...this.table.chosen].map(Number));
  }

  tell() { say(this.said, `Chosen: ${this.selection().words()}`); }

  showReasons(said) {
    if (isHeld() && this.reasons.key) return;
    renew(this.reasons, [said, Math.floor(nowMs / 10000)], () => this.reasonTable(said));
  }

  reasonTable({ reasons: rows, matched, is_complete: isComplete }) {
    if (!rows.length) return nothing("No dead letters.");
    const most = rows[0].count;
    const heads = ["Reason", "Dead", "", "First", "Last", "Sample"];
    const body = rows.map((row) => {
      const isHere = this.filter.reason === row.reason;
      const pick = el("a", { href: `#/queues/${quoted(this.name)}/dead?${params(isHere ? {} : { reason: row.reason })}`, "aria-current": isHere ? "true" : null }, row.reason || NO_REASON);
      return el("tr", { class: isHere ? "chosen" : null }, el("td", { class: "t", "data-label": "Reason" }, pick), el("td", { class: "n", "data-label": "Dead" }, number(row.count)),
        el("td", { class: "minor" }, bar(row.count, most)),
        el("td", { class: "minor" }, ...times(row.first_ms)), el("td", { "data-label": "Last" }, ...times(row.last_ms)),
        el("td", { class: "minor" }, itemLink(this.name, row.sample)));
    });
    const rest = matched - rows.length;
    return [framed("Dead letters by reason", heads.map((each) => (each ? el("th", { scope: "col", class: each === "Dead" ? "n" : null }, each) : el("td"))), el("tbody", {}, ...body), "cards reasons"),
    rest > 0 || !isComplete ? note(`${rest > 0 ? `And ${counted(rest, "more reason")}. ` : ""}${isComplete ? "" : "There are more dead letters than were counted."}`) : null].filter(Boolean);
  }

  update(view) {
    super.update(view);
    this.bar.hidden = !this.table.rows.size && !Object.keys(view.rows.rows).length;
  }
}
