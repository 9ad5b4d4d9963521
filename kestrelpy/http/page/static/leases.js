// What can be done with a lease, in place of its holder: renew it, give the item back, make it a
// dead letter. It ends the delivery that was looked at, and no later one.

import { curl, nc, percent } from "./commands.js";
import { actionButton, confirm, field } from "./dialogs.js";
import { button, el, itemLink } from "./dom.js";
import { ask, mayWork } from "./server.js";
import { ago, moment, nowMs, number, pathOf } from "./words.js";

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

// -- who waits for whom: from a key to its holder, to the key that this one waits for, …

const STEPS_MAX = 16;
const BEHIND = /^behind key (.*) held by item (\d+)$/s;

// The key and the item that an item waits for, from the server's sentence; null: none.
export function blockerOf(why) {
  const found = BEHIND.exec(why);
  return found ? { key: found[1], holder: Number(found[2]) } : null;
}

// The server's reason as words; times in it are milliseconds since 1970.
export function whyWords(why) {
  return why.replace(/\blent\b/, "leased").replace(/\b(1\d{12})\b/, (ms) => `${moment(Number(ms))}, ${ago(Number(ms), nowMs)}`)
    .replace(/^behind (\d+) others?$/, (_, count) => `${number(Number(count))} ${count === "1" ? "item is" : "items are"} before it`);
}

// Follow the chain from an item, and show each step.
export async function followChain(queue, id, list, signal) {
  const seen = new Set();
  for (let step = 0; step < STEPS_MAX && !seen.has(id); step += 1) {
    seen.add(id);
    let item;
    try { item = await ask(`${pathOf(queue)}/items/${id}?body=0`, { signal }); } catch (error) { list.append(el("li", {}, error.message)); return; }
    const blocker = blockerOf(item.why);
    list.append(el("li", {}, itemLink(queue, id), blocker ? ` waits for key ${blocker.key}, held by item ${blocker.holder}` : `: ${item.state === "leased" ? "" : `${item.state}, `}${whyWords(item.why)}`));
    if (!blocker) return;
    id = blocker.holder;
  }
}

export function chainButton(queue, row) {
  const list = el("ol", { class: "chain", "aria-live": "polite" });
  const show = button("Show the chain", () => { show.hidden = true; followChain(queue, row.holder, list); }, { class: "small" });
  return el("div", {}, show, list);
}
