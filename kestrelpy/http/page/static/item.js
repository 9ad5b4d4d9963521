// One item: its life, why it is not delivered, its body.

import { Body, bytesOf } from "./bodies.js";
import { blockerOf, followChain } from "./chain.js";
import { save } from "./commands.js";
import { actionButton, sentence, tell } from "./dialogs.js";
import { buttonRow, el, facts, nothing, queueAt, renew, say } from "./dom.js";
import { leaseButtons } from "./leases.js";
import { Life } from "./life.js";
import { Asking } from "./live.js";
import { pathOf, removeItem, retryItem } from "./queue_actions.js";
import { actOnDead, Selection } from "./selection.js";
import { Refused, request } from "./server.js";
import { ago, bytes, moment, nowMs, number, span, times } from "./words.js";

const BODY_BYTES = 65536;
const LOOK_MS = 2000;

// The server's reason as a sentence; times in it are milliseconds since 1970.
function whySentence(why) {
  return sentence(why.replace(/\blent\b/, "leased").replace(/\b(1\d{12})\b/, (ms) => `${moment(Number(ms))}, ${ago(Number(ms), nowMs)}`)
    .replace(/^behind (\d+) others?$/, (_, count) => `${number(Number(count))} ${count === "1" ? "item is" : "items are"} before it`));
}

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
    say(this.why, `${states[item.state] ?? item.state} ${item.state === "dead" ? sentence(item.reason ?? "no reason was given") : whySentence(item.why)}`);
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
    if (!this.tools[0].contains(document.activeElement)) renew(this.tools[0], [item.state, item.token], () => this.buttons(item));
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
