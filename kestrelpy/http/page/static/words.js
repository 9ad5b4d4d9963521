// Figures, times and names in words. The server's clock counts, not the browser's.

import { exact } from "./dom.js";

export const quoted = encodeURIComponent;
export const pathOf = (queue) => `/admin/queues/${quoted(queue)}`;
// The members that there are.
export const present = (all) => Object.fromEntries(Object.entries(all).filter(([, value]) => value != null));
export const params = (parameters) => new URLSearchParams(parameters);
const whole = new Intl.NumberFormat("en");

export function number(value) {
  if (value == null) return "–";
  if (Math.abs(value) >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  return whole.format(Math.abs(value) >= 100 ? Math.round(value) : Math.round(value * 10) / 10);
}

export function sentence(text) {
  const ended = /[.!?…]$/.test(text) ? text : `${text}.`;
  return ended.charAt(0).toUpperCase() + ended.slice(1);
}

export const rate = (value) => (value == null ? "–" : `${number(value)}/s`);

export function counted(count, noun) {
  return `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
}

export function bytes(value) {
  if (value == null) return "–";
  let unit = 0;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return `${value >= 10 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

// A length of time with one unit, or two if the first is small: 4 min 12 s, 3 h 5 min, 12 d.
export function span(ms) {
  if (ms == null) return "–";
  if (ms < 1000) return `${ms < 10 ? Math.round(ms * 10) / 10 : Math.round(ms)} ms`;
  const seconds = Math.floor(ms / 1000);
  const at = UNITS.findIndex(([size]) => seconds >= size);
  const [size, word] = UNITS[at];
  const first = Math.floor(seconds / size);
  const [next, nextWord] = UNITS[at + 1] ?? [1, ""];
  const rest = Math.floor((seconds % size) / next);
  return first < 10 && nextWord && rest ? `${first} ${word} ${rest} ${nextWord}` : `${first} ${word}`;
}

export function ago(ms, nowMs) {
  if (ms == null) return "–";
  if (Math.abs(nowMs - ms) < 1000) return "now";
  return ms <= nowMs ? `${span(nowMs - ms)} ago` : `in ${span(ms - nowMs)}`;
}

// -- the zone

let zone;
let formats;
export let nowMs = 0; // of the server, at the newest view

export function setNow(ms) { nowMs = ms; }

export function setZone(isUtc) {
  zone = isUtc ? "UTC" : undefined;
  const made = (options) => new Intl.DateTimeFormat("en-GB", { timeZone: zone, hour12: false, ...options });
  const time = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
  formats = {
    stamp: new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" }),
    day: made({ year: "numeric", month: "2-digit", day: "2-digit" }),
    time: made(time),
    minute: made({ hour: "2-digit", minute: "2-digit" }),
    near: made({ month: "short", day: "numeric", ...time }),
    far: made({ year: "numeric", month: "short", day: "numeric", ...time }),
  };
}

setZone(false);

// An exact time; its day only if that is not today.
export function moment(ms) {
  if (ms == null) return "–";
  const { day, time, near, far } = formats;
  const isToday = day.format(ms) === day.format(nowMs);
  const isNear = Math.abs(nowMs - ms) < 300 * 86400000;
  return (isToday ? time : isNear ? near : far).format(ms) + (zone ? " UTC" : "");
}

// An exact time as `parseTime` reads it.
export const stamp = (ms) => formats.stamp.format(ms);

export const minute = (ms) => formats.minute.format(ms);

// The time that a text names: a number of seconds or milliseconds since 1970, or a date; null: none.
export function parseTime(text) {
  text = text.trim();
  if (/^\d{9,11}$/.test(text)) return Number(text) * 1000;
  if (/^\d{12,15}$/.test(text)) return Number(text);
  const time = /^(\d{1,2}):(\d{2})(?::(\d{2}))?$/.exec(text);
  if (time) {
    const at = new Date(nowMs);
    const values = [Number(time[1]), Number(time[2]), Number(time[3] ?? 0), 0];
    if (zone) at.setUTCHours(...values); else at.setHours(...values);
    return at.getTime() > nowMs ? at.getTime() - 86400000 : at.getTime();
  }
  const parsed = Date.parse(zone && /^\d{4}-\d\d-\d\d([T ][\d:.]+)?$/.test(text) ? `${text.replace(" ", "T")}${text.length > 10 ? "Z" : ""}` : text);
  return Number.isNaN(parsed) ? null : parsed;
}

// How long ago, with the exact time beside it.
export const times = (ms) => (ms ? [ago(ms, nowMs), exact(moment(ms))] : ["–"]);
