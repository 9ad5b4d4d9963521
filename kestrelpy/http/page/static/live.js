// A view as it changes: by a stream of events, or by asking every five seconds where none comes.
//
//     stream ──▶ whole, change, change … ──▶ view
//        └── nothing for ten seconds: a proxy holds it back ──▶ ask every 5 s; try again each minute

import { ask, Refused, request } from "./server.js";

const PATIENCE_MS = 10000;
const ASK_MS = 5000;
const AGAIN_MS = 60000;
const RETRY_MS = 1000;
const LINE_CHARACTERS_MAX = 16 << 20;

// JSON merge patch, RFC 7396.
function merged(before, patch) {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
  const isObject = before !== null && typeof before === "object" && !Array.isArray(before);
  const made = isObject ? { ...before } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete made[name];
    else made[name] = merged(made[name], value);
  }
  return made;
}

// Add the newest point of a change to the past that came with the whole view.
function grown(view) {
  const { append } = view;
  if (!append) return view;
  // The past of a queue may begin after its view: the whole view had none.
  view.history ??= { step_ms: 10000, since_ms: append.at_ms, points: Object.fromEntries(Object.keys(append.points).map((name) => [name, []])) };
  const { history } = view;
  const points = Object.values(history.points);
  if (!points.length) return view;
  const at = Math.round((append.at_ms - history.since_ms) / history.step_ms);
  const size = pointsMax(history.step_ms);
  for (const [name, values] of Object.entries(history.points)) {
    while (values.length <= at && values.length <= at + size) values.push(null);
    if (at >= 0) values[at] = append.points[name] ?? null;
  }
  const over = at + 1 - size;
  if (over > 0) {
    for (const values of points) values.splice(0, over);
    history.since_ms += over * history.step_ms;
  }
  return view;
}

export function pointsMax(stepMs) {
  return { 1000: 300, 10000: 360, 60000: 1440 }[stepMs] ?? 360;
}

// Yield {kind, data} of a stream of server-sent events.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += value;
      if (rest.length > LINE_CHARACTERS_MAX) throw new Error("an event is too large");
      let end = rest.indexOf("\n\n");
      while (end >= 0) {
        const lines = rest.slice(0, end).split("\n");
        rest = rest.slice(end + 2);
        const of = (name) => lines.filter((each) => each.startsWith(`${name}: `)).map((each) => each.slice(name.length + 2)).join("\n");
        yield { kind: of("event"), data: of("data") };
        end = rest.indexOf("\n\n");
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

export class Live {
  constructor(query, onView, onState) {
    this.query = query;
    this.onView = onView;
    this.onState = onState;
    this.view = null;
    this.isPaused = false;
    this.stopping = null;
    this.onVisible = () => (document.hidden ? this.stop() : this.start());
    document.addEventListener("visibilitychange", this.onVisible);
    this.start();
  }

  start() {
    this.stop();
    if (this.isPaused || document.hidden) return;
    const stopping = this.stopping = new AbortController();
    this.run(stopping.signal).catch((error) => {
      if (!stopping.signal.aborted) { this.onState("bad", "The page made a mistake. Reload it."); throw error; }
    });
  }

  async run(signal) {
    while (!signal.aborted) {
      try {
        if (await this.follow(signal)) await this.poll(signal);
      } catch (error) {
        if (signal.aborted || error.status === 401) return;
        this.onState("away", "No connection to the server. Trying again.");
      }
      await pause(RETRY_MS, signal);
    }
  }

  // Follow the stream to its end. Return true if none comes through.
  async follow(signal) {
    const ending = new AbortController();
    const end = () => ending.abort();
    signal.addEventListener("abort", end, { once: true });
    let timer;
    let isLate = false;
    const wait = () => { clearTimeout(timer); timer = setTimeout(() => { isLate = true; end(); }, PATIENCE_MS); };
    wait();
    try {
      const answer = await request(`/events?${this.query}`, { signal: ending.signal });
      for await (const { kind, data } of events(answer.body)) {
        wait();
        if (kind === "end") this.onState("away", "The server stops. Waiting for it to come back.");
        else if (kind) {
          const said = JSON.parse(data);
          this.view = kind === "change" ? merged(this.view ?? {}, said) : said;
          this.show("live", "live");
        }
      }
    } catch (error) {
      if (signal.aborted || !(isLate || (error instanceof Refused && error.status !== 401))) throw error;
      return true;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      end();
    }
    return isLate;
  }

  // A proxy holds the stream back, or too many are open: ask for a minute.
  async poll(signal) {
    for (let spent = 0; spent < AGAIN_MS && !signal.aborted; spent += ASK_MS) {
      try {
        this.view = await ask(`/views?${this.query}`, { signal });
      } catch (error) {
        if (!(error instanceof Refused) || error.status === 401) throw error;
        this.view = { ...(this.view ?? {}), error: { status: error.status, description: error.message } };
      }
      this.show("slow", "Updates every 5 s: no live stream comes through.");
      await pause(ASK_MS, signal);
    }
  }

  show(state, text) {
    this.onState(state, text);
    this.onView(grown(this.view));
  }

  pause(isPaused) {
    this.isPaused = isPaused;
    if (isPaused) { this.stop(); this.onState("paused", "Paused."); } else this.start();
  }

  stop() {
    this.stopping?.abort();
    this.stopping = null;
  }

  end() {
    this.stop();
    document.removeEventListener("visibilitychange", this.onVisible);
  }
}

// A part of the page that asks by itself, until the page ends.
export class Asking {
  constructor() {
    this.ending = new AbortController();
    this.signal = this.ending.signal;
  }

  ask(path) { return ask(path, { signal: this.signal }); }

  // Look now, and again and again. What fails is said by the stream.
  async every(ms, look) {
    while (!this.signal.aborted) {
      try { if (!document.hidden) await look(); } catch { /* the next look may do */ }
      await pause(ms, this.signal);
    }
  }

  update() {}

  end() { this.ending.abort(); }
}

export function pause(ms, signal) {
  return new Promise((done) => {
    const timer = setTimeout(end, ms);
    function end() { clearTimeout(timer); signal?.removeEventListener("abort", end); done(); }
    signal?.addEventListener("abort", end, { once: true });
  });
}
