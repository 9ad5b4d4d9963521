// Whether all is well: one sentence in the header of every page, and the list of the overview.

import { el, exact, isHeld, renew, say } from "./dom.js";
import { ago, moment, nowMs } from "./words.js";

const SIGNS = { ok: "●", warn: "▲", bad: "■" };
const LEVELS = { ok: "well", warn: "Look at this", bad: "Act now" };
const link = document.getElementById("verdict");

// A level as a sign and a word: the colour alone says nothing.
export function sign(level, text = null) {
  return el("span", { class: `level ${level}` }, el("span", { "aria-hidden": "true" }, `${SIGNS[level]} `), text ?? LEVELS[level]);
}

export function showVerdict({ verdict }) {
  const { level, lines } = verdict;
  const many = lines.length === 1 ? lines[0].text : `${lines.length} to look at`;
  renew(link, [level, lines.length, lines[0]?.code, lines[0]?.link], () => sign(level, lines.length ? many : "all well"));
  document.getElementById("icon").href = `data:image/svg+xml,${encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="6" fill="${{ ok: "#1f7a5c", warn: "#b7791f", bad: "#c0362c" }[level]}"/></svg>`)}`;
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
