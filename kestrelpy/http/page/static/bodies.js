// A body as a JSON tree, MessagePack, text or hex. Nothing of it is ever markup.

import { copyButton } from "./commands.js";
import { button, buttonRow, el, h3, note } from "./dom.js";
import { readJson, Shown } from "./json.js";
import { printed } from "./lists.js";
import { unpack } from "./msgpack.js";
import { bytes, number } from "./words.js";

const CHILDREN_MAX = 200;
const HEX_BYTES_MAX = 16384;
const OPEN_DEPTH = 2;

export function bytesOf({ body, base64 }) {
  if (base64 == null) return new TextEncoder().encode(body ?? "");
  return Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
}

function hexLines(data) {
  const lines = [];
  for (let at = 0; at < Math.min(data.length, HEX_BYTES_MAX); at += 16) {
    const some = [...data.subarray(at, at + 16)];
    const hex = some.map((each) => each.toString(16).padStart(2, "0")).join(" ").padEnd(47);
    const text = some.map((each) => (each >= 32 && each < 127 ? String.fromCharCode(each) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex}  ${text}`);
  }
  if (data.length > HEX_BYTES_MAX) lines.push(`… and ${number(data.length - HEX_BYTES_MAX)} bytes more`);
  return lines.join("\n");
}

function leaf(value) {
  if (value instanceof Shown) return el("span", { class: "v" }, value.text);
  const kind = value === null ? "null" : typeof value;
  return el("span", { class: `v ${kind}` }, printed(kind === "string" ? JSON.stringify(value) : String(value)));
}

// A value as a tree; the inside of a part is made when it is opened.
function tree(value, name = null, depth = 0) {
  const label = name === null ? null : el("span", { class: "k" }, printed(String(name instanceof Shown ? name.text : name)), ": ");
  if (value === null || typeof value !== "object" || value instanceof Shown) return el("div", {}, label, leaf(value));
  const isList = Array.isArray(value);
  const entries = isList ? value.map((each, at) => [at, each]) : value.entries;
  const part = el("details", {}, el("summary", {}, label, el("span", { class: "v" }, `${isList ? "[" : "{"} ${number(entries.length)} ${isList ? "]" : "}"}`)));
  const fill = () => {
    if (part.isFilled) return;
    part.isFilled = true;
    const inner = entries.slice(0, CHILDREN_MAX).map(([key, each]) => tree(each, key !== null && typeof key === "object" && !(key instanceof Shown) ? "(a structure)" : key, depth + 1));
    part.append(el("div", { class: "inner" }, ...inner, entries.length > CHILDREN_MAX ? el("div", {}, `… and ${number(entries.length - CHILDREN_MAX)} more`) : null));
  };
  part.addEventListener("toggle", () => { if (part.open) fill(); });
  if (depth < OPEN_DEPTH) { fill(); part.open = true; }
  return part;
}

// The forms in which this body can be shown, the best first: [name, make].
function formsOf(item) {
  const data = bytesOf(item);
  const isText = item.base64 == null;
  const forms = [];
  const structure = (name, read) => {
    try {
      const value = read();
      if (value !== null && typeof value === "object") forms.push([name, () => el("div", { class: "tree", tabindex: 0 }, tree(value))]);
    } catch { /* it is none */ }
  };
  if (isText) structure("JSON", () => readJson(item.body));
  if (!item.is_cut) structure("MessagePack", () => unpack(data));
  if (isText) forms.push(["Text", () => el("pre", { tabindex: 0 }, printed(item.body))]);
  forms.push(["Hex", () => el("pre", { class: "hex", tabindex: 0 }, hexLines(data))]);
  return forms;
}

export class Body {
  constructor(item, download) {
    const forms = formsOf(item);
    const place = el("div", {});
    const buttons = forms.map(([name, make], at) => button(name, () => {
      buttons.forEach((each, nth) => each.setAttribute("aria-pressed", String(nth === at)));
      place.replaceChildren(make());
    }, { class: "small", "aria-pressed": "false" }));
    const size = item.body_bytes ?? item.bytes;
    const cut = item.is_cut ? note(`The first ${bytes(bytesOf(item).length)} of ${bytes(size)}. Download it to see all.`) : null;
    const text = item.base64 == null ? () => item.body : () => item.base64;
    this.element = el("section", {}, h3(`Body, ${bytes(size)}`),
      buttonRow(...buttons, el("span", { class: "push" }), copyButton(text, item.base64 ? "Copy base64" : "Copy"), button("Download", download, { class: "small" })), cut, place);
    buttons[0].click();
  }
}
