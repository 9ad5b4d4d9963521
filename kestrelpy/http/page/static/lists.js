// The items, keys and leases of one queue.

import { curl } from "./commands.js";
import { actionButton, confirm } from "./dialogs.js";
import { button, buttonRow, choice, el, exact, given, itemAt, itemLink, queueLink, tools } from "./dom.js";
import { chainButton, leaseButtons } from "./leases.js";
import { Asking } from "./live.js";
import { ask } from "./server.js";
import { numberColumn, Table } from "./tables.js";
import { bytes, counted, nowMs, params, quoted, rate, span } from "./words.js";

const STATES = ["ready", "leased", "delayed", "dead", "done"];
const SOON_MS = 10000;

export const printed = (text) => text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, (each) => `⟨${each.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}⟩`);

export function itemColumns(name) {
  return [
    { label: "Item", kind: "n", text: (r) => r.id, href: (r) => itemAt(name, r.id) },
    { label: "State", marks: true, text: (r) => r.state },
    { label: "Stored", time: (r) => r.stored_ms },
    numberColumn("Attempts", "attempts", { minor: true }),
    { label: "Marker", kind: "n", minor: true, text: (r) => r.marker ?? "–" },
    { label: "Key", kind: "t", minor: true, text: (r) => r.key ?? "–" },
    { label: "Bytes", kind: "n", minor: true, text: (r) => bytes(r.bytes) },
    { label: "Body", kind: "t body", minor: true, text: (r) => printed(r.body ?? `base64: ${r.base64}`).slice(0, 120) },
  ];
}

export class List extends Asking {
  constructor(change) {
    super();
    this.next = button("Next", () => change({ after: this.view.next }), { id: "next" });
    this.first = button("From the beginning", () => change({ after: null }));
    this.steps = tools(this.first, this.next);
  }

  update(view) {
    this.view = view;
    this.table.update(view.rows);
    this.next.hidden = view.next == null;
    this.next.textContent = view.rows.order.length ? "Next" : "Look further";
    this.first.hidden = !this.query.after;
  }
}

export class Items extends List {
  constructor(name, parameters, change) {
    super(change);
    const state = STATES.includes(parameters.state) ? parameters.state : "";
    this.query = { view: "items", queue: name, ...given({ ...parameters, state }, "state", "key", "after") };
    const by = choice(state, [["", "any, delayed ones not"], ...STATES.map((each) => [each, each])], (value) => change({ state: value, after: null }), { id: "item-state" });
    const key = el("input", { id: "key", type: "search", value: parameters.key ?? "", maxlength: 1024, onchange: () => change({ key: key.value, after: null }) });
    this.table = new Table("Items", itemColumns(name), state === "delayed" ? "No item is delayed." : "No item is here. Those that are delayed have no place yet: choose their state.");
    this.elements = [tools(el("label", {}, "State", by), el("label", {}, "Key", key)), this.table.element, this.steps];
  }
}

export class Keys extends List {
  constructor(name, parameters, change) {
    super(change);
    const isAll = parameters.held === "all";
    this.query = { view: "keys", queue: name, ...given(parameters, "after"), ...(isAll ? { state: "done" } : {}) };
    const by = choice(isAll ? "all" : "", [["", "that items wait for"], ["all", "all that are held"]], (value) => change({ held: value, after: null }), { id: "held" });
    this.table = new Table("Keys", [
      { label: "Key", kind: "t", text: (r) => r.key, href: (r) => `#/queues/${quoted(name)}/items?${params({ key: r.key })}` },
      numberColumn("Items waiting", "waiting", { marks: true }),
      { label: "Held by", key: (r) => [r.holder, r.holder_state], node: (r) => [itemLink(name, r.holder), ` ${r.holder_state}`] },
      { label: "Leased to", kind: "t", minor: true, text: (r) => (r.token ? `token ${r.token}` : r.lease_holder ?? "–") },
      { label: "Since", minor: true, time: (r) => r.began_ms },
      { label: "Actions", minor: false, key: (r) => [r.holder, r.token, r.holder_state], node: (r) => el("div", { class: "buttons" },
        ...(r.holder_state === "leased" ? leaseButtons(name, { ...r, id: r.holder, holder: r.lease_holder }, { only: true }) : [chainButton(name, r)])) },
    ], isAll ? "No item holds a key." : "No item waits for a key.");
    this.elements = [tools(el("label", {}, "Keys", by)), this.table.element, this.steps];
  }
}

export class Leases extends List {
  constructor(name, parameters, change) {
    super(change);
    this.query = { view: "leases", queue: name, ...given(parameters, "after") };
    const left = (r) => (r.ends_ms ? (r.ends_ms > nowMs ? span(Math.ceil((r.ends_ms - nowMs) / 1000) * 1000) : "over") : "at the hang-up");
    const isSoon = (r) => r.ends_ms && r.ends_ms - nowMs < SOON_MS;
    this.table = new Table("Leases", [
      { label: "Item", kind: "n", text: (r) => r.id, href: (r) => itemAt(name, r.id) },
      { label: "Holder", kind: "t", text: (r) => r.holder },
      { label: "Time left", key: (r) => [left(r), isSoon(r)], node: (r) => el("span", { class: isSoon(r) ? "level warn" : "" }, isSoon(r) ? "▲ " : "", left(r)) },
      { label: "Held for", minor: true, text: (r) => (r.began_ms ? span(nowMs - r.began_ms) : "–") },
      numberColumn("Attempts", "attempts", { minor: true }),
      { label: "Token", kind: "n", minor: true, text: (r) => r.token ?? "–" },
      { label: "Actions", key: (r) => [r.id, r.token, r.holder], node: (r) => buttonRow(...leaseButtons(name, r)) },
    ], "No item is leased.");
    this.elements = [this.table.element, this.steps];
  }
}

// -- connections: what each holds and waits for; one can be closed

function close(row) {
  const path = `/admin/connections/${row.id}`;
  confirm({
    title: `Close the connection of ${row.peer}?`, label: "Close it", danger: true,
    text: row.leases ? `${counted(row.leases, "lease")} by this connection end${row.leases === 1 ? "s" : ""}, and the items go back. Leases by token stay.` : "It holds no lease. The client may connect again.",
    commands: () => [curl("DELETE", path)],
    async run() {
      await ask(path, { method: "DELETE" });
      return `The connection of ${row.peer} is closed.`;
    },
  });
}

export class Clients extends List {
  constructor(_, parameters, change) {
    super(change);
    this.query = { view: "connections", ...given(parameters, "after") };
    this.title = "Clients";
    this.table = new Table("Clients", [
      { label: "Peer", kind: "t", key: (r) => [r.peer, r.user], node: (r) => [el("b", {}, r.peer), r.user ? exact(` ${r.user}`) : null] },
      { label: "Wire", text: (r) => r.wire },
      numberColumn("Leases", "leases", { marks: true }),
      { label: "Holds", minor: true, key: (r) => r.holds, node: (r) => r.holds.map((each) => el("div", {}, itemLink(each.queue, each.item), ` of ${each.queue}`)) },
      { label: "Waits in", key: (r) => [r.is_waiting, r.waits_for], node: (r) => (r.waits_for ? queueLink(r.waits_for) : r.is_waiting ? "a queue" : "–") },
      { label: "Commands", kind: "n", minor: true, text: (r) => rate(r.rate) },
      { label: "Idle", kind: "n", minor: true, text: (r) => (r.idle_ms == null ? "–" : span(r.idle_ms)) },
      { label: "Unsent", kind: "n", minor: true, text: (r) => bytes(r.held_bytes) },
      { label: "Actions", key: (r) => [r.id, r.leases, r.wire], node: (r) => actionButton("Close…", () => close(r), { small: true }) ?? "" },
    ], "No client is connected.");
    this.elements = [this.table.element, this.steps];
  }
}
