// A table whose rows stay where they are while somebody points at one or has the focus there.

import { el, exact, framed, isHeld, nothing, renew, say } from "./dom.js";
import { ago, moment, nowMs, number } from "./words.js";

const ZERO = /^(0|0\/s|0 B|–)$/;

// A column of a number; `more` as in a column.
export const numberColumn = (label, name, more) => ({ label, kind: "n", text: (row) => number(row[name]), ...more });

export class Table {
  // A column is {label, kind: "n" | "t", minor} and one of: text(row), with href(row), marks: true;
  // time(row) in ms; node(row) with key(row). `select` tells of the rows that were chosen.
  constructor(caption, columns, none, { select, empty = true } = {}) {
    this.columns = columns;
    this.rows = new Map();
    this.chosen = new Set();
    this.select = select;
    this.body = el("tbody");
    this.none = empty ? nothing(none) : null;
    const heads = columns.map((each) => el(each.label ? "th" : "td", { scope: each.label ? "col" : null, class: `${each.kind ?? ""} ${each.minor ? "minor" : ""}` }, each.label));
    if (select) {
      this.all = el("input", { type: "checkbox", "aria-label": "Select all rows shown", onchange: () => this.choose([...this.rows.keys()], this.all.checked) });
      heads.unshift(el("th", { scope: "col", class: "pick" }, this.all));
    }
    this.scroll = framed(caption, heads, this.body);
    this.element = el("div", {}, this.scroll, this.none);
  }

  update(data) {
    const { order = [], rows = {} } = data ?? {};
    const holds = isHeld();
    for (const [id, row] of this.rows) {
      const isGone = !(id in rows);
      if (isGone && holds) row.classList.add("gone");
      else if (isGone) { row.remove(); this.rows.delete(id); if (this.chosen.delete(id)) this.select?.(this.chosen); }
    }
    for (const id of order) if (!holds || this.rows.has(id) || this.body.children.length < order.length) this.fill(id, rows[id]);
    this.scroll.hidden = this.rows.size === 0;
    if (this.none) this.none.hidden = this.rows.size > 0;
    if (holds) return;
    order.forEach((id, at) => {
      const row = this.rows.get(id);
      if (this.body.children[at] !== row) this.body.insertBefore(row, this.body.children[at] ?? null);
    });
  }

  fill(id, data) {
    let row = this.rows.get(id);
    if (!row) {
      row = this.make(id, data);
      this.rows.set(id, row);
      this.body.append(row);
    }
    row.classList.remove("gone");
    const first = this.select ? 1 : 0;
    this.columns.forEach((each, at) => {
      const cell = row.children[at + first];
      if (each.node) renew(cell, each.key(data), () => each.node(data));
      else if (each.time) {
        const ms = each.time(data);
        say(cell.firstChild, ms ? ago(ms, nowMs) : each.none ?? "–");
        say(cell.lastChild, ms ? moment(ms) : "");
      } else {
        const text = each.text(data);
        cell.classList.toggle("zero", ZERO.test(text)); // what is not there is quiet
        say(each.href ? cell.firstChild : cell, text, each.marks ? cell : null);
      }
    });
  }

  make(id, data) {
    const cells = this.columns.map((each) => {
      const cell = el("td", { class: `${each.kind ?? ""} ${each.minor ? "minor" : ""}`, "data-label": each.label });
      if (each.href) cell.append(el("a", { href: each.href(data) }));
      if (each.time) cell.classList.add("time");
      if (each.time) cell.append(el("span"), exact());
      return cell;
    });
    if (this.select) {
      const box = el("input", { type: "checkbox", "aria-label": `Select ${id}`, onchange: () => this.choose([id], box.checked) });
      cells.unshift(el("td", { class: "pick" }, box));
    }
    return el("tr", {}, ...cells);
  }

  choose(ids, isOn) {
    for (const id of ids) {
      if (isOn) this.chosen.add(id); else this.chosen.delete(id);
      const row = this.rows.get(id);
      if (row) { row.classList.toggle("chosen", isOn); row.querySelector(".pick input").checked = isOn; }
    }
    if (!this.chosen.size) this.all.checked = false;
    this.select(this.chosen);
  }
}
