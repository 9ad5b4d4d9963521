// What is asked before something is done: what it does, how much it removes, and the line that does
// the same by hand. All of a queue is removed by typing its name.

import { commandLine } from "/page/copying.js";
import { button, el } from "/page/dom.js";
import { mayAct } from "/page/server.js";

const said = document.getElementById("said");

export function tell(text) {
  said.textContent = text;
  clearTimeout(said.timer);
  said.timer = setTimeout(() => { said.textContent = ""; }, 8000);
}

// A button that only those see who may act; null: not this user.
export function actionButton(label, onclick, { danger = false, small = false, may = mayAct } = {}) {
  if (!may()) return null;
  return button(label, onclick, { class: `${danger ? "danger" : ""} ${small ? "small" : ""}` });
}

// A label around a control; `hint` says what is allowed.
export function field(label, control, hint) {
  return el("label", {}, label, control, hint ? el("small", {}, hint) : null);
}

// Open a dialog. `inner` are its elements, `commands()` the lines that do the same; `run` does it,
// and returns the sentence that says what was done. `typed`: this name is to be typed.
export function confirm({ title, inner = [], commands = () => [], label, danger = false, typed = null, run }) {
  const error = el("p", { class: "error", role: "alert" });
  const lines = el("div", {});
  const name = typed === null ? null : el("input", { id: "typed", autocomplete: "off", spellcheck: "false", oninput: () => check() });
  const go = el("button", { type: "submit", class: danger ? "danger primary" : "primary" }, label);
  const cancel = button("Cancel", () => dialog.close());
  const check = () => { go.disabled = name !== null && name.value !== typed; };
  const show = () => lines.replaceChildren(...commands().map(commandLine));
  const form = el("form", { oninput: show, onchange: show, onsubmit: async (event) => {
    event.preventDefault();
    go.disabled = true;
    error.textContent = "";
    try {
      const text = await run();
      dialog.close();
      if (text) tell(text);
    } catch (problem) {
      error.textContent = sentence(problem.message);
      check();
    }
  } }, el("h2", { id: "dialog-title" }, title), ...inner,
  name ? field(`Type ${typed} to go on`, name) : null,
  el("details", { class: "byhand" }, el("summary", {}, "The same by hand"), lines),
  error, el("div", { class: "buttons" }, cancel, go));
  const before = document.activeElement;
  const dialog = el("dialog", { "aria-labelledby": "dialog-title", onclose: () => {
    dialog.remove();
    if (before?.isConnected) before.focus(); else document.getElementById("main").focus();
  } }, form);
  document.body.append(dialog);
  show();
  check();
  dialog.showModal();
  (name ?? form.querySelector("input, select") ?? (danger ? cancel : go)).focus();
  return dialog;
}

export function sentence(text) {
  const ended = /[.!?…]$/.test(text) ? text : `${text}.`;
  return ended.charAt(0).toUpperCase() + ended.slice(1);
}
