// Connections: who is there, what each holds and waits for; one can be closed.

import { curl } from "./commands.js";
import { actionButton, confirm } from "./dialogs.js";
import { el, exact, given, itemLink, queueLink } from "./dom.js";
import { List } from "./lists.js";
import { ask } from "./server.js";
import { numberColumn, Table } from "./tables.js";
import { bytes, counted, rate, span } from "./words.js";

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
