// Requests to the server, and the user who makes them. The secret is in memory only.

let authorization = null;
let onStranger = () => {};
export let user = { name: null, role: "admin" };

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

// `credentials: "omit"` keeps the browser from asking for a user by a window of its own.
export async function request(path, { method = "GET", body, signal, headers = {} } = {}) {
  const all = { ...headers };
  if (authorization) all.Authorization = authorization;
  if (body !== undefined) all["Content-Type"] = "application/json";
  const answer = await fetch(path, {
    method, signal, headers: all, credentials: "omit", cache: "no-store",
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (answer.ok) return answer;
  let text = `the server answers ${answer.status}`;
  try { text = (await answer.json()).description ?? text; } catch { /* a proxy's answer */ }
  if (answer.status === 401) onStranger(text);
  throw new Refused(answer.status, text);
}

export async function ask(path, options) {
  const answer = await request(path, options);
  return answer.status === 204 ? null : answer.json();
}

export function atStranger(show) { onStranger = show; }

export async function signIn(name, secret) {
  if (name) {
    const said = new TextEncoder().encode(`${name}:${secret}`);
    authorization = `Basic ${btoa(String.fromCharCode(...said))}`;
  }
  user = await ask("/admin/me");
  return user;
}

export function signOut() {
  authorization = null;
}

// True if the user may change something; a reader sees no button.
export const mayAct = () => user.role === "admin";

// True if the user may do what a worker does: end and renew leases.
export const mayWork = () => user.role !== "read";
