// The form for a user and a secret. They stay in memory: a reload asks again.

import { field, openForm, sentence } from "./dialogs.js";
import { alertLine, buttonRow, el, note } from "./dom.js";
import { signIn, signOut } from "./server.js";

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
