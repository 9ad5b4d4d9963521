// The form for a user and a secret. They stay in memory: a reload asks again.

import { field, sentence } from "/page/dialogs.js";
import { el, note } from "/page/dom.js";
import { signIn, signOut } from "/page/server.js";

let isOpen = false;

// Ask for the user until the server takes one, then go on.
export function askForUser(why, goOn) {
  if (isOpen) return;
  isOpen = true;
  const name = el("input", { id: "user", autocomplete: "username", required: true, maxlength: 256 });
  const secret = el("input", { id: "secret", type: "password", autocomplete: "current-password", required: true, maxlength: 1024 });
  const error = el("p", { class: "error", role: "alert" });
  const go = el("button", { type: "submit", class: "primary" }, "Sign in");
  const dialog = el("dialog", { "aria-labelledby": "sign-in-title", oncancel: (event) => event.preventDefault() }, el("form", { onsubmit: async (event) => {
    event.preventDefault();
    go.disabled = true;
    error.textContent = "";
    try {
      await signIn(name.value, secret.value);
      secret.value = "";
      isOpen = false;
      dialog.close();
      dialog.remove();
      goOn();
    } catch (problem) {
      signOut();
      error.textContent = sentence(problem.message);
    }
    go.disabled = false;
  } }, el("h2", { id: "sign-in-title" }, "Sign in"), note(`${sentence(why)} The secret stays in this tab's memory.`), field("User", name), field("Secret", secret), error, el("div", { class: "buttons" }, go)));
  document.body.append(dialog);
  dialog.showModal();
  name.focus();
}
