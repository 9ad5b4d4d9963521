// The lines that do the same by hand: kestrelpy, curl, and the memcache port by nc or openssl.

import { button, el } from "./dom.js";
import { user } from "./server.js";
import { quoted } from "./words.js";

const USUAL = "127.0.0.1:22133"; // where kestrelpy looks by itself
let wire; // {host, port, has_tls, wants_certificate} of the memcache port; null: there is none

export function setWire(server) { wire = server.memcache ?? null; }

// A word of a shell.
export function sh(word) {
  word = String(word);
  return /^[\w./:@%+=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

// A value in a line of the memcache protocol.
export const percent = quoted;

// The address of the memcache port; one that listens everywhere is where the page is.
function place() {
  const host = ["0.0.0.0", "::"].includes(wire.host) ? location.hostname.replace(/^\[|\]$/g, "") : wire.host;
  return [host, `${host.includes(":") ? `[${host}]` : host}:${wire.port}`];
}

// A command of kestrelpy.
export function kestrelpy(words) {
  if (wire === null) return `kestrelpy ${words} --server SOCKET`;
  const [, address] = wire ? place() : ["", USUAL];
  return ["kestrelpy", words, address === USUAL ? "" : `--server ${address}`, user.name ? `--user ${sh(user.name)} --password-file FILE` : "",
    wire?.has_tls ? "--tls" : "", wire?.wants_certificate ? "--tls-cert CERT --tls-key KEY" : ""].filter(Boolean).join(" ");
}

// A line to the memcache port, as a list: empty if there is no port. A server with users wants a login first.
export function nc(line) {
  if (!wire) return [];
  const [host, address] = place();
  const safe = line.replaceAll("\\", "\\\\").replaceAll("%", "%%").replaceAll("'", "'\\''");
  const login = user.name ? [`LOGIN=${sh(`${user.name} SECRET`)}; `, "set login 0 0 %d\\r\\n%s\\r\\n", ' "${#LOGIN}" "$LOGIN"'] : ["", "", ""];
  const to = wire.has_tls ? `openssl s_client -quiet -connect ${address}${wire.wants_certificate ? " -cert CERT -key KEY" : ""}` : `nc ${host} ${wire.port}`;
  return [`${login[0]}printf '${login[1]}${safe}\\r\\nquit\\r\\n'${login[2]} | ${to}`];
}

// A request as a line of curl.
export function curl(method, path, body) {
  const data = body === undefined ? "" : ` -H 'Content-Type: application/json' -d ${sh(JSON.stringify(body))}`;
  return `curl -s${user.name ? ` -u ${sh(user.name)}` : ""} -X ${method}${data} ${sh(location.origin + path)}`;
}

// -- copies. They work without HTTPS.

async function copy(text) {
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
  const made = button(label, async () => {
    made.textContent = (await copy(typeof text === "function" ? text() : text)) ? "Copied" : "Not copied";
    setTimeout(() => { made.textContent = label; }, 1500);
  }, { class: "small" });
  return made;
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
