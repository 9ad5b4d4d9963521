// What is coming: the next runs of schedules, and delayed items, on one axis of time.

import { curl } from "./commands.js";
import { actionButton, confirm } from "./dialogs.js";
import { choice, el, exact, h3, itemAt, nothing, queueAt, queueLink, renew, svg } from "./dom.js";
import { Asking } from "./live.js";
import { ask } from "./server.js";
import { Table } from "./tables.js";
import { ago, counted, minute, moment, nowMs, params, pathOf, quoted } from "./words.js";

const LOOK_MS = 10000;
const QUEUES_MAX = 8;
const SPANS = [[6e5, "10 minutes"], [36e5, "1 hour"], [864e5, "1 day"]];
const WIDTH = 1000;

function putNow(row) {
  const path = `/admin/schedules/${quoted(row.name)}/run`;
  confirm({
    title: `Put an item of ${row.name} now?`, label: "Put it now",
    text: `One item goes to ${row.queue} at once. The next run stays as it is.`,
    commands: () => [curl("POST", path)],
    async run() {
      await ask(path, { method: "POST" });
      return `An item of ${row.name} is in ${row.queue}.`;
    },
  });
}

export class Schedules extends Asking {
  constructor(_, parameters, change) {
    super();
    this.query = { view: "schedules" };
    this.title = "Schedules";
    this.delayed = [];
    this.range = SPANS.find(([ms]) => String(ms) === parameters.ms)?.[0] ?? 36e5;
    this.tools = [choice(this.range, SPANS, (ms) => change({ ms }), { id: "ms", "aria-label": "Range of the axis" })];
    this.lanes = el("div", { class: "lanes held" });
    this.table = new Table("Schedules", [
      { label: "Name", kind: "name", key: (r) => [r.name, r.queue], node: (r) => [el("b", {}, r.name), queueLink(r.queue)] },
      { label: "Next", time: (r) => (r.next ? r.next * 1000 : null), none: "never" },
      { label: "Last", time: (r) => (r.last ? r.last * 1000 : null), none: "not yet" },
      { label: "When", kind: "t", key: (r) => [r.cron, r.timezone, r.words], node: (r) => [r.words ?? r.cron, exact(`${r.cron} (${r.timezone})`)] },
      { label: "State", minor: true, text: (r) => r.state + (r.waiting ? `, ${counted(r.waiting, "run")} wait` : "") },
      { label: "Actions", key: (r) => [r.name], node: (r) => actionButton("Put now…", () => putNow(r), { small: true }) ?? "" },
    ], "No schedule is configured.");
    this.elements = [h3("What is coming"), this.lanes, h3("Schedules"), this.table.element];
    this.every(LOOK_MS, () => this.look());
  }

  // Delayed items of the queues that have most of them: their due times.
  async look() {
    const { queues } = await this.ask(`/admin/queues?${params({ sort: "delayed", order: "down", limit: QUEUES_MAX })}`);
    const some = queues.filter((each) => each.delayed > 0);
    this.delayed = await Promise.all(some.map(async ({ name, delayed }) => (
      { name, count: delayed, items: (await this.ask(`${pathOf(name)}/delayed?limit=100`)).delayed })));
    if (this.view) this.draw();
  }

  update(view) {
    this.view = view;
    this.table.update(view.rows);
    this.draw();
  }

  draw() {
    const { order, rows } = this.view.rows;
    const start = Math.floor(nowMs / 5000) * 5000;
    const x = (ms) => ((ms - start) / this.range) * WIDTH;
    const isInside = (ms) => ms >= start && ms <= start + this.range;
    const schedules = order.slice(0, 20).map((name) => [name, rows[name].coming.map((each) => each * 1000).filter(isInside)]);
    const delayed = this.delayed.map(({ name, count, items }) => [name, count, items.filter((each) => isInside(each.due_ms))]);
    renew(this.lanes, [start, schedules, delayed], () => {
      const made = [];
      for (const [name, times] of schedules) {
        const words = times.length ? `${times.length === 1 ? "a run" : `${times.length} runs`} of ${name}, the next ${ago(times[0], nowMs)}` : `no run of ${name} in this time`;
        made.push(this.lane(el("a", { href: `#/queues/${quoted(rows[name].queue)}/now` }, name), "schedule", times.map((ms) => [ms, `${name}: ${moment(ms)}`, null]), x, words));
      }
      for (const [name, count, items] of delayed) {
        made.push(this.lane(el("a", { href: queueAt(name, "items?state=delayed") }, name), `${counted(count, "delayed item")}`, items.map((each) => [each.due_ms, `item ${each.id}: ${moment(each.due_ms)}`, itemAt(name, each.id)]), x, `${counted(count, "item")} of ${name} delayed, ${items.length} of them on this axis`));
      }
      if (!made.length) return nothing("Nothing is coming: no schedule, no delayed item.");
      const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => el("span", {}, part ? minute(start + part * this.range) : "now"));
      return [...made, el("div", { class: "lane" }, el("span", {}), el("div", { class: "times" }, ...ticks))];
    });
  }

  lane(label, kind, dots, x, words) {
    const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} 24`, preserveAspectRatio: "none", role: "img", "aria-label": words }, svg("line", { class: "axis", x1: 0, x2: WIDTH, y1: 12, y2: 12 }),
      ...dots.map(([ms, title]) => svg("rect", { class: "run", x: Math.min(x(ms), WIDTH - 3), y: 4, width: 3, height: 16 }, svg("title", {}, title))));
    return el("div", { class: "lane" }, el("span", {}, label, exact(kind)), drawing);
  }
}
