// Settings in force with their source, markers, the journal of the queue.

import { commandLine, kestrelpy, sh } from "./commands.js";
import { sentence } from "./dialogs.js";
import { alertLine, el, facts, framed, h3, nothing, queueLink, say } from "./dom.js";
import { Asking } from "./live.js";
import { pathOf } from "./queue_actions.js";
import { bytes, number } from "./words.js";

const SOURCES = { file: "the configuration", declared: "declared by a client", default: "default" };

export class Settings extends Asking {
  constructor(name) {
    super();
    this.query = { view: "queue", queue: name };
    this.name = name;
    this.place = el("div", {});
    this.error = alertLine();
    this.elements = [this.error, this.place];
    this.load();
  }

  async load() {
    try {
      this.place.replaceChildren(...this.show(await this.ask(pathOf(this.name))));
    } catch (error) { if (!this.signal.aborted) say(this.error, sentence(error.message)); }
  }

  show({ parent, children, settings, markers, journal }) {
    const changed = settings.filter((each) => each.source !== "default");
    const rows = (some) => some.map(({ name, value, source }) => el("tr", {}, el("td", { class: "t" }, name), el("td", { class: "t", "data-label": "In force" }, value), el("td", { "data-label": "Source" }, SOURCES[source] ?? source)));
    const table = (caption, some) => framed(caption, ["Setting", "In force", "Source"].map((each) => el("th", { scope: "col" }, each)), el("tbody", {}, ...rows(some)));
    const shown = [["Markers", `${number(markers.marker_earliest)} to ${number(markers.marker_latest)}`], ["Retained", bytes(markers.kept_bytes)], ["Segments", number(journal.segments)],
      ["On disk", bytes(journal.disk_bytes)], ["Records", number(journal.records_appended)], ["Journal", journal.durable ? journal.state : "in memory only"]];
    return [
      h3("Set for this queue"), changed.length ? table("Settings that are not the default", changed) : nothing("Every setting has its default."),
      el("details", { class: "filters" }, el("summary", {}, `All ${settings.length} settings`), table("All settings", settings)),
      parent ? el("p", {}, "A child of ", queueLink(parent), ".") : null,
      children.length ? el("p", {}, "Children: ", ...children.flatMap((each, at) => (at ? [", ", queueLink(each)] : [queueLink(each)]))) : null,
      h3("Journal of the queue"), facts(shown),
      h3("The same by hand"), commandLine(kestrelpy(`queues show ${sh(this.name)}`)),
    ].filter(Boolean);
  }
}
