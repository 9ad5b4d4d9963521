// What a text names, in all queues: every hit leads to its place.

import { sentence } from "./dialogs.js";
import { el, exact, itemAt, note, nothing, queueAt } from "./dom.js";
import { Asking } from "./live.js";
import { params, quoted } from "./words.js";

const KINDS = { queue: "Queue", item: "Item", marker: "Marker", token: "Token of a lease", id: "Dedupe id", key: "Key" };

function placeOfHit(hit) {
  return hit.item === null ? queueAt(hit.queue) : itemAt(hit.queue, hit.item);
}

function words(text, hit) {
  if (hit.item === null) return hit.queue;
  return hit.kind === "item" ? `item ${hit.item} of ${hit.queue}` : `${text}: item ${hit.item} of ${hit.queue}`;
}

export class Find extends Asking {
  constructor(_, { text = "" }) {
    super();
    this.title = `Find ${text}`;
    this.query = { view: "queues", limit: 1 };
    this.place = el("div", {}, nothing("Looking…"));
    this.elements = [this.place];
    this.look(text);
  }

  async look(text) {
    try {
      const { hits, is_whole: isWhole } = await this.ask(`/admin/find?${params({ text })}`);
      if (hits.length === 1 && isWhole) { location.replace(placeOfHit(hits[0])); return; }
      this.place.replaceChildren(hits.length ? el("ul", { class: "hits" }, ...hits.map((hit) => el("li", {},
        exact(KINDS[hit.kind] ?? hit.kind), el("a", { href: placeOfHit(hit) }, words(text, hit)),
        hit.kind === "key" ? el("a", { href: `#/queues/${quoted(hit.queue)}/items?${params({ key: text })}` }, "all items of this key") : null,
        hit.state ? exact(hit.state) : null)))
        : nothing("Nothing has this name, number, key or id. A key is found while an item holds it."));
      if (!isWhole) this.place.append(note("There may be more: these are the first."));
    } catch (error) {
      if (!this.signal.aborted) this.place.replaceChildren(el("p", { class: "error" }, sentence(error.message)));
    }
  }
}
