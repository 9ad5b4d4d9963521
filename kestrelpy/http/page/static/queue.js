// One queue: a header with its state and actions, and tabs.

import { Charts } from "./charts.js";
import { commandLine, kestrelpy, sh } from "./commands.js";
import { Dead } from "./dead.js";
import { actionButton } from "./dialogs.js";
import { alertLine, el, facts, framed, h3, isHeld, nothing, queueAt, queueLink, renew, say } from "./dom.js";
import { Items, Keys, Leases } from "./lists.js";
import { Asking } from "./live.js";
import { depth, flow, oldest } from "./overview.js";
import { Past } from "./past.js";
import { placeOf } from "./queues.js";
import { acknowledgeLoss, deleteQueue, flushQueue, lossOf, moveReady, pauseQueue } from "./queue_actions.js";
import { Actions, Figures } from "./verdict.js";
import { bytes, number, pathOf, sentence, span } from "./words.js";

class Now {
  constructor(name) {
    this.query = { view: "queue", queue: name };
    this.lost = el("p");
    this.loss = el("section", { class: "verdict bad held", "aria-label": "What is lost" }, h3("What is lost"), this.lost);
    this.why = el("ul");
    this.stands = el("section", { class: "verdict warn held", "aria-label": "Why it stands still" }, h3("Why it stands still"), this.why);
    this.figures = new Figures(
      ["Ready", (v) => number(v.queue.ready), { marks: true }],
      ["Leased", (v) => number(v.queue.leased) + (v.queue.max_leased == null ? "" : ` of ${number(v.queue.max_leased)}`), { marks: true, href: queueAt(name, "leases") }],
      ["Delayed", (v) => number(v.queue.delayed), { marks: true, href: queueAt(name, "items?state=delayed") }],
      ["Dead", (v) => number(v.queue.dead), { marks: true, href: queueAt(name, "dead") }],
      ["Blocked keys", (v) => number(v.queue.blocked), { marks: true, href: queueAt(name, "keys") }],
      ["Waiting clients", (v) => number(v.queue.waiters), { marks: true }],
      ["Oldest item", (v) => span(v.queue.oldest_ms)],
      ["On disk", (v) => bytes(v.queue.journal.disk_bytes), { href: queueAt(name, "settings") }]);
    this.charts = new Charts(flow(), depth(), oldest());
    this.none = nothing("No history yet: it begins with the first event of the queue.");
    this.actions = new Actions(false);
    this.loss.hidden = true;
    this.place = el("p", { class: "exact" });
    this.elements = [this.place, this.loss, this.stands, this.figures.element, this.charts.element, this.none, this.actions.element];
  }

  update(view) {
    this.figures.update(view);
    this.charts.update(view);
    this.none.hidden = Boolean(view.history);
    this.place.hidden = view.queue.slice === undefined;
    if (!this.place.hidden) say(this.place, `In ${placeOf(view.queue)}.`);
    this.actions.update(view);
    if (isHeld()) return;
    this.loss.hidden = !view.queue.facts.unreadable;
    if (!this.loss.hidden) say(this.lost, lossOf(view.queue.facts));
    this.stands.hidden = view.why.length === 0;
    renew(this.why, view.why, () => view.why.map((each) => el("li", {}, each)));
  }
}

export class Queue {
  constructor([name, tab = "now"], parameters, change) {
    const kind = tab in TABS ? tab : "now";
    this.title = name;
    this.state = { paused: false };
    this.part = new TABS[kind][1](name, parameters, change);
    this.query = this.part.query;
    this.pauseButton = actionButton("Pause…", () => pauseQueue(name, this.state.paused));
    this.lossButton = actionButton("Give up unreadable…", () => acknowledgeLoss(name), { danger: true });
    this.removeButton = actionButton("Delete…", () => deleteQueue(name), { danger: true });
    this.tools = [this.lossButton, this.pauseButton, actionButton("Move…", () => moveReady(name)), actionButton("Flush…", () => flushQueue(name), { danger: true }), this.removeButton];
    const tabs = el("nav", { class: "tabs", "aria-label": "Parts of the queue" }, ...Object.entries(TABS).map(([id, [word]]) =>
      el("a", { href: queueAt(name, id), "aria-current": id === kind ? "page" : null }, word)));
    this.elements = [tabs, ...this.part.elements];
  }

  update(view) {
    if (this.removeButton) this.removeButton.hidden = view.server.allow_delete === false;
    if (this.lossButton) this.lossButton.hidden = !view.queue?.facts.unreadable;
    if (view.queue) this.state.paused = view.queue.paused;
    if (view.queue && this.pauseButton) this.pauseButton.textContent = view.queue.paused ? "Resume…" : "Pause…";
    this.part.update(view);
  }

  end() { this.part.end?.(); }
}

// -- settings in force with their source, markers, the journal of the queue

const SOURCES = { file: "the configuration", declared: "declared by a client", default: "default" };

class Settings extends Asking {
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
      ["On disk", bytes(journal.disk_bytes)], ["Of it for items", bytes(journal.live_bytes)], ["Records that are done", bytes(journal.done_bytes)], ["Reserve", bytes(journal.reserve_bytes)],
      ["Records", number(journal.records_appended)], ["Journal", journal.durable ? journal.state : "in memory only"]];
    return [
      h3("Set for this queue"), changed.length ? table("Settings that are not the default", changed) : nothing("Every setting has its default."),
      el("details", { class: "filters" }, el("summary", {}, `All ${settings.length} settings`), table("All settings", settings)),
      parent ? el("p", {}, "A child of ", queueLink(parent), ".") : null,
      children.length ? el("p", {}, "Children: ", ...children.flatMap((each, at) => (at ? [", ", queueLink(each)] : [queueLink(each)]))) : null,
      h3("Journal of the queue"), facts(shown),
      journal.durable ? el("p", {}, "The reserve is room for the next records, and for confirms when the disk is full. An idle queue frees what it does not need of it, and of the records that are done.") : null,
      h3("The same by hand"), commandLine(kestrelpy(`queues show ${sh(this.name)}`)),
    ].filter(Boolean);
  }
}

const TABS = { now: ["Now", Now], items: ["Items", Items], keys: ["Keys", Keys], leases: ["Leases", Leases], dead: ["Dead", Dead], time: ["Time", Past], settings: ["Settings", Settings] };
