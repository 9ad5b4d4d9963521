// The overview: the verdict, what flows, what waits, the queues in most trouble, what people did.

import { Chart, Charts, clocks, twos } from "./charts.js";
import { el, h3 } from "./dom.js";
import { Actions, Figures } from "./figures.js";
import { queueTable } from "./queues.js";
import { Verdict } from "./verdict.js";
import { bytes, number, rate, span } from "./words.js";

export const flow = () => new Chart("Items a second", [["stored", "stored"], ["delivered", "delivered"], ["confirmed", "confirmed"]], rate);
export const depth = () => new Chart("Items by state", [["ready", "ready"], ["leased", "leased"], ["delayed", "delayed"], ["dead", "dead"]], (value) => number(value === null ? value : Math.round(value)), { isStacked: true, marks: true });
export const oldest = () => new Chart("Oldest item", [["oldest_ms", "age"]], span, { scale: clocks });
export const syncs = () => new Chart("Sync of the journals", [["sync_p99_ms", "p99"]], span, { scale: clocks });
export const disk = () => new Chart("Free disk", [["disk_free", "free"]], bytes, { scale: twos });

export function rangeTool(parameters, change) {
  const select = el("select", { id: "range", "aria-label": "Range of the charts", onchange: () => change({ range: select.value }) },
    ...[["5m", "5 minutes"], ["1h", "1 hour"], ["24h", "24 hours"]].map(([value, word]) => el("option", { value }, word)));
  select.value = parameters.range ?? "1h";
  return select;
}

export class Overview {
  constructor(_, parameters, change) {
    this.query = { view: "overview", range: parameters.range ?? "1h" };
    this.title = "Overview";
    this.tools = [rangeTool(parameters, change)];
    this.verdict = new Verdict();
    this.flow = new Charts(flow(), depth());
    this.times = new Charts(oldest(), syncs());
    this.figures = new Figures(
      ["Oldest item", (v) => span(v.oldest_ms)], ["Waiting, p99", (v) => span(v.wait_p99_ms)],
      ["Sync, p99", (v) => span(v.sync_p99_ms)],
      ["Disk left", (v) => bytes(v.disk_free) + (v.disk_full_in_ms == null ? "" : `, full in ${span(v.disk_full_in_ms)}`), { href: "#/journal" }],
      ["Dead a second", (v) => rate(v.rates.dead), { href: "#/dead" }],
      ["Queues", (v) => number(v.queues), { marks: true, href: "#/queues" }], ["Connections", (v) => number(v.connections), { href: "#/clients" }]);
    this.table = queueTable("The queues in most trouble", "No queue has an item.");
    this.actions = new Actions(true);
    this.elements = [this.verdict.element, this.flow.element, this.figures.element,
      h3("Queues in most trouble"), this.table.element, this.actions.element, h3("Times"), this.times.element];
  }

  update(view) {
    this.verdict.update(view);
    this.figures.update(view);
    this.flow.update(view);
    this.times.update(view);
    this.table.update(view.trouble);
    this.actions.update(view);
  }
}
