// What can be done with a lease: renew it, give the item back, make it a dead letter.

import { actionButton, confirm, field } from "/page/dialogs.js";
import { el } from "/page/dom.js";
import { curl } from "/page/queue_actions.js";
import { ask } from "/page/server.js";
import { nc, percent, quoted } from "/page/words.js";

const HOLDER = (lease) => (lease.holder && lease.holder !== "token" ? `The client ${lease.holder}` : `The client with token ${lease.token}`);

// Buttons of one lease: {id, token, holder}.
export function leaseButtons(queue, lease, { only } = {}) {
  const path = `/queues/${quoted(queue)}/leases/${lease.token}`;
  if (!lease.token) return [];
  return [
    only ? null : actionButton("Renew…", () => renewLease(queue, lease, path), { small: true }),
    actionButton("Release…", () => release(queue, lease, path), { small: true }),
    only ? null : actionButton("Dead-letter…", () => deadLetter(queue, lease, path), { small: true, danger: true }),
  ].filter(Boolean);
}

function release(queue, lease, path) {
  confirm({
    title: `Release the lease of item ${lease.id}?`, label: "Release",
    inner: [el("p", {}, `The item goes back to ${queue}, and the next client may get it; the attempt counts. ${HOLDER(lease)} works on without a lease: its confirm will be refused.`)],
    commands: () => [nc(`get ${queue}/abort/token=${lease.token}`), curl("DELETE", `${path}?abort=1`)],
    async run() {
      await ask(`${path}?abort=1`, { method: "DELETE" });
      return `Item ${lease.id} is back.`;
    },
  });
}

function renewLease(queue, lease, path) {
  const time = el("input", { id: "lease", value: "10m", maxlength: 16, required: true });
  confirm({
    title: `Renew the lease of item ${lease.id}?`, label: "Renew",
    inner: [field("It lasts from now for", time, "A whole number with ms, s, m, h or d, say 10m.")],
    commands: () => [curl("PATCH", `${path}?lease=${quoted(time.value)}`)],
    async run() {
      await ask(`${path}?lease=${quoted(time.value.trim())}`, { method: "PATCH" });
      return `The lease of item ${lease.id} lasts for ${time.value.trim()} from now.`;
    },
  });
}

function deadLetter(queue, lease, path) {
  const why = el("input", { id: "why", value: "by an operator", maxlength: 200, required: true });
  confirm({
    title: `Make item ${lease.id} a dead letter?`, label: "Dead-letter", danger: true,
    inner: [el("p", {}, `1 item becomes a dead letter at once. ${HOLDER(lease)} works on without a lease.`), field("Reason", why)],
    commands: () => [nc(`get ${queue}/abort/dead=${percent(why.value)}/token=${lease.token}`), curl("DELETE", `${path}?bury=${quoted(why.value)}`)],
    async run() {
      await ask(`${path}?bury=${quoted(why.value)}`, { method: "DELETE" });
      return `Item ${lease.id} is a dead letter.`;
    },
  });
}
