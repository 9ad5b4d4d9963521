// What can be done with a lease, in place of its holder: renew it, give the item back, make it a
// dead letter. It ends the delivery that was looked at, and no later one.

import { curl, nc, percent } from "./commands.js";
import { actionButton, confirm, field } from "./dialogs.js";
import { el } from "./dom.js";
import { pathOf } from "./queue_actions.js";
import { ask, mayWork } from "./server.js";

// Buttons of one lease: {id, token, holder, began_ms}; `ends_ms` is null for one by connection.
export function leaseButtons(queue, lease, { only } = {}) {
  const button = (label, act, more) => actionButton(label, () => act(queue, lease), { small: true, may: mayWork, ...more });
  return [
    only || lease.ends_ms === null ? null : button("Renew…", renewLease), button("Release…", release),
    only ? null : button("Dead-letter…", deadLetter, { danger: true }),
  ].filter(Boolean);
}

function pathTo(queue, { id, began_ms: began }, parameters = {}) {
  const query = new URLSearchParams({ ...parameters, ...(began ? { began_ms: began } : {}) });
  return `${pathOf(queue)}/leases/${id}${query.size ? `?${query}` : ""}`;
}

// The holder, and what becomes of it.
function holderOf({ holder, token }) {
  const isToken = !holder || holder === "token";
  return isToken ? `The client with token ${token} is not told: its confirm will be refused.` : `The client ${holder} goes on without the lease: its next close confirms nothing.`;
}

const byToken = ({ holder, token }, line) => (holder === "token" && token ? nc(line) : []);

function release(queue, lease) {
  const path = pathTo(queue, lease, { counts: true });
  confirm({
    title: `Release the lease of item ${lease.id}?`, label: "Release",
    text: `1 item goes back to ${queue}, and the next client may get it; the attempt counts. ${holderOf(lease)}`,
    commands: () => [...byToken(lease, `get ${queue}/abort/token=${lease.token}`), curl("DELETE", path)],
    async run() {
      await ask(path, { method: "DELETE" });
      return `Item ${lease.id} is back.`;
    },
  });
}

function renewLease(queue, lease) {
  const time = el("input", { id: "lease", value: "10m", maxlength: 16, required: true });
  const path = () => pathTo(queue, lease, { lease: time.value.trim() });
  confirm({
    title: `Renew the lease of item ${lease.id}?`, label: "Renew",
    inner: [field("It lasts from now for", time, "A whole number with ms, s, m, h or d, say 10m.")],
    commands: () => [curl("PATCH", path())],
    async run() {
      await ask(path(), { method: "PATCH" });
      return `The lease of item ${lease.id} lasts for ${time.value.trim()} from now.`;
    },
  });
}

function deadLetter(queue, lease) {
  const why = el("input", { id: "why", value: "by an operator", maxlength: 200, required: true });
  const path = () => pathTo(queue, lease, { bury: why.value });
  confirm({
    title: `Make item ${lease.id} a dead letter?`, label: "Dead-letter", danger: true,
    text: `1 item becomes a dead letter at once. ${holderOf(lease)}`, inner: [field("Reason", why)],
    commands: () => [...byToken(lease, `get ${queue}/abort/dead=${percent(why.value)}/token=${lease.token}`), curl("DELETE", path())],
    async run() {
      await ask(path(), { method: "DELETE" });
      return `Item ${lease.id} is a dead letter.`;
    },
  });
}
