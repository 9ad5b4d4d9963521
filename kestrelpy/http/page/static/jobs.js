// Work that goes on when its request is answered: progress, and a button that stops it.

import { actionButton, tell } from "./dialogs.js";
import { button, byId, el, say } from "./dom.js";
import { pause } from "./live.js";
import { ask } from "./server.js";
import { counted, number, sentence } from "./words.js";

const LOOK_MS = 1000;
const place = byId("jobs");
const shown = new Map(); // number of a job ──▶ its row
let isLooking = false;

const words = { redrive: "Redrive", purge: "Purge", move: "Move", "move dead": "Move of dead letters" };

function row(job) {
  const bar = el("progress", { max: Math.max(job.total, 1), "aria-label": `Progress of job ${job.id}` });
  const text = el("span", { role: "status" });
  const stop = actionButton("Stop", async () => {
    stop.disabled = true;
    try { follow(await ask(`/admin/jobs/${job.id}`, { method: "DELETE" })); } catch (error) { tell(sentence(error.message)); }
  }, { small: true });
  const close = button("Close", () => { made.element.remove(); shown.delete(job.id); }, { class: "small", hidden: true, "aria-label": `Forget job ${job.id}` });
  const made = { bar, text, stop, close, element: el("div", { class: "job" }, text, bar, stop, close) };
  place.prepend(made.element);
  return made;
}

function show(job) {
  if (!shown.has(job.id)) shown.set(job.id, row(job));
  const { bar, text, stop, close } = shown.get(job.id);
  const isOver = job.state !== "running";
  bar.max = Math.max(job.total, 1);
  bar.value = isOver && job.state === "done" ? bar.max : job.done;
  bar.hidden = isOver;
  say(text, `${words[job.action] ?? job.action} in ${job.queue}: ${isOver ? job.state + ", " : ""}${number(job.done)}${isOver ? "" : ` of at most ${number(job.total)}`} item${job.done === 1 ? "" : "s"}${job.error ? `. ${job.error}` : ""}`);
  if (stop) stop.hidden = isOver;
  close.hidden = !isOver;
}

// Show a job, and look at it until it is over.
function follow(job) {
  show(job);
  if (job.state === "running") look();
}

// Show jobs that run, also those that others began.
async function lookOnce() {
  const { jobs } = await ask("/admin/jobs");
  for (const job of jobs) if (!job.is_dry_run && (job.state === "running" || shown.has(job.id))) show(job);
  return jobs.some((job) => job.state === "running" && !job.is_dry_run);
}

export async function look() {
  if (isLooking) return;
  isLooking = true;
  try { while (await lookOnce()) await pause(LOOK_MS); } catch { /* the server is away: the page says so */ } finally { isLooking = false; }
}

// Begin what a request asks for. Return the sentence about its end, or about its beginning.
export async function begin(path, body, done) {
  const job = await ask(path, { method: "POST", body });
  if (job.state !== "running") return `${done}: ${counted(job.done, "item")}.`;
  follow(job);
  return `Job ${job.id} has begun.`;
}

// Count what a request would take, without a change. Return the job at its end.
export async function preview(path, body, onProgress, signal) {
  let job = await ask(path, { method: "POST", body: { ...body, dry_run: true }, signal });
  while (job.state === "running" && !signal.aborted) {
    onProgress(job);
    await pause(200, signal);
    job = await ask(`/admin/jobs/${job.id}`, { signal });
  }
  return job;
}
