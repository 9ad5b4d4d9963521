// Copy a text, and save bytes as a file. Both work without HTTPS.

import { el } from "/page/dom.js";

export async function copy(text) {
  if (navigator.clipboard) {
    try { await navigator.clipboard.writeText(text); return true; } catch { /* the older way */ }
  }
  const holder = document.querySelector("dialog[open]") ?? document.body;
  const before = document.activeElement;
  const box = el("textarea", { class: "hidden", "aria-hidden": "true" });
  box.value = text;
  holder.append(box);
  box.select();
  const isDone = document.execCommand("copy");
  box.remove();
  before?.focus();
  return isDone;
}

export function copyButton(text, label = "Copy") {
  const button = el("button", { type: "button", class: "small", onclick: async () => {
    button.textContent = (await copy(typeof text === "function" ? text() : text)) ? "Copied" : "Not copied";
    setTimeout(() => { button.textContent = label; }, 1500);
  } }, label);
  return button;
}

// A line of a shell, with a button that copies it.
export function commandLine(line) {
  return el("div", { class: "command" }, el("code", { tabindex: "0" }, line), copyButton(line));
}

export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}
