// Who waits for whom: from a key to its holder, to the key that this one waits for, to its holder, …

import { button, el, itemLink } from "./dom.js";
import { pathOf } from "./queue_actions.js";
import { ask } from "./server.js";

const STEPS_MAX = 16;
const BEHIND = /^behind key (.*) held by item (\d+)$/s;

// The key and the item that an item waits for, from the server's sentence; null: none.
export function blockerOf(why) {
  const found = BEHIND.exec(why);
  return found ? { key: found[1], holder: Number(found[2]) } : null;
}

// Follow the chain from an item, and show each step.
export async function followChain(queue, id, list, signal) {
  const seen = new Set();
  for (let step = 0; step < STEPS_MAX && !seen.has(id); step += 1) {
    seen.add(id);
    let item;
    try { item = await ask(`${pathOf(queue)}/items/${id}?body=0`, { signal }); } catch (error) { list.append(el("li", {}, error.message)); return; }
    const blocker = blockerOf(item.why);
    list.append(el("li", {}, itemLink(queue, id), blocker ? ` waits for key ${blocker.key}, held by item ${blocker.holder}` : `: ${item.state}, ${item.why.replace(/\d{13}/, "its end")}`));
    if (!blocker) return;
    id = blocker.holder;
  }
}

export function chainButton(queue, row) {
  const list = el("ol", { class: "chain", "aria-live": "polite" });
  const show = button("Show the chain", () => { show.hidden = true; followChain(queue, row.holder, list); }, { class: "small" });
  return el("div", {}, show, list);
}
