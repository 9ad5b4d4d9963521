// Journals and the disk: syncs live, segments by what is alive in them, damage that was set aside.

import { bar, Charts } from "./charts.js";
import { el, facts, h3, queueLink, renew } from "./dom.js";
import { Figures } from "./figures.js";
import { disk, rangeTool, syncs } from "./overview.js";
import { bytes, moment, nowMs, number, span } from "./words.js";

const SHARES = { none: "nothing", below_25: "under 25 %", below_50: "under 50 %", below_75: "under 75 %", more: "75 % or more" };

export class Journal {
  constructor(_, parameters, change) {
    this.query = { view: "journal", range: parameters.range ?? "1h" };
    this.title = "Journal";
    this.tools = [rangeTool(parameters, change)];
    this.figures = new Figures(
      ["Health", (v) => v.health, { marks: true }], ["Mode", (v) => v.mode, { marks: true }], ["Syncs", (v) => number(v.syncs)],
      ["Sync, p50", (v) => span(v.sync_p50_ms)], ["Sync, p99", (v) => span(v.sync_p99_ms)],
      ["Disk left", (v) => bytes(v.disk_free) + (v.disk_full_in_ms == null ? "" : `, full in ${span(v.disk_full_in_ms)}`)]);
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
      facts(segments.by_share.map((each) => [SHARES[each.share], bar(each.segments, most), `${number(each.segments)}, ${bytes(each.bytes)}`]), "bars"),
      facts([["Segments", number(segments.segments)], ["On disk", bytes(segments.bytes)], ["Reclaimable", bytes(segments.reclaimable_bytes)], ["Retained", bytes(segments.retained_bytes)],
        ["Damage found", number(damages)], ["Last backup", last_backup_ms ? moment(last_backup_ms) : "none is known"]]),
      damage.length ? el("ul", {}, ...damage.map((each) => el("li", {}, `${moment(each.at_ms)}: ${each.what}, ${bytes(each.bytes)}`))) : null];
  }
}
