// Settings in force with their source, markers, the journal of the queue.

import { commandLine } from "/page/copying.js";
import { el, facts, framed, say } from "/page/dom.js";
import { sentence } from "/page/dialogs.js";
import { queueLink } from "/page/places.js";
import { pathOf } from "/page/queue_actions.js";
import { ask } from "/page/server.js";
import { bytes, number, sh } from "/page/words.js";

const SOURCES = { file: "the configuration", declared: "declared by a client", default: "default" };

export class Settings {
  constructor(name) {
    this.query = { view: "queue", queue: name };
    this.name = name;
    this.place = el("div", {});
    this.error = el("p", { class: "error", role: "alert" });
    this.elements = [this.error, this.place];
    this.ending = new AbortController();
    this.load();
  }

  async load() {
    try {
      this.place.replaceChildren(...this.show(await ask(pathOf(this.name), { signal: this.ending.signal })));
    } catch (error) { if (!this.ending.signal.aborted) say(this.error, sentence(error.message)); }
  }

  show({ parent, children, settings, markers, journal }) {
    const changed = settings.filter((each) => each.source !== "default");
    const rows = (some) => some.map(({ name, value, source }) => el("tr", {}, el("td", { class: "t" }, name), el("td", { class: "t", "data-label": "In force" }, value), el("td", { "data-label": "Source" }, SOURCES[source] ?? source)));
    const table = (caption, some) => framed(caption, ["Setting", "In force", "Source"].map((each) => el("th", { scope: "col" }, each)), el("tbody", {}, ...rows(some)));
    const shown = [["Markers", `${number(markers.marker_earliest)} to ${number(markers.marker_latest)}`], ["Retained", bytes(markers.kept_bytes)], ["Segments", number(journal.segments)],
      ["On disk", bytes(journal.disk_bytes)], ["Records", number(journal.records_appended)], ["Journal", journal.durable ? journal.state : "in memory only"]];
    return [
      el("h3", {}, "Set for this queue"), changed.length ? table("Settings that are not the default", changed) : el("p", { class: "none" }, "Every setting has its default."),
      el("details", { class: "filters" }, el("summary", {}, `All ${settings.length} settings`), table("All settings", settings)),
      parent ? el("p", {}, "A child of ", queueLink(parent), ".") : null,
      children.length ? el("p", {}, "Children: ", ...children.flatMap((each, at) => (at ? [", ", queueLink(each)] : [queueLink(each)]))) : null,
      el("h3", {}, "Journal of the queue"), facts(shown),
      el("h3", {}, "The same by hand"), commandLine(`kestrelpy queues show ${sh(this.name)}`),
    ].filter(Boolean);
  }

  update() {}

  end() { this.ending.abort(); }
}
