// What is asked before something is done: what it does, how much it removes, and the line that does
// the same by hand. All of a queue is removed by typing its name.

import { commandLine } from "./commands.js";
import { alertLine, button, buttonRow, byId, el, note } from "./dom.js";
import { mayAct, signIn, signOut } from "./server.js";
import { sentence } from "./words.js";

const said = byId("said");

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

// Open a dialog with a form. When it closes the focus goes back to where it was.
export function openForm(title, children, onsubmit, more = {}) {
  const before = document.activeElement;
  const dialog = el("dialog", { "aria-labelledby": "dialog-title", onclose: () => {
    dialog.remove();
    if (before?.isConnected) before.focus(); else byId("main").focus();
  } }, el("form", { ...more, onsubmit: (event) => { event.preventDefault(); onsubmit(); } }, el("h2", { id: "dialog-title" }, title), ...children));
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// Ask before something is done. `text` and the elements of `inner` say what, `commands()` the lines that do the same; `run` does it,
// and returns the sentence that says what was done. `typed`: this name is to be typed.
export function confirm({ title, text = null, inner = [], commands = () => [], label, danger = false, typed = null, run }) {
  const error = alertLine();
  const lines = el("div", {});
  const name = typed === null ? null : el("input", { id: "typed", autocomplete: "off", spellcheck: "false", oninput: () => check() });
  const go = el("button", { type: "submit", class: danger ? "danger primary" : "primary" }, label);
  const cancel = button("Cancel", () => dialog.close());
  const check = () => { go.disabled = name !== null && name.value !== typed; };
  const show = () => lines.replaceChildren(...commands().map(commandLine));
  const submit = async () => {
    go.disabled = true;
    error.textContent = "";
    try {
      const done = await run();
      dialog.close();
      if (done) tell(done);
    } catch (problem) {
      error.textContent = sentence(problem.message);
      check();
    }
  };
  const dialog = openForm(title, [text ? el("p", {}, text) : null, ...inner,
    name ? field(`Type ${typed} to go on`, name) : null,
    el("details", { class: "byhand" }, el("summary", {}, "The same by hand"), lines),
    error, buttonRow(cancel, go)], submit, { oninput: show, onchange: show });
  show();
  check();
  (name ?? dialog.querySelector("input, select") ?? (danger ? cancel : go)).focus();
  return dialog;
}

// -- the form for a user and a secret. They stay in memory: a reload asks again.

let isOpen = false;

// Ask for the user until the server takes one, then go on.
export function askForUser(why, goOn) {
  if (isOpen) return;
  isOpen = true;
  const name = el("input", { id: "user", autocomplete: "username", required: true, maxlength: 256 });
  const secret = el("input", { id: "secret", type: "password", autocomplete: "current-password", required: true, maxlength: 1024 });
  const error = alertLine();
  const go = el("button", { type: "submit", class: "primary" }, "Sign in");
  const submit = async () => {
    go.disabled = true;
    error.textContent = "";
    try {
      await signIn(name.value, secret.value);
      secret.value = "";
      isOpen = false;
      dialog.close();
      goOn();
    } catch (problem) {
      signOut();
      error.textContent = sentence(problem.message);
    }
    go.disabled = false;
  };
  const dialog = openForm("Sign in", [note(`${sentence(why)} The secret stays in this tab's memory.`), field("User", name), field("Secret", secret), error, buttonRow(go)], submit);
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  name.focus();
}
