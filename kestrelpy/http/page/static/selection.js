// Which dead letters an action takes: all, all that match a filter, or the rows that were chosen.
// The selection is all that match, not the rows on the screen.

import { curl, kestrelpy, sh } from "./commands.js";
import { confirm, field } from "./dialogs.js";
import { el, say, tools } from "./dom.js";
import { begin, preview } from "./jobs.js";
import { Refused } from "./server.js";
import { counted, number, pathOf, present, sentence } from "./words.js";

// `filter` is {reason, died_from_ms, died_before_ms, attempts_least}, `ids` the chosen rows.
export class Selection {
  constructor(queue, filter = {}, ids = []) {
    this.queue = queue;
    this.filter = present(filter);
    this.ids = ids;
  }

  get isAll() { return !this.ids.length && !Object.keys(this.filter).length; }

  body() {
    if (this.ids.length) return { ids: this.ids };
    return this.isAll ? { all: true } : { filter: this.filter };
  }

  words() {
    if (this.ids.length) return counted(this.ids.length, "chosen dead letter");
    if (this.isAll) return "all dead letters";
    const { reason, died_from_ms: from, died_before_ms: before, attempts_least: attempts } = this.filter;
    const parts = [];
    if (reason !== undefined) parts.push(`of the reason “${reason}”`);
    if (from || before) parts.push("that died in this time");
    if (attempts) parts.push(`with ${attempts} attempts or more`);
    return `all dead letters ${parts.join(", ")}`;
  }
}

// The line of kestrelpy where it can say the same, and that of curl.
function lines(action, selection, path, body) {
  const { queue, ids } = selection;
  const which = ids.length ? ids.join(" ") : "--all";
  const made = [];
  if (ids.length || selection.isAll) {
    const verb = action === "purge" ? "purge" : "redrive";
    made.push(kestrelpy(`dead ${verb} ${sh(queue)} ${which}${body.target ? ` --to ${sh(body.target)}` : ""}${body.rate ? ` --rate ${body.rate}/s` : ""}`));
  }
  return [...made, curl("POST", path, body)];
}

const KINDS = {
  redrive: { label: "Redrive", verb: "go to the end of their queue again, with no attempts counted and without an expiry", done: "Redriven" },
  move: { label: "Move", verb: "go to the end of the other queue", done: "Moved" },
  purge: { label: "Purge", verb: "are removed for good", done: "Purged" },
};

// Ask about an action on a selection, with what it will do counted by the server first.
export function actOnDead(action, selection) {
  const kind = KINDS[action];
  const path = `${pathOf(selection.queue)}/${action === "move" ? "redrive" : action}`;
  const target = action === "move" ? el("input", { id: "target", required: true, maxlength: 128, spellcheck: "false" }) : null;
  const pace = el("input", { id: "rate", type: "number", min: 1, max: 100000, placeholder: "no limit" });
  const count = el("p", { role: "status", class: "preview" }, "Counting…");
  const body = () => ({
    ...selection.body(), ...(target?.value.trim() ? { target: target.value.trim() } : {}), ...(pace.value ? { rate: Number(pace.value) } : {}),
  });
  const dialog = confirm({
    title: `${kind.label} ${selection.words()} of ${selection.queue}?`, label: kind.label, danger: action === "purge",
    typed: action === "purge" && selection.isAll ? selection.queue : null,
    inner: [count, tools(target ? field("To the queue", target) : null, field("Items a second", pace, "Empty: as fast as it goes."))],
    commands: () => lines(action, selection, path, body()),
    run: () => begin(path, body(), target ? `${kind.done} to ${target.value.trim()}` : kind.done),
  });
  const ending = new AbortController();
  dialog.addEventListener("close", () => ending.abort());
  countFirst(count, selection, path, kind, ending.signal);
  target?.addEventListener("change", () => countFirst(count, selection, path, kind, ending.signal, target.value.trim()));
}

async function countFirst(shown, selection, path, kind, signal, target = null) {
  try {
    const body = { ...selection.body(), ...(target ? { target } : {}) };
    const job = await preview(path, body, (at) => say(shown, `Counting: ${number(at.done)} so far.`), signal);
    const refused = job.refused.map((each) => ` ${counted(each.count, "item")} would stay: ${each.why}.`).join("");
    say(shown, job.error ? sentence(job.error)
      : `${counted(job.done, "dead letter")} ${job.done === 1 ? kind.verb.replace(/^go/, "goes").replace("are", "is").replace("their", "its") : kind.verb}.${refused}`);
  } catch (error) {
    if (!signal.aborted) say(shown, error instanceof Refused ? sentence(error.message) : "The server did not answer: nothing is counted.");
  }
}
