// Whether all is well: one sentence in the header of every page, and the list of the overview.

import { byId, el, exact, h3, isHeld, nothing, queueLink, renew, say } from "./dom.js";
import { ago, counted, moment, nowMs, times } from "./words.js";

const SIGNS = { ok: "●", warn: "▲", bad: "■" };
const LEVELS = { ok: "well", warn: "Look at this", bad: "Act now" };
const link = byId("verdict");

// A level as a sign and a word: the colour alone says nothing.
export function sign(level, text = null) {
  return el("span", { class: `level ${level}` }, el("span", { "aria-hidden": "true" }, `${SIGNS[level]} `), text ?? LEVELS[level]);
}

export function showVerdict({ verdict }) {
  const { level, lines } = verdict;
  const many = lines.length === 1 ? lines[0].text : `${lines.length} to look at`;
  renew(link, [level, many], () => sign(level, lines.length ? many : "all well"));
  byId("icon").href = `data:image/svg+xml,${encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="6" fill="${{ ok: "#1f7a5c", warn: "#b7791f", bad: "#c0362c" }[level]}"/></svg>`)}`;
}

export class Verdict {
  constructor() {
    this.said = el("p");
    this.list = el("ul");
    this.element = el("section", { class: "verdict held", "aria-label": "Verdict" }, this.said, this.list);
  }

  update({ verdict, queues, rates }) {
    const { level, lines } = verdict;
    if (isHeld() && this.key) return;
    this.key = level;
    this.element.className = `verdict held ${level}`;
    say(this.said, lines.length === 0 ? "All is well." : lines.length === 1 ? "One thing needs a look." : `${lines.length} things need a look, the worst first.`);
    this.said.hidden = lines.length === 1;
    const key = lines.map((line) => [line.level, line.code, line.link, line.text, line.since_ms && ago(line.since_ms, nowMs)]);
    renew(this.list, key, () => lines.map((line) => el("li", {}, sign(line.level), el("a", { href: line.link }, line.text),
      line.since_ms ? exact(`since ${moment(line.since_ms)}, ${ago(line.since_ms, nowMs)}`) : null)));
    this.list.hidden = lines.length === 0;
  }
}

// -- a strip of figures, and the list of what people did

export class Figures {
  // Each is [label, text(view), {marks, href}]: `marks` shows a change for a second.
  constructor(...shown) {
    this.shown = shown.map(([label, text, more = {}]) => {
      const value = more.href ? el("a", { href: more.href }) : el("span");
      return { text, value, box: el("div", {}, el("dt", {}, label), el("dd", {}, value)), marks: more.marks };
    });
    this.element = el("dl", { class: "figures", hidden: true }, ...this.shown.map((each) => each.box));
  }

  update(view) {
    this.element.hidden = false;
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
