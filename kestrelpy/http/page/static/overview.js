// The overview: the verdict, what flows, what waits, the queues in most trouble, what people did.

import { bar, Chart, Charts, clocks, twos } from "./charts.js";
import { choice, el, facts, h3, queueLink, renew } from "./dom.js";
import { queueTable } from "./queues.js";
import { Actions, Figures, Verdict } from "./verdict.js";
import { bytes, moment, nowMs, number, rate, span } from "./words.js";

export const flow = () => new Chart("Items a second", [["stored", "stored"], ["delivered", "delivered"], ["confirmed", "confirmed"]], rate);
export const depth = () => new Chart("Items by state", [["ready", "ready"], ["leased", "leased"], ["delayed", "delayed"], ["dead", "dead"]], (value) => number(value === null ? value : Math.round(value)), { isStacked: true, marks: true });
export const oldest = () => new Chart("Oldest item", [["oldest_ms", "age"]], span, { scale: clocks });
const syncs = () => new Chart("Sync of the journals", [["sync_p99_ms", "p99"]], span, { scale: clocks });
const disk = () => new Chart("Free disk", [["disk_free", "free"]], bytes, { scale: twos });

const rangeTool = (parameters, change) => choice(parameters.range ?? "1h", [["5m", "5 minutes"], ["1h", "1 hour"], ["24h", "24 hours"]], (range) => change({ range }),
  { id: "range", "aria-label": "Range of the charts" });

const diskFigures = [["Disk left", (v) => bytes(v.disk_free), { href: "#/journal" }], ["Disk full in", (v) => span(v.disk_full_in_ms)]];

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
      ...diskFigures,
      ["Dead a second", (v) => rate(v.rates.dead_total), { href: "#/dead" }],
      ["Queues", (v) => number(v.queues), { marks: true, href: "#/queues" }], ["Connections", (v) => number(v.connections), { href: "#/clients" }]);
    this.table = queueTable("The queues in most trouble", "No queue has an item.");
    this.actions = new Actions(true);
    this.elements = [this.verdict.element, this.flow.element, this.figures.element,
      h3("Queues in most trouble"), this.table.element, h3("Times"), this.times.element, this.actions.element];
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

// -- journals and the disk: syncs live, segments by what is alive in them, damage

const SHARES = { none: "nothing", below_25: "under 25 %", below_50: "under 50 %", below_75: "under 75 %", more: "75 % or more" };

export class Journal {
  constructor(_, parameters, change) {
    this.query = { view: "journal", range: parameters.range ?? "1h" };
    this.title = "Journal";
    this.tools = [rangeTool(parameters, change)];
    this.figures = new Figures(
      ["Health", (v) => v.health, { marks: true }], ["Mode", (v) => v.mode, { marks: true }], ["Syncs", (v) => number(v.syncs)],
      ["Sync, p50", (v) => span(v.sync_p50_ms)], ["Sync, p99", (v) => span(v.sync_p99_ms)],
      ...diskFigures);
    this.unwell = el("section", { class: "verdict bad" });
    this.charts = new Charts(syncs(), disk());
    this.segments = el("section", {});
    this.elements = [this.unwell, this.figures.element, this.charts.element, this.segments];
  }

  update(view) {
    this.figures.update(view);
    this.charts.update(view);
    this.unwell.hidden = !view.unwell.length;
    renew(this.unwell, view.unwell, () => [el("p", {}, "Queues that are not well:"), el("ul", {}, ...view.unwell.map((name) => el("li", {}, queueLink(name))))]);
    renew(this.segments, [view.segments, view.damages, Math.floor(nowMs / 10000)], () => this.shown(view));
  }

  // Segments by the share of them that is alive, and the damage that was found.
  shown({ segments, damages, damage, last_backup_ms }) {
    const most = Math.max(1, ...segments.by_share.map((each) => each.segments));
    return [h3("Segments by live share"),
      facts(segments.by_share.map((each) => [SHARES[each.share], bar(each.segments, most), each.segments ? `${number(each.segments)}, ${bytes(each.bytes)}` : "none"]), "bars"),
      facts([["Segments", number(segments.segments)], ["On disk", bytes(segments.bytes)], ["Reclaimable", bytes(segments.reclaimable_bytes)], ["Retained", bytes(segments.retained_bytes)],
        ["Damage found", number(damages)], ["Last backup", last_backup_ms ? moment(last_backup_ms) : "none is known"]]),
      damage.length ? el("ul", {}, ...damage.map((each) => el("li", {}, `${moment(each.at_ms)}: ${each.what}${each.bytes ? `, ${bytes(each.bytes)}` : ""}`))) : null];
  }
}
