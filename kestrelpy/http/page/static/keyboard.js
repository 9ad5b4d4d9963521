// The page by keyboard.

import { openForm } from "./dialogs.js";
import { buttonRow, byId, el, facts, note } from "./dom.js";

const GO = { o: "overview", q: "queues", d: "dead", s: "schedules", c: "clients", j: "journal", f: "fleet" };
const HELP = [["/", "find"], ["g o, g q, g d", "overview, queues, dead letters"], ["g s, g c, g j", "schedules, clients, journal"], ["g f", "fleet, of a server with slices"], ["j, k", "next row, row before"], ["Enter", "open the row"],
  ["x", "select the row"], [".", "the actions of the row, or of the page"], ["p", "stop the updates, go on"], ["?", "this list"], ["Esc", "close, leave a field"]];
const main = byId("main");
let isGoing = false;

// The focus of a row is its first link, or its box.
const target = (row) => row.querySelector("a") ?? row.querySelector("input, button");

function step(by) {
  const rows = [...main.querySelectorAll("tbody tr")].filter((each) => target(each) && each.offsetParent);
  const at = rows.indexOf(document.activeElement?.closest("tbody tr"));
  target(rows[Math.max(0, Math.min(rows.length - 1, at + by))] ?? document.body)?.focus();
}

function actions() {
  const row = document.activeElement?.closest("tbody tr");
  const button = row?.querySelector("button") ?? main.querySelector(".bar button") ?? main.querySelector(".head button");
  button?.focus();
}

export function showHelp() {
  const dialog = openForm("Keyboard", [facts(HELP.map(([key, word]) => [el("span", {}, ...key.split(", ").map((each) => el("kbd", {}, each))), word]), "keys"),
    note("The order of a table rests while the pointer or the focus is on it."), buttonRow(el("button", { type: "submit" }, "Close"))], () => dialog.close());
}

export function listen(find, pause) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const { key } = event;
    if (key === "Escape") { document.activeElement?.blur(); return; }
    if (event.target.matches("input:not([type=checkbox]), select, textarea")) return;
    const wasGoing = isGoing;
    isGoing = key === "g";
    if (wasGoing && key in GO) location.hash = `/${GO[key]}`;
    else if (key === "/") { event.preventDefault(); find.focus(); }
    else if (key === "p") pause.click();
    else if (key === "?") showHelp();
    else if (key === ".") actions();
    else if (key === "x") document.activeElement?.closest("tbody tr")?.querySelector(".pick input")?.click();
    else if (key === "j") step(1);
    else if (key === "k") step(-1);
  });
}
