// A strip of figures, and the list of what people did.

import { el, exact, h3, isHeld, nothing, queueLink, renew, say } from "./dom.js";
import { ago, counted, nowMs, times } from "./words.js";

export class Figures {
  // Each is [label, text(view), {marks, href}]: `marks` shows a change for a second.
  constructor(...shown) {
    this.shown = shown.map(([label, text, more = {}]) => {
      const value = more.href ? el("a", { href: more.href }) : el("span");
      return { text, value, box: el("div", {}, el("dt", {}, label), el("dd", {}, value)), marks: more.marks };
    });
    this.element = el("dl", { class: "figures" }, ...this.shown.map((each) => each.box));
  }

  update(view) {
    for (const each of this.shown) say(each.value, each.text(view), each.marks ? each.box : null);
  }
}

export class Actions {
  constructor(withQueue) {
    this.withQueue = withQueue;
    this.list = el("ol", { class: "actions" });
    this.none = nothing("Nobody did anything since the start of the process.");
    this.element = el("section", { hidden: true }, h3("What people did"), this.list, this.none);
  }

  update({ actions }) {
    this.element.hidden = !actions;
    if (!actions || isHeld()) return;
    this.none.hidden = actions.length > 0;
    renew(this.list, actions.map((each) => [each, ago(each.at_ms, nowMs)]), () => actions.map((each) => el("li", {},
      el("span", { class: "when" }, ...times(each.at_ms)),
      el("span", {}, el("b", {}, each.what), this.withQueue && each.queue ? [" ", queueLink(each.queue)] : null,
        each.count === null ? "" : `: ${counted(each.count, "item")}`, each.note ? `, ${each.note}` : "", exact(` by ${each.who}`)))));
  }
}
