// What a text names, in all queues: every hit leads to its place.

import { sentence } from "/page/dialogs.js";
import { el, exact, note } from "/page/dom.js";
import { itemAt, queueAt } from "/page/places.js";
import { ask } from "/page/server.js";
import { quoted } from "/page/words.js";

const KINDS = { queue: "Queue", item: "Item", marker: "Marker", token: "Token of a lease", id: "Dedupe id", key: "Key" };

export function placeOfHit(hit) {
  return hit.item === null ? queueAt(hit.queue) : itemAt(hit.queue, hit.item);
}

function words(text, hit) {
  if (hit.item === null) return hit.queue;
  return hit.kind === "item" ? `item ${hit.item} of ${hit.queue}` : `${text}: item ${hit.item} of ${hit.queue}`;
}

export class Find {
  constructor(_, { text = "" }) {
    this.title = `Find ${text}`;
    this.query = { view: "queues", limit: 1 };
    this.place = el("div", {}, el("p", { class: "none" }, "Looking…"));
    this.elements = [this.place];
    this.ending = new AbortController();
    this.look(text);
  }

  async look(text) {
    try {
      const { hits, is_whole: isWhole } = await ask(`/admin/find?${new URLSearchParams({ text })}`, { signal: this.ending.signal });
      if (hits.length === 1 && isWhole) { location.replace(placeOfHit(hits[0])); return; }
      this.place.replaceChildren(hits.length ? el("ul", { class: "hits" }, ...hits.map((hit) => el("li", {},
        exact(KINDS[hit.kind] ?? hit.kind), el("a", { href: placeOfHit(hit) }, words(text, hit)),
        hit.kind === "key" ? el("a", { href: `#/queues/${quoted(hit.queue)}/items?${new URLSearchParams({ key: text })}` }, "all items of this key") : null,
        hit.state ? exact(hit.state) : null)))
        : el("p", { class: "none" }, "Nothing has this name, number, key or id. A key is found while an item holds it."));
      if (!isWhole) this.place.append(note("There may be more: these are the first."));
    } catch (error) {
      if (!this.ending.signal.aborted) this.place.replaceChildren(el("p", { class: "error" }, sentence(error.message)));
    }
  }

  update() {}

  end() { this.ending.abort(); }
}
