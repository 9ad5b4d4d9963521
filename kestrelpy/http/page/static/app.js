// From the address to a page: #/queues/jobs/keys?after=7

import { el } from "/page/dom.js";
import { Live } from "/page/live.js";
import { pageAt, Verdict } from "/page/pages.js";

const main = document.getElementById("main");
const state = document.getElementById("state");
const pause = document.getElementById("pause");
const find = document.getElementById("find-text");
let live = null;
let isPaused = false;

function address() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map((each) => {
    try { return decodeURIComponent(each); } catch { return each; }
  });
  return { parts, parameters: Object.fromEntries(new URLSearchParams(query)) };
}

function change(parameters) {
  const { parts, parameters: before } = address();
  const query = new URLSearchParams({ ...before, ...parameters });
  location.hash = `/${parts.map(encodeURIComponent).join("/")}?${query}`;
}

function open() {
  live?.end();
  const { parts, parameters } = address();
  const page = pageAt(parts, parameters, change);
  const verdict = new Verdict();
  const error = el("p", { class: "error", role: "alert" });
  const content = el("div", {}, ...page.elements);
  document.title = `${page.title} · kestrelpy`;
  for (const link of document.querySelectorAll("body > nav a")) {
    const isHere = link.hash === `#/${parts[0] ?? "overview"}`;
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  main.replaceChildren(el("h2", {}, page.title), verdict.element, error, el("div", { class: "page" }, content));
  const query = new URLSearchParams(page.query);
  live = new Live(query, (view) => {
    if (view.verdict) verdict.update(view);
    error.textContent = view.error?.description ?? "";
    content.hidden = Boolean(view.error);
    if (!view.error) page.update(view);
  }, (said) => { if (state.textContent !== said) state.textContent = said; });
  if (isPaused) live.pause(true);
}

pause.addEventListener("click", () => {
  isPaused = !isPaused;
  pause.setAttribute("aria-pressed", String(isPaused));
  live.pause(isPaused);
});

document.getElementById("find").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = find.value.trim();
  if (!text) return;
  const answer = await fetch(`/admin/find?${new URLSearchParams({ text })}`);
  const found = await answer.json();
  live?.end();
  const hits = (found.hits ?? []).map((hit) => el("li", {}, el("a",
    { href: `#/queues/${encodeURIComponent(hit.queue)}/${hit.item ? "items" : "now"}${hit.item ? `?after=${hit.item - 1}` : ""}` },
    `${hit.kind}: ${hit.queue}${hit.item ? `, item ${hit.item}` : ""}`)));
  main.replaceChildren(el("h2", {}, `Found for ${text}`), hits.length ? el("ul", {}, ...hits)
    : el("p", { class: "none" }, answer.ok ? "Nothing has this name, number, key or id." : found.description));
  main.focus();
});

const GO = { o: "overview", q: "queues", c: "connections", s: "schedules", j: "journal" };
let isGoing = false;

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") { document.activeElement?.blur(); return; }
  if (event.target.matches("input, select, textarea")) return;
  if (isGoing && event.key in GO) location.hash = `/${GO[event.key]}`;
  else if (event.key === "/") { event.preventDefault(); find.focus(); }
  else if (event.key === "p") pause.click();
  else if (event.key === "j" || event.key === "k") {
    const links = [...main.querySelectorAll("tbody a")];
    const at = links.indexOf(document.activeElement) + (event.key === "j" ? 1 : -1);
    links[Math.max(0, Math.min(links.length - 1, at))]?.focus();
  }
  isGoing = event.key === "g";
});

addEventListener("hashchange", open);
open();
