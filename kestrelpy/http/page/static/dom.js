// Elements and links. A value reaches the page as text, and in no other way.

import { quoted } from "./words.js";

export function el(name, attributes = {}, ...children) {
  return dressed(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return dressed(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function dressed(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value != null && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((each) => each != null));
  return made;
}

export function button(label, onclick, attributes = {}) {
  return el("button", { type: "button", onclick, ...attributes }, label);
}

// A choice of [value, word]; `onchange` gets the new value.
export function choice(value, options, onchange, attributes) {
  const made = el("select", { ...attributes, onchange: () => onchange(made.value) }, ...options.map(([each, word]) => el("option", { value: each }, word)));
  made.value = value;
  return made;
}

export const byId = (id) => document.getElementById(id);
export const tools = (...children) => el("div", { class: "tools" }, ...children);
export const buttonRow = (...children) => el("div", { class: "buttons" }, ...children);
export const h3 = (text) => el("h3", {}, text);
export const nothing = (...children) => el("p", { class: "none" }, ...children); // said in place of a list
export const alertLine = () => el("p", { class: "error", role: "alert" });
export const statusLine = () => el("p", { class: "exact", role: "status" });

// A quiet text beside another one: the exact time, a note.
export const exact = (...children) => el("span", { class: "exact" }, ...children);
export const note = (...children) => el("p", { class: "exact" }, ...children);

// A list of [label, value or values].
export function facts(pairs, kind = "facts") {
  return el("dl", { class: kind }, ...pairs.map(([label, ...values]) => el("div", {}, el("dt", {}, label), el("dd", {}, ...values))));
}

// A table that scrolls by itself. `heads` are its cells of the head.
export function framed(caption, heads, body, kind = "cards") {
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, el("table", { class: kind },
    el("caption", { class: "hidden" }, caption), el("thead", {}, el("tr", {}, ...heads)), body));
}

// Set the text of an element. `marked` is the element that shows the change for a second.
export function say(element, text, marked = null) {
  text = String(text);
  if (element.textContent === text) return;
  const isFirst = element.textContent === "";
  element.textContent = text;
  if (isFirst || !marked) return;
  marked.classList.add("changed");
  clearTimeout(marked.timer);
  marked.timer = setTimeout(() => marked.classList.remove("changed"), 1000);
}

// Replace the children of an element if `key` says that they differ, and none of them has the focus.
export function renew(element, key, make) {
  const text = JSON.stringify(key);
  if (element.key === text || element.contains(document.activeElement)) return;
  element.key = text;
  element.replaceChildren(...[make()].flat().filter((each) => each != null));
}

// True if somebody points at a row or has the focus in one: nothing moves under them.
export function isHeld() {
  const canHover = matchMedia("(hover: hover)").matches;
  return Boolean(document.activeElement?.closest("tbody, .held") || (canHover && document.querySelector("tbody:hover, .held:hover")));
}

// -- addresses of the page, and links to them

export const queueAt = (queue, tab = "now") => `#/queues/${quoted(queue)}/${tab}`;
export const itemAt = (queue, id) => queueAt(queue, `items/${id}`);
export const queueLink = (queue) => el("a", { href: queueAt(queue) }, queue);
export const itemLink = (queue, id) => el("a", { href: itemAt(queue, id) }, `item ${id}`);

// The parameters of these names that are there.
export const given = (all, ...names) => Object.fromEntries(names.filter((each) => all[each]).map((each) => [each, all[each]]));
