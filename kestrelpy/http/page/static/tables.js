// A table whose rows stay where they are while somebody points at one or has the focus there.

import { el, say } from "/page/dom.js";

export class Table {
  // A column is {label, text(row), node(row), href(row), kind: "n" | "t", minor}.
  constructor(caption, columns, none) {
    this.columns = columns;
    this.rows = new Map();
    this.body = el("tbody");
    this.none = el("p", { class: "none" }, none);
    this.table = el("table", { class: "cards" }, el("caption", { class: "hidden" }, caption),
      el("thead", {}, el("tr", {}, ...columns.map((each) =>
        el("th", { scope: "col", class: each.kind ?? "" }, each.label)))), this.body);
    this.scroll = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, this.table);
    this.element = el("div", {}, this.scroll, this.none);
  }

  update(data) {
    const order = data?.order ?? [];
    this.none.hidden = order.length > 0;
    this.scroll.hidden = order.length === 0;
    for (const [id, row] of this.rows) {
      if (!(id in (data?.rows ?? {}))) { row.remove(); this.rows.delete(id); }
    }
    for (const id of order) this.fill(id, data.rows[id]);
    const isHeld = this.body.matches(":hover") || this.body.contains(document.activeElement);
    if (isHeld) return;
    order.forEach((id, at) => {
      const row = this.rows.get(id);
      if (this.body.children[at] !== row) this.body.insertBefore(row, this.body.children[at] ?? null);
    });
  }

  fill(id, data) {
    let row = this.rows.get(id);
    if (!row) {
      row = el("tr", {}, ...this.columns.map((each) => {
        const cell = el("td", { class: `${each.kind ?? ""} ${each.minor ? "minor" : ""}`, "data-label": each.label });
        if (each.href) cell.append(el("a", { href: each.href(data) }));
        return cell;
      }));
      this.rows.set(id, row);
      this.body.append(row);
    }
    this.columns.forEach((each, at) => {
      const cell = row.children[at];
      if (each.node) {
        const key = JSON.stringify(each.key(data));
        if (cell.key !== key) { cell.key = key; cell.replaceChildren(each.node(data)); }
      } else say(each.href ? cell.firstChild : cell, each.text(data), cell);
    });
  }
}
