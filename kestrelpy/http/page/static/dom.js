// Elements and words. A value reaches the page as text, and in no other way.

export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((each) => each !== null && each !== undefined));
  return made;
}

export function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Set the text of an element, and mark it for a second if it has changed.
export function say(element, text, marked = element) {
  text = String(text);
  if (element.textContent === text) return;
  const isFirst = element.textContent === "";
  element.textContent = text;
  if (isFirst) return;
  marked.classList.add("changed");
  clearTimeout(marked.timer);
  marked.timer = setTimeout(() => marked.classList.remove("changed"), 1000);
}

const whole = new Intl.NumberFormat("en");

export function number(value) {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) >= 1e6) return (value / 1e6).toFixed(1) + " M";
  return whole.format(Math.abs(value) >= 100 ? Math.round(value) : Math.round(value * 10) / 10);
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let unit = 0;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return `${value >= 10 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export function span(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.round(ms * 10) / 10} ms`;
  const seconds = ms / 1000;
  for (const [size, word] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= 2 * size) return `${Math.floor(seconds / size)} ${word}`;
  }
  return `${Math.floor(seconds)} s`;
}

// A moment, beside how long ago it was; the server's clock counts, not the browser's.
export function ago(ms, nowMs) {
  if (ms === null || ms === undefined) return "–";
  return ms <= nowMs ? `${span(nowMs - ms)} ago` : `in ${span(ms - nowMs)}`;
}

export function moment(ms) {
  return new Date(ms).toLocaleString("en-GB", { hour12: false });
}
