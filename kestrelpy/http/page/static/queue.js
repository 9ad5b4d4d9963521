// One queue: a header with its state and actions, and tabs.

import { Charts } from "./charts.js";
import { Dead } from "./dead.js";
import { actionButton } from "./dialogs.js";
import { el, h3, isHeld, nothing, queueAt, renew } from "./dom.js";
import { Actions, Figures } from "./figures.js";
import { Items, Keys, Leases } from "./lists.js";
import { depth, flow, oldest } from "./overview.js";
import { Past } from "./past.js";
import { deleteQueue, flushQueue, moveReady, pauseQueue } from "./queue_actions.js";
import { Settings } from "./settings.js";
import { bytes, number, span } from "./words.js";

class Now {
  constructor(name) {
    this.query = { view: "queue", queue: name };
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
    this.elements = [this.stands, this.figures.element, this.charts.element, this.none, this.actions.element];
  }

  update(view) {
    this.figures.update(view);
    this.charts.update(view);
    this.none.hidden = Boolean(view.history);
    this.actions.update(view);
    if (isHeld()) return;
    this.stands.hidden = view.why.length === 0;
    renew(this.why, view.why, () => view.why.map((each) => el("li", {}, each)));
  }
}

const TABS = { now: ["Now", Now], items: ["Items", Items], keys: ["Keys", Keys], leases: ["Leases", Leases], dead: ["Dead", Dead], time: ["Time", Past], settings: ["Settings", Settings] };

export class Queue {
  constructor([name, tab = "now"], parameters, change) {
    const kind = tab in TABS ? tab : "now";
    this.title = name;
    this.state = { paused: false };
    this.part = new TABS[kind][1](name, parameters, change);
    this.query = this.part.query;
    this.pauseButton = actionButton("Pause…", () => pauseQueue(name, this.state.paused));
    this.removeButton = actionButton("Delete…", () => deleteQueue(name), { danger: true });
    this.tools = [this.pauseButton, actionButton("Move…", () => moveReady(name)), actionButton("Flush…", () => flushQueue(name), { danger: true }), this.removeButton];
    const tabs = el("nav", { class: "tabs", "aria-label": "Parts of the queue" }, ...Object.entries(TABS).map(([id, [word]]) =>
      el("a", { href: queueAt(name, id), "aria-current": id === kind ? "page" : null }, word)));
    this.elements = [tabs, ...this.part.elements];
  }

  update(view) {
    if (this.removeButton) this.removeButton.hidden = view.server.allow_delete === false;
    if (view.queue) this.state.paused = view.queue.paused;
    if (view.queue && this.pauseButton) this.pauseButton.textContent = view.queue.paused ? "Resume…" : "Pause…";
    this.part.update(view);
  }

  end() { this.part.end?.(); }
}
