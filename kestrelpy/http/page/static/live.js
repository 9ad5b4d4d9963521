// A view as it changes: by a stream of events, or by asking every five seconds where none comes.

const PATIENCE_MS = 10000;
const ASK_MS = 5000;

// JSON merge patch, RFC 7396.
export function merged(before, patch) {
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
export function grown(view) {
  const { history, append } = view;
  if (!history || !append) return view;
  const points = Object.values(history.points);
  if (!points.length) return view;
  const at = Math.round((append.at_ms - history.since_ms) / history.step_ms);
  for (const [name, values] of Object.entries(history.points)) {
    while (values.length <= at) values.push(null);
    values[at] = append.points[name] ?? null;
  }
  const size = { 1000: 300, 10000: 360, 60000: 1440 }[history.step_ms] ?? 360;
  const over = at + 1 - size;
  if (over > 0) {
    for (const values of points) values.splice(0, over);
    history.since_ms += over * history.step_ms;
  }
  return view;
}

export class Live {
  constructor(query, onView, onState) {
    this.query = query;
    this.onView = onView;
    this.onState = onState;
    this.view = null;
    this.source = null;
    this.timer = null;
    this.isPaused = false;
    this.onVisible = () => (document.hidden ? this.stop() : this.start());
    document.addEventListener("visibilitychange", this.onVisible);
    this.start();
  }

  start() {
    this.stop();
    if (this.isPaused || document.hidden) return;
    const source = this.source = new EventSource(`/events?${this.query}`);
    this.wait();
    const take = (event, change) => {
      this.wait();
      const data = JSON.parse(event.data);
      this.view = change ? merged(this.view ?? {}, data) : data;
      this.show("live");
    };
    source.addEventListener("whole", (event) => take(event, false));
    source.addEventListener("change", (event) => take(event, true));
    source.addEventListener("end", () => this.onState("The server stops. Waiting for it to come back."));
    source.onerror = () => {
      this.onState("No connection to the server. Trying again.");
      if (source.readyState === EventSource.CLOSED) this.ask();
    };
  }

  wait() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), PATIENCE_MS);
  }

  // No event came: a proxy holds the stream back, too many are open, or the server is away.
  async ask() {
    clearTimeout(this.timer);
    this.source?.close();
    const source = this.source;
    try {
      const answer = await fetch(`/views?${this.query}`);
      const data = await answer.json();
      if (source !== this.source) return;
      this.view = answer.ok ? data : { ...(this.view ?? {}), error: { status: answer.status, description: data.description } };
      this.show("Updates every 5 s: no live stream comes through.");
    } catch {
      if (source !== this.source) return;
      this.onState("No connection to the server. Trying again.");
    }
    this.timer = setTimeout(() => this.ask(), ASK_MS);
  }

  show(state) {
    this.onState(state);
    this.onView(grown(this.view));
  }

  pause(isPaused) {
    this.isPaused = isPaused;
    if (isPaused) { this.stop(); this.onState("Paused."); } else this.start();
  }

  stop() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  end() {
    this.stop();
    document.removeEventListener("visibilitychange", this.onVisible);
  }
}
