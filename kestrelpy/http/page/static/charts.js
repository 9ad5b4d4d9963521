// Lines over time, drawn as SVG: a title, a sentence, and a table for those who do not see them.

import { el, moment, svg } from "/page/dom.js";

const WIDTH = 600;
const HEIGHT = 110;
const TABLE_ROWS = 12;

function path(values, most, width, height) {
  let drawn = "";
  let isOn = false;
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  values.forEach((value, at) => {
    if (value === null || value === undefined) { isOn = false; return; }
    const y = height - (most ? value / most : 0) * height;
    drawn += `${isOn ? "L" : "M"}${(at * step).toFixed(1)} ${y.toFixed(1)}`;
    isOn = true;
  });
  return drawn;
}

function largest(all) {
  return all.flat().reduce((most, value) => (value > most ? value : most), 0);
}

export class Chart {
  // `series` is [[name in the history, word]], `shown` words a value.
  constructor(title, series, shown) {
    this.series = series;
    this.shown = shown;
    this.sentence = el("span");
    this.paths = series.map((_, at) => svg("path", { class: `s${at}` }));
    this.drawing = svg("svg", { viewBox: `0 -14 ${WIDTH} ${HEIGHT + 32}`, role: "img", "aria-label": title, preserveAspectRatio: "none" },
      svg("line", { class: "axis", x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT }),
      ...this.paths);
    this.scale = el("span", { class: "since" });
    this.rows = el("tbody");
    const legend = el("div", { class: "legend" }, ...series.map(([, word], at) =>
      el("span", {}, svg("svg", { viewBox: "0 0 26 8", "aria-hidden": "true" }, svg("path", { class: `s${at}`, d: "M0 4L26 4" })), word)));
    this.element = el("figure", {},
      el("figcaption", {}, el("b", {}, title), " ", this.sentence),
      this.drawing, this.scale, legend,
      el("div", { class: "hidden" }, el("table", {}, el("caption", {}, title), el("thead", {},
        el("tr", {}, el("th", { scope: "col" }, "Time"), ...series.map(([, word]) => el("th", { scope: "col" }, word)))), this.rows)));
  }

  update(history) {
    const all = this.series.map(([name]) => history.points[name] ?? []);
    const most = largest(all);
    this.paths.forEach((each, at) => each.setAttribute("d", path(all[at], most, WIDTH, HEIGHT)));
    const now = this.series.map(([, word], at) => `${word} ${this.shown(all[at].at(-1))}`).join(", ");
    this.sentence.textContent = `now ${now}`;
    this.scale.textContent = `at most ${this.shown(most)} since ${moment(history.since_ms)}`;
    const count = all[0]?.length ?? 0;
    const step = Math.max(1, Math.ceil(count / TABLE_ROWS));
    const rows = [];
    for (let at = count - 1; at >= 0 && rows.length < TABLE_ROWS; at -= step) {
      rows.push(el("tr", {}, el("td", {}, moment(history.since_ms + at * history.step_ms)),
        ...all.map((values) => el("td", {}, this.shown(values[at])))));
    }
    this.rows.replaceChildren(...rows);
  }
}

// A small line without words; the figures beside it say what it shows.
export function sparkline(values) {
  const drawn = svg("path", { class: "s0", d: path(values, largest([values]), 100, 20) });
  return svg("svg", { class: "spark", viewBox: "-1 -2 102 24", "aria-hidden": "true", preserveAspectRatio: "none" }, drawn);
}
