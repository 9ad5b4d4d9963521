// The fleet: which member has which slices, whether they serve, and when they changed hands.

import { byId, el, h3, isHeld, note, renew } from "./dom.js";
import { Asking } from "./live.js";
import { Table } from "./tables.js";
import { Figures, sign } from "./verdict.js";
import { ago, number, nowMs, sentence, span } from "./words.js";

const LOOK_MS = 2000;
const STATES = { up: ["ok", "up"], drained: ["warn", "drained: it takes no slice"], gone: ["bad", "gone"] };
const WHY = { first: "nobody had it before", released: "it was given up", silent: "its owner was silent" };

const table = (rows, id) => ({ order: rows.map(id), rows: Object.fromEntries(rows.map((each) => [id(each), each])) });
const numbers = (all) => (all.length ? all.join(", ") : "–");
const served = ({ slices }) => slices.filter((each) => each.why === null).length;

function membersTable() {
  return new Table("Members", [
    { label: "Member", kind: "name", key: (r) => [r.member, r.address], node: (r) => [el("b", {}, r.member), el("small", { class: "place" }, r.address)] },
    { label: "State", key: (r) => r.state, node: (r) => sign(...STATES[r.state]) },
    { label: "Slices", kind: "n", marks: true, text: (r) => number(r.owns.length) },
    { label: "Owns", kind: "t", minor: true, text: (r) => numbers(r.owns) },
    { label: "Waits for", kind: "t", minor: true, text: (r) => numbers(r.waits_for) },
    { label: "Last commit", kind: "n", text: (r) => since(r.beat_age_ms) },
    { label: "Seen", kind: "n", minor: true, text: (r) => since(r.age_ms) },
  ], "No member has said that it is there.");
}

function slicesTable(withMembers) {
  return new Table("Slices", [
    { label: "Slice", key: (r) => r.slice, node: (r) => el("b", {}, `${r.slice}`) },
    ...(withMembers ? [{ label: "Member", kind: "t", marks: true, text: (r) => r.member ?? "–" }] : []),
    { label: "State", kind: "t", key: (r) => r.why, node: (r) => (r.why === null ? sign("ok", "serves") : sign("bad", r.why)) },
    { label: withMembers ? "Last commit" : "Last sign of life", kind: "n", text: (r) => since(r.beat_age_ms) },
  ], "This server has no slices.");
}

function takeoversTable(withMembers) {
  return new Table(withMembers ? "Takeovers" : "Restarts", [
    { label: "When", time: (r) => Math.round((nowMs - r.age_ms) / 1000) * 1000 },
    { label: "Slice", text: (r) => `${r.slice}` },
    ...(withMembers ? [{ label: "From", kind: "t", text: (r) => r.before ?? "–" }, { label: "To", kind: "t", text: (r) => r.member ?? "–" }] : []),
    { label: "Why", kind: "t", text: (r) => WHY[r.why] ?? r.why },
    ...(withMembers ? [{ label: "Silent for", kind: "n", minor: true, text: (r) => (r.idle_ms ? span(r.idle_ms) : "–") }] : []),
    { label: withMembers ? "Served after" : "Away for", kind: "n", text: (r) => span(r.took_ms) },
  ], withMembers ? "No slice has changed hands." : "No slice was started again since the start of the server.");
}

// An age that grows with each look: below a second it says no more.
const since = (ms) => (ms === null ? "–" : ms < 1000 ? "under 1 s" : span(ms));

export class Fleet extends Asking {
  constructor() {
    super();
    this.title = "Fleet";
    this.query = { view: "queues", limit: 1 };
    this.trouble = el("section", { class: "verdict bad held", "aria-label": "What nobody serves", hidden: true });
    this.place = el("div", {});
    this.elements = [this.trouble, this.place];
    this.every(LOOK_MS, () => this.look());
  }

  async look() {
    if (this.tables && byId("pause").getAttribute("aria-pressed") === "true") return;
    const fleet = await this.ask("/admin/fleet");
    if (!this.tables) this.build(fleet.members.length > 0);
    const { members, slices, takeovers } = this.tables;
    this.figures.update(fleet);
    members?.update(table(fleet.members, (each) => `${each.member} ${each.address}`));
    slices.update(table(fleet.slices, (each) => `slice ${each.slice}`));
    takeovers.update(table(fleet.takeovers, (each) => `${each.slice} ${each.epoch}`));
    this.warn(fleet);
  }

  build(withMembers) {
    this.tables = { members: withMembers ? membersTable() : null, slices: slicesTable(withMembers), takeovers: takeoversTable(withMembers) };
    const { members, slices, takeovers } = this.tables;
    const word = withMembers ? "takeover" : "restart";
    this.figures = new Figures(
      ["Slices served", (f) => `${number(served(f))} of ${number(f.slices.length)}`, { marks: true }],
      ...(withMembers ? [["Members up", (f) => `${number(f.members.filter((each) => each.state !== "gone").length)} of ${number(f.members.length)}`, { marks: true }]] : []),
      [withMembers ? "Takeovers" : "Restarts", (f) => number(f.takeovers_total), { marks: true }],
      [`Last ${word}`, (f) => (f.takeovers.length ? ago(nowMs - f.takeovers[0].age_ms, nowMs) : "–")]);
    this.place.replaceChildren(...[
      this.figures.element, members && h3("Members"), members?.element, h3("Slices"), slices.element, h3(`Last ${word}s`), takeovers.element,
      note(withMembers ? "The engine keeps the last twenty of each slice." : "These are known since the start of the server, the last twenty of each slice."),
    ].filter(Boolean));
  }

  // Say what nobody serves, and why.
  warn({ slices, trouble }) {
    const away = slices.filter((each) => each.why !== null);
    this.trouble.hidden = !away.length && !trouble;
    if (isHeld()) return;
    renew(this.trouble, [away.map((each) => [each.slice, each.why]), trouble], () => [
      el("p", {}, trouble ? sentence(trouble) : away.length === 1 ? "A slice is served by nobody." : `${away.length} slices are served by nobody.`),
      el("ul", {}, ...away.map((each) => el("li", {}, el("b", {}, `slice ${each.slice}`), each.why))),
    ]);
  }
}
