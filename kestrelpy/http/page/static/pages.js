// The pages: each has a query for its view, an element, and `update`.

import { Chart, sparkline } from "/page/charts.js";
import { ago, bytes, el, moment, number, say, span } from "/page/dom.js";
import { Table } from "/page/tables.js";

const LEVELS = { ok: "All well", warn: "Look at this", bad: "Act now" };
const quoted = encodeURIComponent;
const rate = (value) => (value === null || value === undefined ? "–" : `${number(value)}/s`);

export class Verdict {
  constructor() {
    this.said = el("p");
    this.list = el("ul");
    this.element = el("section", { class: "verdict", "aria-label": "Verdict" }, this.said, this.list);
  }

  update({ verdict, now_ms: nowMs }) {
    this.element.className = `verdict ${verdict.level}`;
    this.said.textContent = verdict.lines.length ? verdict.lines[0].text : "All is well.";
    const lines = verdict.lines.map((line) => el("li", {},
      el("span", { class: `level ${line.level}` }, LEVELS[line.level]), " ",
      el("a", { href: line.link }, line.text), " ",
      el("span", { class: "since" }, line.since_ms ? `since ${moment(line.since_ms)}, ${ago(line.since_ms, nowMs)}` : "")));
    const key = JSON.stringify([verdict, Math.floor(nowMs / 10000)]);
    const isHeld = this.list.contains(document.activeElement);
    if (this.key !== key && !isHeld) { this.key = key; this.list.replaceChildren(...lines); }
  }
}

class Figures {
  constructor(...shown) {
    this.shown = shown.map(([label, text]) => ({ text, value: el("dd"), label }));
    this.element = el("dl", { class: "figures" }, ...this.shown.map((each) =>
      el("div", {}, el("dt", {}, each.label), each.value)));
  }

  update(view) {
    for (const each of this.shown) say(each.value, each.text(view), each.value.parentElement);
  }
}

function queueTable(caption, none) {
  return new Table(caption, [
    { label: "Queue", kind: "t", text: (row) => row.name, href: (row) => `#/queues/${quoted(row.name)}/now` },
    { label: "State", key: (row) => [row.level, row.why, row.paused], node: (row) => el("span", { class: `level ${row.level}` }, row.why ?? (row.paused ? "paused" : "well")), kind: "t", minor: true },
    { label: "Ready", kind: "n", text: (row) => number(row.ready) },
    { label: "Leased", kind: "n", text: (row) => number(row.leased) + (row.max_leased === null || row.max_leased === undefined ? "" : ` of ${number(row.max_leased)}`) },
    { label: "Dead", kind: "n", text: (row) => number(row.dead) },
    { label: "Delayed", kind: "n", text: (row) => number(row.delayed), minor: true },
    { label: "Blocked keys", kind: "n", text: (row) => number(row.blocked), minor: true },
    { label: "Oldest", kind: "n", text: (row) => (row.oldest_ms ? span(row.oldest_ms) : "–"), minor: true },
    { label: "In", kind: "n", text: (row) => rate(row.rate), minor: true },
    { label: "Out", kind: "n", text: (row) => rate(row.out_rate), minor: true },
    { label: "Ready, last hour", key: (row) => row.spark, node: (row) => sparkline(row.spark), minor: true },
  ], none);
}

class Charts {
  constructor(...charts) {
    this.charts = charts;
    this.element = el("div", { class: "charts" }, ...charts.map((each) => each.element));
  }

  update(history) {
    this.element.hidden = !history;
    if (history) for (const each of this.charts) each.update(history);
  }
}

const flow = () => new Chart("Items a second", [["stored", "stored"], ["delivered", "delivered"], ["confirmed", "confirmed"]], number);
const depth = () => new Chart("Items", [["ready", "ready"], ["delayed", "delayed"], ["leased", "leased"], ["dead", "dead"]], number);
const oldest = () => new Chart("Oldest item", [["oldest_ms", "age"]], span);

function rangeTool(parameters, change) {
  const select = el("select", { onchange: () => change({ range: select.value }) },
    ...[["5m", "5 minutes"], ["1h", "1 hour"], ["24h", "24 hours"]].map(([value, word]) => el("option", { value }, word)));
  select.value = parameters.range ?? "1h";
  return el("div", { class: "tools" }, el("label", {}, "Range of the charts", select));
}

class Overview {
  constructor(_, parameters, change) {
    this.query = { view: "overview", range: parameters.range ?? "1h" };
    this.title = "Overview";
    this.figures = new Figures(
      ["Stored", (v) => rate(v.rates.stored)], ["Delivered", (v) => rate(v.rates.delivered)],
      ["Confirmed", (v) => rate(v.rates.confirmed)], ["Died", (v) => rate(v.rates.dead)],
      ["Ready", (v) => number(v.depth.ready)], ["Delayed", (v) => number(v.depth.delayed)],
      ["Leased", (v) => number(v.depth.leased)], ["Dead", (v) => number(v.depth.dead)],
      ["Oldest item", (v) => span(v.oldest_ms)], ["Waiting, p99", (v) => span(v.wait_p99_ms)],
      ["Sync, p99", (v) => span(v.sync_p99_ms)],
      ["Disk left", (v) => bytes(v.disk_free) + (v.disk_full_in_ms ? `, full in ${span(v.disk_full_in_ms)}` : "")],
      ["Queues", (v) => number(v.queues)], ["Connections", (v) => number(v.connections)]);
    this.charts = new Charts(flow(), depth(), oldest(),
      new Chart("Sync of the journals", [["sync_p99_ms", "p99"]], span));
    this.table = queueTable("The queues in most trouble", "No queue has an item.");
    this.elements = [this.figures.element, el("h3", {}, "Queues in most trouble"), this.table.element,
      el("h3", {}, "The past"), rangeTool(parameters, change), this.charts.element];
  }

  update(view) {
    this.figures.update(view);
    this.charts.update(view.history);
    this.table.update(view.trouble);
  }
}

const PAGE = 100;

class Queues {
  constructor(_, parameters, change) {
    const { search = "", sort = "trouble", offset = "0" } = parameters;
    this.query = { view: "queues", search, sort, order: sort === "name" ? "up" : "down", offset, limit: PAGE };
    this.title = "Queues";
    const box = el("input", { type: "search", value: search, maxlength: 128, onchange: () => change({ search: box.value, offset: 0 }) });
    const by = el("select", { onchange: () => change({ sort: by.value, offset: 0 }) },
      ...[["trouble", "trouble"], ["oldest", "oldest item"], ["dead", "dead letters"], ["blocked", "blocked keys"],
        ["items", "items"], ["rate", "stored a second"], ["name", "name"]].map(([value, word]) => el("option", { value }, word)));
    by.value = sort;
    this.count = el("p", { class: "since", role: "status" });
    this.table = queueTable("Queues", "No queue matches.");
    this.before = el("button", { type: "button", onclick: () => change({ offset: Math.max(0, offset - PAGE) }) }, "Before");
    this.next = el("button", { type: "button", onclick: () => change({ offset: Number(offset) + PAGE }) }, "Next");
    this.offset = Number(offset);
    this.elements = [el("div", { class: "tools" }, el("label", {}, "Part of the name", box), el("label", {}, "Sorted by", by)),
      this.count, this.table.element, el("div", { class: "tools" }, this.before, this.next)];
  }

  update(view) {
    const shown = view.queues.order.length;
    this.count.textContent = view.total ? `${number(this.offset + 1)} to ${number(this.offset + shown)} of ${number(view.total)}` : "";
    this.before.hidden = this.offset === 0;
    this.next.hidden = this.offset + shown >= view.total;
    this.table.update(view.queues);
  }
}

const TABS = { now: "Now", items: "Items", keys: "Keys", leases: "Leases", dead: "Dead" };

function itemColumns(view) {
  const time = (name) => (row) => (row[name] ? moment(row[name]) : "–");
  return {
    items: [["Item", (r) => r.id, "n"], ["State", (r) => r.state], ["Attempts", (r) => r.attempts, "n"],
      ["Stored", time("stored_ms")], ["Key", (r) => r.key ?? "–", "t"], ["Bytes", (r) => bytes(r.bytes), "n"],
      ["Body", (r) => r.body ?? `base64: ${r.base64}`, "t"]],
    leases: [["Item", (r) => r.id, "n"], ["Holder", (r) => r.holder, "t"], ["Ends", (r) => (r.ends_ms ? ago(r.ends_ms, view().now_ms) : "at the hang-up")],
      ["Held for", (r) => (r.began_ms ? span(view().now_ms - r.began_ms) : "–")], ["Attempts", (r) => r.attempts, "n"], ["Token", (r) => r.token ?? "–", "t"]],
    keys: [["Key", (r) => r.key, "t"], ["Waiting", (r) => number(r.waiting), "n"], ["Held by item", (r) => r.holder, "n"],
      ["State", (r) => r.holder_state], ["Holder", (r) => r.lease_holder ?? "–", "t"], ["Held for", (r) => (r.began_ms ? span(view().now_ms - r.began_ms) : "–")]],
    dead: [["Item", (r) => r.id, "n"], ["Died", time("died_ms")], ["Reason", (r) => r.reason ?? "–", "t"], ["Attempts", (r) => r.attempts, "n"], ["Bytes", (r) => bytes(r.bytes), "n"]],
  };
}

class Queue {
  constructor([name, tab = "now"], parameters, change) {
    this.title = name;
    const kind = tab in TABS ? tab : "now";
    this.query = { view: kind === "now" ? "queue" : kind, queue: name, ...(parameters.after ? { after: parameters.after } : {}) };
    const tabs = el("nav", { class: "tabs", "aria-label": "Parts of the queue" }, ...Object.entries(TABS).map(([id, word]) =>
      el("a", { href: `#/queues/${quoted(name)}/${id}`, ...(id === kind ? { "aria-current": "page" } : {}) }, word)));
    this.elements = [tabs];
    if (kind === "now") this.now();
    else {
      this.table = new Table(TABS[kind], itemColumns(() => this.view)[kind].map(([label, text, type]) => ({ label, text, kind: type })),
        { items: "No item is shown here: delayed ones have no place yet.", leases: "No item is leased.", keys: "No item waits for a key.", dead: "No dead letters." }[kind]);
      this.next = el("button", { type: "button", onclick: () => change({ after: this.view.next }) }, "Next");
      this.elements.push(this.table.element, el("div", { class: "tools" }, this.next));
    }
  }

  now() {
    this.why = el("ul");
    this.whyHead = el("h3", {}, "Why it stands still");
    this.figures = new Figures(
      ["Ready", (v) => number(v.queue.ready)], ["Leased", (v) => number(v.queue.leased)], ["Delayed", (v) => number(v.queue.delayed)],
      ["Dead", (v) => number(v.queue.dead)], ["Blocked keys", (v) => number(v.queue.blocked)], ["Waiting clients", (v) => number(v.queue.waiters)],
      ["Oldest item", (v) => span(v.queue.oldest_ms)], ["Waiting, p50", (v) => span(v.wait_p50_ms)], ["Waiting, p99", (v) => span(v.wait_p99_ms)],
      ["Service, p50", (v) => span(v.service_p50_ms)], ["Service, p99", (v) => span(v.service_p99_ms)],
      ["On disk", (v) => bytes(v.queue.journal.disk_bytes)]);
    this.charts = new Charts(flow(), depth(), oldest());
    this.elements.push(this.whyHead, this.why, this.figures.element, el("h3", {}, "The last hour"), this.charts.element);
  }

  update(view) {
    this.view = view;
    if (this.table) {
      this.table.update(view.rows);
      this.next.hidden = view.next === null || view.next === undefined;
      return;
    }
    this.figures.update(view);
    this.charts.update(view.history);
    this.whyHead.hidden = this.why.hidden = view.why.length === 0;
    this.why.replaceChildren(...view.why.map((each) => el("li", {}, each)));
  }
}

class Connections {
  constructor() {
    this.query = { view: "connections" };
    this.title = "Clients";
    this.table = new Table("Clients", [
      { label: "Peer", text: (r) => r.peer, kind: "t" }, { label: "Wire", text: (r) => r.wire },
      { label: "Leases", text: (r) => number(r.leases), kind: "n" }, { label: "Waits", text: (r) => (r.is_waiting ? "for an item" : "–") },
      { label: "Idle", text: (r) => span(r.idle_ms), kind: "n" }, { label: "Unsent", text: (r) => bytes(r.held_bytes), kind: "n", minor: true },
    ], "No client is connected.");
    this.elements = [this.table.element];
  }

  update(view) { this.table.update(view.rows); }
}

class Schedules {
  constructor() {
    this.query = { view: "schedules" };
    this.title = "Schedules";
    const time = (name) => (r) => (r[name] ? moment(r[name] * 1000) : "–");
    this.table = new Table("Schedules", [
      { label: "Name", text: (r) => r.name, kind: "t" }, { label: "Queue", text: (r) => r.queue, kind: "t" },
      { label: "Cron", text: (r) => `${r.cron} (${r.timezone})`, kind: "t" }, { label: "Next", text: time("next") },
      { label: "Last", text: time("last"), minor: true }, { label: "State", text: (r) => r.state, minor: true },
    ], "No schedule is configured.");
    this.elements = [this.table.element];
  }

  update(view) { this.table.update(view.rows); }
}

class Journal {
  constructor(_, parameters, change) {
    this.query = { view: "journal", range: parameters.range ?? "1h" };
    this.title = "Journal";
    this.figures = new Figures(
      ["Health", (v) => v.health], ["Mode", (v) => v.mode], ["Syncs", (v) => number(v.syncs)], ["Sync, p50", (v) => span(v.sync_p50_ms)],
      ["Sync, p99", (v) => span(v.sync_p99_ms)], ["Disk left", (v) => bytes(v.disk_free)]);
    this.charts = new Charts(new Chart("Sync of the journals", [["sync_p99_ms", "p99"]], span), new Chart("Free disk", [["disk_free", "free"]], bytes));
    this.elements = [this.figures.element, el("h3", {}, "The past"), rangeTool(parameters, change), this.charts.element];
  }

  update(view) { this.figures.update(view); this.charts.update(view.history); }
}

// Return the page at this path: ["queues", "jobs", "keys"].
export function pageAt(path, parameters, change) {
  const [first, ...rest] = path;
  if (first === "queues" && rest.length) return new Queue(rest, parameters, change);
  const kinds = { queues: Queues, connections: Connections, schedules: Schedules, journal: Journal };
  return new (kinds[first] ?? Overview)(rest, parameters, change);
}
