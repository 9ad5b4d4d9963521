// Addresses of the page, and links to them.

import { el } from "/page/dom.js";
import { quoted } from "/page/words.js";

export const queueAt = (queue, tab = "now") => `#/queues/${quoted(queue)}/${tab}`;
export const itemAt = (queue, id) => queueAt(queue, `items/${id}`);
export const queueLink = (queue) => el("a", { href: queueAt(queue) }, queue);
export const itemLink = (queue, id) => el("a", { href: itemAt(queue, id) }, `item ${id}`);

// The parameters of these names that are there.
export const given = (all, ...names) => Object.fromEntries(names.filter((each) => all[each]).map((each) => [each, all[each]]));
