// What can be done with a whole queue, or with one item of it: asked first, with its number.

import { kestrelpy, nc, sh } from "./commands.js";
import { confirm, field, tell } from "./dialogs.js";
import { el, tools } from "./dom.js";
import { begin } from "./jobs.js";
import { ask } from "./server.js";
import { counted, number, pathOf, sentence } from "./words.js";

// Ask for the facts of a queue, then open the dialog that needs them.
async function withFacts(name, open) {
  try {
    const { facts } = await ask(pathOf(name));
    open(facts);
  } catch (error) { tell(error.message); }
}

export function pauseQueue(name) {
  withFacts(name, ({ paused }) => {
    const verb = paused ? "resume" : "pause";
    confirm({
      title: paused ? `Lease items of ${name} again?` : `Pause ${name}?`, label: paused ? "Resume" : "Pause",
      text: paused ? "Its items are leased again, to the clients that wait first." : "It leases nothing until it is resumed. It stores, confirms and shows items as before.",
      commands: () => [kestrelpy(`queues ${verb} ${sh(name)}`), ...nc(`${verb} ${name}`)],
      async run() {
        await ask(`${pathOf(name)}/${verb}`, { method: "POST" });
        return paused ? `${name} leases items again.` : `${name} is paused.`;
      },
    });
  });
}

// What cannot be read: by number, unless the reason tells of more than that.
export function lossOf({ state, reason, unreadable }) {
  return sentence(state === "damaged" && reason ? reason : `${counted(unreadable, "item")} cannot be read`);
}

export function acknowledgeLoss(name) {
  withFacts(name, (facts) => {
    confirm({
      title: `Give up the unreadable items of ${name}?`, label: "Give up", danger: true, typed: name,
      text: `${lossOf(facts)} This ends ${facts.unreadable === 1 ? "it" : "them"} for good; items that can be read stay. To try to read ${facts.unreadable === 1 ? "it" : "them"} again, mend the disk and restart the daemon instead.`,
      commands: () => [kestrelpy(`queues acknowledge ${sh(name)}`), ...nc(`acknowledge ${name}`)],
      async run() {
        const { count } = await ask(`${pathOf(name)}/acknowledge`, { method: "POST" });
        return `${counted(count, "item")} of ${name} given up.`;
      },
    });
  });
}

export function flushQueue(name) {
  withFacts(name, ({ items, delayed }) => {
    confirm({
      title: `Flush ${name}?`, label: "Flush", danger: true, typed: name,
      text: `This removes ${counted(items, "ready item")} and ${number(delayed)} delayed. Leased items and dead letters stay.`,
      commands: () => [kestrelpy(`queues flush ${sh(name)}`), ...nc(`flush ${name}`)],
      async run() {
        const { count } = await ask(`${pathOf(name)}/flush`, { method: "POST" });
        return `${counted(count, "item")} of ${name} removed.`;
      },
    });
  });
}

export function deleteQueue(name) {
  withFacts(name, ({ items, delayed, leased, dead }) => {
    confirm({
      title: `Delete ${name}?`, label: "Delete", danger: true, typed: name,
      text: `This removes the queue with its files: ${number(items)} ready, ${number(delayed)} delayed, ${number(leased)} leased and ${number(dead)} dead items. Its children keep theirs.`,
      commands: () => [kestrelpy(`queues delete ${sh(name)}`), ...nc(`delete ${name}`)],
      async run() {
        await ask(pathOf(name), { method: "DELETE" });
        location.hash = "/queues";
        return `${name} is deleted.`;
      },
    });
  });
}

export function moveReady(name) {
  withFacts(name, ({ items }) => {
    const target = el("input", { id: "target", required: true, maxlength: 128, spellcheck: "false" });
    const count = el("input", { id: "count", type: "number", min: 1, max: Number.MAX_SAFE_INTEGER, placeholder: "all" });
    const pace = el("input", { id: "rate", type: "number", min: 1, max: 100000, placeholder: "no limit" });
    const body = () => ({
      target: target.value.trim(), ...(count.value ? { count: Number(count.value) } : { all: true }), ...(pace.value ? { rate: Number(pace.value) } : {}),
    });
    confirm({
      title: `Move items of ${name}?`, label: "Move",
      text: `${counted(items, "item")} wait. They go to the end of the other queue, in their order. Leased items and dead letters stay.`,
      inner: [tools(field("To the queue", target), field("How many", count), field("Items a second", pace))],
      commands: () => [kestrelpy(`move ${sh(name)} ${sh(target.value || "TARGET")}${count.value ? ` --count ${count.value}` : ""}${pace.value ? ` --rate ${pace.value}/s` : ""}`),
        ...nc(`move ${name} ${target.value || "TARGET"} ${count.value || items}`)],
      run: () => begin(`${pathOf(name)}/move`, body(), `Moved to ${target.value.trim()}`),
    });
  });
}

// Remove one item that waits, or one dead letter.
export function removeItem(name, id, isDead) {
  confirm({
    title: `Remove item ${id} of ${name}?`, label: "Remove", danger: true,
    text: `This removes 1 item for good${isDead ? ", a dead letter" : ""}.`,
    commands: () => [kestrelpy(`${isDead ? "dead purge" : "item cancel"} ${sh(name)} ${id}`), ...nc(`delete ${name}/${isDead ? "dead/" : ""}item=${id}`)],
    async run() {
      await ask(`${pathOf(name)}/items/${id}`, { method: "DELETE" });
      return `Item ${id} is removed.`;
    },
  });
}

// Make a delayed item available now.
export function retryItem(name, id) {
  confirm({
    title: `Make item ${id} available now?`, label: "Make available",
    text: "Its delay ends, and the next client may get it.",
    commands: () => [kestrelpy(`item retry ${sh(name)} ${id}`), ...nc(`retry ${name} ${id}`)],
    async run() {
      await ask(`${pathOf(name)}/items/${id}/retry`, { method: "POST" });
      return `Item ${id} is available.`;
    },
  });
}
