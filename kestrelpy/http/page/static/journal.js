// Journals and the disk: syncs live, segments by what is alive in them, damage that was set aside.

import { bar, Charts } from "/page/charts.js";
import { el, facts, renew } from "/page/dom.js";
import { Actions, Figures } from "/page/figures.js";
import { disk, rangeTool, syncs } from "/page/overview.js";
import { queueLink } from "/page/places.js";
import { ago, bytes, moment, nowMs, number, span } from "/page/words.js";

export class Journal {
  constructor(_, parameters, change) {
    this.query = { view: "journal", range: parameters.range ?? "1h" };
    this.title = "Journal";
    this.tools = [rangeTool(parameters, change)];
    this.figures = new Figures(
      ["Health", (v) => v.health, { marks: true }], ["Mode", (v) => v.mode, { marks: true }], ["Syncs", (v) => number(v.syncs)],
      ["Sync, p50", (v) => span(v.sync_p50_ms)], ["Sync, p99", (v) => span(v.sync_p99_ms)],
      ["Disk left", (v) => bytes(v.disk_free) + (v.disk_full_in_ms ? `, full in ${span(v.disk_full_in_ms)}` : "")]);
    this.unwell = el("section", { class: "verdict bad" });
    this.charts = new Charts(syncs(), disk());
    this.segments = el("section", {});
    this.actions = new Actions(true);
    this.elements = [this.unwell, this.figures.element, this.charts.element, this.segments, this.actions.element];
  }

  update(view) {
    this.figures.update(view);
    this.charts.update(view);
    this.actions.update(view);
    this.unwell.hidden = !view.unwell.length;
    renew(this.unwell, view.unwell, () => [el("p", {}, "Queues that are not well:"), el("ul", {}, ...view.unwell.map((name) => el("li", {}, queueLink(name))))]);
    const { segments, reclaimable_bytes: reclaimable, quarantined, last_backup_ms: backup } = view;
    this.segments.hidden = segments === undefined;
    if (segments === undefined) return;
    renew(this.segments, [segments, reclaimable, quarantined, backup, Math.floor(nowMs / 10000)], () => this.shown(view));
  }

  // Segments in buckets of their live share, and what was set aside.
  shown({ segments, reclaimable_bytes: reclaimable, quarantined, last_backup_ms: backup }) {
    const buckets = Array.isArray(segments) ? segments : Object.entries(segments).map(([live, count]) => ({ live, count }));
    const most = Math.max(1, ...buckets.map((each) => each.count));
    const damage = Array.isArray(quarantined) ? quarantined.length : quarantined;
    return [el("h3", {}, "Segments by live share"),
      facts(buckets.map((each) => [each.live ?? `up to ${Math.round((each.live_until ?? each.share) * 100)} %`,
        bar(each.count, most), number(each.count), each.bytes === undefined ? "" : `, ${bytes(each.bytes)}`]), "bars"),
      facts([["Reclaimable", bytes(reclaimable)], ["Set aside as damaged", damage == null ? "–" : number(damage)],
        ["Last backup", backup ? `${ago(backup, nowMs)}, ${moment(backup)}` : "not known"]])];
  }
}
