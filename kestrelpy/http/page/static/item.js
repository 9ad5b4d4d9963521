// One item: its life, why it is not delivered, its body.

import { Body, bytesOf } from "./bodies.js";
import { save } from "./commands.js";
import { actionButton, tell } from "./dialogs.js";
import { button, buttonRow, el, exact, facts, h3, nothing, queueAt, renew, say, statusLine } from "./dom.js";
import { blockerOf, followChain, leaseButtons, whyWords } from "./leases.js";
import { Asking } from "./live.js";
import { removeItem, retryItem } from "./queue_actions.js";
import { actOnDead, Selection } from "./selection.js";
import { ask, Refused, request } from "./server.js";
import { ago, bytes, moment, nowMs, number, pathOf, sentence, span, times } from "./words.js";

const BODY_BYTES = 65536;
const LOOK_MS = 2000;

export class Item extends Asking {
  constructor([queue, , number_], _, change) {
    super();
    this.queue = queue;
    this.id = Number.parseInt(number_, 10) || 0;
    this.title = `${queue} ▸ item ${this.id}`;
    this.query = { view: "queue", queue };
    this.gone = el("p", { class: "error", role: "status" });
    this.why = el("p", { class: "why" });
    this.chain = el("ol", { class: "chain" });
    this.facts = el("div");
    this.body = el("div", {});
    this.life = new Life(queue, this.id, this.signal);
    this.tools = [buttonRow()];
    this.elements = [el("p", { class: "back" }, el("a", { href: queueAt(queue, "items") }, `Items of ${queue}`), " · ", el("a", { href: queueAt(queue) }, "The queue")),
      this.gone, el("section", { class: "verdict", "aria-label": "Why it is not delivered" }, this.why, this.chain), this.facts, this.life.element, this.body];
    this.wanted = BODY_BYTES;
    this.every(LOOK_MS, () => this.look());
  }

  async look() {
    try {
      const item = await this.ask(`${pathOf(this.queue)}/items/${this.id}?body=${this.wanted}`);
      this.show(item, this.wanted > 0);
      this.wanted = 0;
    } catch (error) {
      if (error instanceof Refused && error.status !== 401) this.endOf(error);
    }
  }

  endOf(error) {
    say(this.gone, sentence(error.message));
    this.tools[0].replaceChildren();
    this.why.parentElement.hidden = true;
    if (!this.item) this.life.look();
  }

  show(item, hasBody) {
    const isFirst = !this.item;
    const isChanged = this.item?.state !== item.state || this.item?.attempts !== item.attempts;
    this.item = item;
    say(this.gone, "");
    const states = { ready: "It waits.", leased: "It is leased.", delayed: "It is delayed.", dead: "It is a dead letter.", done: "It is done." };
    say(this.why, `${states[item.state] ?? item.state} ${item.state === "dead" ? sentence(item.reason ?? "no reason was given") : sentence(whyWords(item.why))}`);
    renew(this.chain, blockerOf(item.why), () => {
      const blocker = blockerOf(item.why);
      if (blocker) followChain(this.queue, blocker.holder, this.chain, this.signal);
      return [];
    });
    const shown = [["State", item.state], ["Attempts", number(item.attempts)], ["Marker", String(item.marker ?? "–")], ["Stored", ...times(item.stored_ms)],
      ["Key", item.key ?? "–"], ["Size", bytes(item.bytes)], ["Expires", ...(item.expires_ms ? times(item.expires_ms) : ["never"])]];
    if (item.state === "leased") shown.push(["Leased to", item.holder ?? "–"], ["Time left", item.lease_left_ms === null ? "until it hangs up" : span(item.lease_left_ms)], ["Token", String(item.token ?? "–")]);
    if (item.died_ms) shown.push(["Died", ...times(item.died_ms)], ["Reason", item.reason ?? "none given"]);
    if (item.origin) shown.push(["Origin", item.origin]);
    this.facts.replaceChildren(facts(shown));
    renew(this.tools[0], [item.state, item.token], () => this.buttons(item));
    if (hasBody) {
      this.body.replaceChildren(item.body === undefined && item.base64 === undefined
        ? nothing("Its body cannot be read.") : new Body(item, () => this.download(item)).element);
    }
    if (isFirst || isChanged) this.life.look();
  }

  buttons(item) {
    const { queue, id } = this;
    const chosen = new Selection(queue, {}, [id]);
    if (item.state === "dead") {
      return [actionButton("Redrive…", () => actOnDead("redrive", chosen)), actionButton("Move…", () => actOnDead("move", chosen)), actionButton("Remove…", () => removeItem(queue, id, true), { danger: true })].filter(Boolean);
    }
    if (item.state === "leased") return leaseButtons(queue, { id, token: item.token, holder: item.holder, ends_ms: item.lease_left_ms });
    return [item.state === "delayed" ? actionButton("Make available…", () => retryItem(queue, id)) : null,
      item.state === "ready" || item.state === "delayed" ? actionButton("Remove…", () => removeItem(queue, id, false), { danger: true }) : null].filter(Boolean);
  }

  async download(item) {
    try {
      const answer = await request(`${pathOf(this.queue)}/items/${this.id}/body`, { signal: this.signal });
      save(await answer.blob(), `${this.queue}-${this.id}`);
    } catch (error) {
      if (item.is_cut) tell(sentence(error.message));
      else save(new Blob([bytesOf(item)]), `${this.queue}-${this.id}`);
    }
  }
}

// -- the life of an item: from memory at once, from the journal on request, with a button that stops

const HOW = { leased: "to", dead: "for", "came from": "", moved: "to", moving: "to" };

class Life {
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
