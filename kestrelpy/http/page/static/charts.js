// Lines and stacked areas over time, drawn as SVG: a title, a legend with the newest figures, what
// people did as marks, and a table for those who do not see them.
//
//     title                    ● ready 339   ● dead 60
//     500 ┌────────────▽─────────────────┐
//         │      ___/‾‾│‾‾\______        │   ▽ an action; the part before the history is shaded
//     15:00 ───────────────────────── 16:00

import { el, renew, say, svg } from "./dom.js";
import { pointsMax } from "./live.js";
import { minute, moment } from "./words.js";

const WIDTH = 600;
const HEIGHT = 120;
const TABLE_ROWS = 12;
const PARTS = [12, 6, 3, 2, 1]; // how much of the range is drawn if the history is short

const largest = (all) => Math.max(0, ...all.flat());

// The end of the scale: 1, 2 or 4 times a power of ten, so that its half is a short number.
function tens(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 4, 10].map((each) => each * power).find((each) => each >= most);
}

export const twos = (most) => 2 ** Math.ceil(Math.log2(most));

// A length of time: a second, 2, 4, 10, 20, a minute, …
export function clocks(most) {
  return [1, 2, 4, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 4e3, 1e4, 2e4, 6e4, 12e4, 24e4, 6e5, 12e5, 36e5, 72e5, 144e5, 432e5, 864e5].find((each) => each >= most) ?? Math.ceil(most / 864e5) * 864e5;
}

function path(values, top, x, height) {
  let drawn = "";
  let isOn = false;
  values.forEach((value, at) => {
    if (value == null) { isOn = false; return; }
    const y = (height - (value / top) * height).toFixed(1);
    if (isOn) drawn += `L${x(at).toFixed(1)} ${y}`;
    else drawn += `M${x(at).toFixed(1)} ${y}h.1`; // a point alone is a dot
    isOn = true;
  });
  return drawn;
}

function area(above, below, top, x) {
  const y = (value) => (HEIGHT - (value / top) * HEIGHT).toFixed(1);
  if (!above.length) return "";
  const over = above.map((value, at) => `${x(at).toFixed(1)} ${y(value)}`);
  const under = below.map((value, at) => `${x(at).toFixed(1)} ${y(value)}`).reverse();
  return `M${over.join("L")}L${under.join("L")}Z`;
}

// A drawing with its title, its legend of [class, word, value], and the table that says the same.
export function figure(title, keys, plot, times, heads, rows) {
  const key = (kind) => svg("svg", { viewBox: "0 0 16 10", "aria-hidden": "true" },
    kind[0] === "a" ? svg("rect", { class: kind, width: 16, height: 10, rx: 2 }) : svg("path", { class: kind, d: "M0 5H16" }));
  return el("figure", {},
    el("figcaption", {}, el("span", { class: "title" }, title), el("span", { class: "legend" }, ...keys.map(([kind, word, value]) => el("span", {}, key(kind), `${word} `, value)))),
    el("div", { class: "plot" }, ...plot), el("div", { class: "times" }, ...times),
    el("div", { class: "hidden" }, el("table", {}, el("caption", {}, title), el("thead", {}, el("tr", {}, ...heads.map((each) => el("th", { scope: "col" }, each)))), rows)));
}

export class Chart {
  // `series` is [[name in the history, word]], `shown` words a value, `scale` ends the axis.
  constructor(title, series, shown, { isStacked = false, scale = tens, marks = false } = {}) {
    Object.assign(this, { title, series, shown, isStacked, scale });
    const kind = isStacked ? "a" : "s";
    this.paths = series.map((_, at) => svg("path", { class: `${kind}${at}` }));
    this.before = svg("rect", { class: "before", y: 0, height: HEIGHT, x: 0, width: 0 });
    this.marks = svg("g", { class: "marks" });
    this.ruler = svg("line", { class: "ruler", y1: 0, y2: HEIGHT, hidden: true });
    this.drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title, preserveAspectRatio: "none" },
      this.before, svg("line", { class: "axis", x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT }),
      svg("line", { class: "grid", x1: 0, x2: WIDTH, y1: HEIGHT / 2, y2: HEIGHT / 2 }),
      svg("line", { class: "grid", x1: 0, x2: WIDTH, y1: 0, y2: 0 }), ...this.paths, this.marks, this.ruler);
    this.drawing.addEventListener("pointermove", (event) => this.read(event));
    this.drawing.addEventListener("pointerleave", () => { this.at = null; this.legend(); });
    this.top = el("span", { class: "top" });
    this.middle = el("span", { class: "middle" });
    [this.from, this.when, this.until] = [el("span"), el("span"), el("span")];
    this.values = series.map(() => el("b"));
    this.isMarked = marks;
    this.rows = el("tbody");
    this.element = figure(title, series.map(([, word], at) => [`${kind}${at}`, word, this.values[at]]), [this.top, this.middle, this.drawing],
      [this.from, this.when, this.until], ["Time", ...series.map(([, word]) => word)], this.rows);
  }

  update(history, actions = []) {
    const { points, step_ms: step, since_ms: since } = history;
    const all = this.series.map(([name]) => points[name] ?? []);
    const count = all[0]?.length ?? 0;
    const size = pointsMax(step);
    const window = Math.max(2, PARTS.map((each) => Math.ceil(size / each)).find((each) => each >= count) ?? count);
    const x = (at) => ((at + window - count) / (window - 1)) * WIDTH;
    Object.assign(this, { history, all, window, count });
    if (this.isStacked) this.stack(all, x);
    else {
      const top = this.axis(largest(all));
      this.paths.forEach((each, at) => each.setAttribute("d", path(all[at], top, x, HEIGHT)));
    }
    this.before.setAttribute("width", Math.max(0, x(0)));
    const start = since - (window - count) * step;
    const end = since + count * step;
    say(this.from, minute(start));
    say(this.until, minute(end));
    this.draw(actions.filter((each) => each.at_ms >= start), start, end);
    this.legend();
    renew(this.rows, [since, count, all.map((each) => each.at(-1))], () => this.table());
  }

  stack(all, x) {
    let below = all[0].map(() => 0);
    const layers = all.map((values) => {
      const above = values.map((value, at) => (value ?? 0) + below[at]);
      const layer = [above, below];
      below = above;
      return layer;
    });
    const top = this.axis(largest([below]));
    this.paths.forEach((each, at) => each.setAttribute("d", area(...layers[at], top, x)));
  }

  // Word the axis, and return its end; where all is nothing it has no words.
  axis(most) {
    const top = Math.max(this.scale(most || 1), this.isStacked ? 2 : 0);
    say(this.top, most ? this.shown(top) : "");
    say(this.middle, most ? this.shown(top / 2) : "");
    return top;
  }

  draw(actions, start, end) {
    renew(this.marks, [actions.map((each) => each.at_ms), Math.round(start / 1000)], () => actions.map((each) => {
      const x = Math.min(1, (each.at_ms - start) / (end - start)) * WIDTH; // the newest point may be older
      return svg("g", {}, svg("line", { x1: x, x2: x, y1: 0, y2: HEIGHT }), svg("path", { d: `M${x - 4} 0H${x + 4}L${x} 8Z` }),
        svg("title", {}, `${moment(each.at_ms)}: ${each.what}${each.queue ? ` ${each.queue}` : ""}, ${each.who}`));
    }));
  }

  // The figures under the pointer, in the place of the newest.
  read(event) {
    const box = this.drawing.getBoundingClientRect();
    const at = Math.round(((event.clientX - box.left) / box.width) * (this.window - 1)) - (this.window - this.count);
    this.at = at >= 0 && at < this.count ? at : null;
    this.legend();
  }

  legend() {
    if (!this.history) return;
    const isNow = this.at == null;
    const at = isNow ? this.count - 1 : this.at;
    const texts = this.all.map((values) => this.shown(values[at]));
    this.values.forEach((each, nth) => say(each, texts[nth], this.isMarked && isNow ? each : null));
    const ms = this.history.since_ms + at * this.history.step_ms;
    const begins = this.before.getAttribute("width") > 0 && isNow ? `history begins ${minute(this.history.since_ms)}` : "";
    say(this.when, isNow ? begins : moment(ms));
    const x = ((at + this.window - this.count) / (this.window - 1)) * WIDTH;
    this.ruler.toggleAttribute("hidden", isNow);
    this.ruler.setAttribute("x1", x);
    this.ruler.setAttribute("x2", x);
    const label = `${this.title}: ${this.series.map(([, word], nth) => `${word} ${texts[nth]}`).join(", ")}`;
    if (this.drawing.getAttribute("aria-label") !== label) this.drawing.setAttribute("aria-label", label);
  }

  table() {
    const step = Math.max(1, Math.ceil(this.count / TABLE_ROWS));
    const rows = [];
    for (let at = this.count - 1; at >= 0 && rows.length < TABLE_ROWS; at -= step) {
      rows.push(el("tr", {}, el("td", {}, moment(this.history.since_ms + at * this.history.step_ms)),
        ...this.all.map((values) => el("td", {}, this.shown(values[at])))));
    }
    return rows;
  }
}

export class Charts {
  constructor(...charts) {
    this.charts = charts;
    this.element = el("div", { class: "charts", tabindex: 0, role: "group", "aria-label": "Charts" }, ...charts.map((each) => each.element));
  }

  update(view) {
    this.element.hidden = !view.history;
    if (view.history) for (const each of this.charts) each.update(view.history, view.actions);
  }
}

// How much this is of the most, as a bar.
export function bar(value, most) {
  return svg("svg", { class: "share", viewBox: "0 0 100 8", "aria-hidden": "true", preserveAspectRatio: "none" },
    svg("rect", { class: "axis", width: 100, height: 8 }), svg("rect", { class: "run", width: value && Math.max(1, (value / most) * 100), height: 8 }));
}

// A small line without words; the figures beside it say what it shows.
export function sparkline(values) {
  if (values.length < 2) return svg("svg", { class: "spark", "aria-hidden": "true" });
  const x = (at) => (at / (values.length - 1)) * 100;
  const top = largest([values]) || 1;
  return svg("svg", { class: "spark", viewBox: "0 -2 100 24", "aria-hidden": "true", preserveAspectRatio: "none" },
    svg("path", { class: "a0", d: `${path(values, top, x, 20)}L100 20L0 20Z` }), svg("path", { class: "s0", d: path(values, top, x, 20) }));
}
