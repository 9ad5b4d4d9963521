// The life of an item as a timeline: from memory at once, from the journal on request, with progress
// and a button that stops.

import { button, buttonRow, el, exact, h3, say, statusLine } from "./dom.js";
import { pathOf } from "./queue_actions.js";
import { ask, Refused } from "./server.js";
import { ago, bytes, moment, nowMs, span } from "./words.js";

const HOW = { leased: "to", dead: "for", "came from": "", moved: "to", moving: "to" };

export class Life {
  constructor(queue, id, signal) {
    this.path = `${pathOf(queue)}/items/${id}/life`;
    this.signal = signal;
    this.list = el("ol", { class: "life" });
    this.said = statusLine();
    this.more = button("Look in the journal", () => this.read(), { class: "small" });
    this.stop = button("Stop", () => { this.isStopped = true; }, { class: "small", hidden: true });
    this.element = el("section", { hidden: true }, h3("Life"), this.list, buttonRow(this.more, this.stop, this.said));
  }

  async look() {
    if (this.isReading) return;
    try {
      this.show(await ask(this.path, { signal: this.signal }));
    } catch (error) {
      if (!(error instanceof Refused)) return;
      this.element.hidden = true;
    }
  }

  // Read the journal part by part, until its end or the button.
  async read() {
    this.isStopped = false;
    this.isReading = true;
    let isWhole = true;
    this.more.hidden = true;
    this.stop.hidden = false;
    let [path, looked, events] = [`${this.path}?journal=1`, 0, []];
    try {
      for (;;) {
        const said = await ask(path, { signal: this.signal });
        events = [...events, ...said.events];
        looked += said.looked_bytes;
        isWhole &&= said.is_whole;
        this.show({ events });
        if (!said.next) { say(this.said, `All of the journal, ${bytes(looked)}.${isWhole ? "" : " Older records are gone."}`); break; }
        if (this.isStopped || this.signal.aborted) { say(this.said, `Stopped after ${bytes(looked)} of the journal.`); break; }
        say(this.said, `${bytes(looked)} of the journal read, ${bytes(said.left_bytes)} left.`);
        path = said.next;
      }
    } catch (error) { if (!this.signal.aborted) say(this.said, error.message); }
    this.stop.hidden = true;
    this.more.hidden = false;
    this.isReading = false;
  }

  show({ events }) {
    this.element.hidden = false;
    let before = null;
    this.list.replaceChildren(...events.map((each) => {
      const since = before !== null && each.at_ms ? `${span(Math.max(each.at_ms - before, 0))} later` : "";
      if (each.at_ms) before = each.at_ms;
      return el("li", {}, el("span", { class: "when" }, each.at_ms ? moment(each.at_ms) : "–", exact(each.at_ms ? ago(each.at_ms, nowMs) : "")),
        el("span", {}, el("b", {}, each.what), each.who ? ` ${HOW[each.what] ?? "by"} ${each.who}` : "", each.note ? `, ${each.note}` : "", each.began_ms && each.at_ms ? `, after ${span(each.at_ms - each.began_ms)}` : "", since ? exact(` ${since}`) : null));
    }));
  }
}
