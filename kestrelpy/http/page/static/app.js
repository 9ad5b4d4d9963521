// From the address to a page: #/queues/jobs/keys?after=7
//
//     address ──▶ page: title, tools, elements, query ──▶ Live ──▶ page.update(view), each second

import { setWire } from "./commands.js";
import { askForUser, tell } from "./dialogs.js";
import { alertLine, buttonRow, byId, el } from "./dom.js";
import { Fleet } from "./fleet.js";
import { Item } from "./item.js";
import { look } from "./jobs.js";
import { listen, showHelp } from "./keyboard.js";
import { Clients } from "./lists.js";
import { Live } from "./live.js";
import { Journal, Overview } from "./overview.js";
import { Queue } from "./queue.js";
import { DeadQueues, Find, Queues } from "./queues.js";
import { Schedules } from "./schedules.js";
import { atStranger, signIn, user } from "./server.js";
import { showVerdict } from "./verdict.js";
import { params, sentence, setNow, setZone } from "./words.js";

const PAGES = { overview: Overview, dead: DeadQueues, schedules: Schedules, clients: Clients, connections: Clients, journal: Journal, fleet: Fleet, find: Find };
const main = byId("main");
const state = byId("state");
const pauseButton = byId("pause");
const find = byId("find-text");
const fleetLink = byId("fleet-link"); // of a server with slices
let live = null;
let page = null;
let isPaused = false;
let isFirst = true;

function address() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map((each) => {
    try { return decodeURIComponent(each); } catch { return each; }
  });
  return { parts, parameters: Object.fromEntries(new URLSearchParams(query)) };
}

// Go to the same page with other parameters; an empty one goes.
function change(parameters) {
  const { parts, parameters: before } = address();
  const all = { ...before, ...parameters };
  for (const [name, value] of Object.entries(parameters)) if (value == null || value === "") delete all[name];
  const query = params(all).toString();
  location.hash = `/${parts.map(encodeURIComponent).join("/")}${query ? `?${query}` : ""}`;
}

function pageAt([first = "overview", ...rest], parameters) {
  if (first === "queues" && rest[1] === "items" && rest[2]) return new Item(rest, parameters, change);
  if (first === "queues" && rest.length) return new Queue(rest, parameters, change);
  return new (first === "queues" ? Queues : PAGES[first] ?? Overview)(rest, parameters, change);
}

function open() {
  live?.end();
  page?.end?.();
  document.querySelector("dialog[open]")?.close(); // it was of the page before
  const { parts, parameters } = address();
  const focused = document.activeElement?.id;
  page = pageAt(parts, parameters);
  document.title = `${page.title} · kestrelpy`;
  const here = { connections: "clients" }[parts[0]] ?? parts[0] ?? "overview";
  for (const link of document.querySelectorAll("body > nav a")) {
    if (link.hash === `#/${here}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const error = alertLine();
  const content = el("div", { class: "page", "aria-busy": "true" }, ...page.elements); // until its first view
  const heading = el("h2", { tabindex: "-1" }, page.title);
  main.replaceChildren(el("div", { class: "head" }, heading, buttonRow(...(page.tools ?? []).filter(Boolean))), error, content);
  const again = focused && main.contains(byId(focused)) ? byId(focused) : null;
  if (again) again.focus();
  else if (!isFirst) heading.focus({ preventScroll: true });
  isFirst = false;
  main.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }); // a tab of a narrow window
  if (!again) scrollTo(0, 0);
  watch(page, error, content);
}

function watch(shown, error, content) {
  live = new Live(new URLSearchParams(shown.query), (view) => {
    if (view.now_ms) setNow(view.now_ms);
    if (view.server) { setWire(view.server); fleetLink.hidden = !view.server.slices; }
    if (view.verdict) showVerdict(view);
    error.textContent = view.error ? sentence(view.error.description) : "";
    content.classList.toggle("stale", Boolean(view.error));
    if (!view.error) shown.update(view);
    content.removeAttribute("aria-busy");
  }, (kind, text) => {
    if (state.textContent !== text) state.textContent = text;
    state.className = kind;
    content.classList.toggle("stale", kind === "away");
  });
  if (isPaused) live.pause(true);
}

pauseButton.addEventListener("click", () => {
  isPaused = !isPaused;
  pauseButton.setAttribute("aria-pressed", String(isPaused));
  live?.pause(isPaused);
});

byId("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = find.value.trim();
  if (text) location.hash = `/find?${params({ text })}`;
});

// -- choices that a browser remembers

// What is remembered of this name; with a value, remember that. A browser may keep nothing.
function remembered(name, value) {
  try {
    if (value) localStorage.setItem(`kestrelpy.${name}`, value);
    return localStorage.getItem(`kestrelpy.${name}`);
  } catch { return null; }
}

const zone = byId("zone");
function useZone(isUtc) {
  setZone(isUtc);
  zone.textContent = isUtc ? "UTC" : "Local time";
  zone.setAttribute("aria-pressed", String(isUtc));
}
useZone(remembered("zone") === "utc");
zone.addEventListener("click", () => {
  const isUtc = zone.getAttribute("aria-pressed") !== "true";
  remembered("zone", isUtc ? "utc" : "local");
  useZone(isUtc);
  open();
});

const SCHEMES = ["auto", "light", "dark"];
const scheme = byId("scheme");
function useScheme(name) {
  document.documentElement.dataset.scheme = name;
  scheme.setAttribute("aria-label", `Colours: ${name}`);
}
useScheme(SCHEMES.includes(remembered("scheme")) ? remembered("scheme") : "auto");
scheme.addEventListener("click", () => {
  const next = SCHEMES[(SCHEMES.indexOf(document.documentElement.dataset.scheme) + 1) % SCHEMES.length];
  remembered("scheme", next);
  useScheme(next);
  tell(`Colours: ${next}.`);
});

// -- the beginning

byId("host").textContent = location.host;
byId("help").addEventListener("click", showHelp);
listen(find, pauseButton);
addEventListener("hashchange", open);
atStranger((why) => { live?.end(); askForUser(why, begin); });

async function begin() {
  try { if (user.name === null) await signIn(); } catch (error) {
    if (error.status === 401) return; // the form is open
    if (error.status) { main.replaceChildren(el("p", { class: "error", role: "alert" }, sentence(error.message))); return; }
  }
  setNow(user.now_ms); // no age is shown by the browser's clock
  byId("user-name").textContent = user.name ? `${user.name} (${user.role})` : "";
  open();
  look();
}

begin();
