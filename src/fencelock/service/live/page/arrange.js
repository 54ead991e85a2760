// Which rows the list shows, and in which order. Pure.

import { OWN, isUnusual, wide } from "./store.js";
import { search } from "./pattern.js";

const MISSING = Infinity;

/** By what a column sorts. Every key is a number or a text; what is missing comes last. */
const KEYS = {
  attention: (row, now) => (isUnusual(row, now) ? 0 : 1),
  name: (row) => row.natural,
  holder: (row) => {
    const owner = row.holders[0]?.owner;
    return owner ? `${owner.label || "\uffff"} ${owner.host} ${owner.pid}` : MISSING;
  },
  fence: (row) => (row.holders.length ? wide(row.fence) : MISSING),
  held: (row) => row.since,
  lease: (row) => row.holders.reduce((least, each) => Math.min(least, each.until ?? MISSING), MISSING),
  queue: (row) => (row.waiting ? -row.waiting : MISSING),
  longest: (row) => row.first?.since ?? MISSING,
};

/** The quick filters: what somebody who is on call looks for first. */
export const FILTERS = {
  all: () => true,
  unusual: isUnusual,
  waiting: (row) => row.waiting > 0,
  abandoned: (row) => row.abandoned,
};

/**
 * The items of the list from top to bottom: rows, and headers of groups.
 * `view`: { query, filter, sort, reverse, grouped, collapsed }.
 */
export function arrange(rows, view, now) {
  const found = search(view.query);
  const wanted = FILTERS[view.filter];
  const counts = { all: 0, unusual: 0, waiting: 0, abandoned: 0 };
  const chosen = [];
  for (const row of rows) {
    if (found && !found(row)) continue;
    for (const filter in counts) if (FILTERS[filter](row, now)) counts[filter]++;
    if (wanted(row, now)) chosen.push(row);
  }
  const sorted = sort(chosen, view, now);
  return { items: view.grouped ? inGroups(sorted, view, now) : sorted.map((row) => ({ row })), counts };
}

function sort(rows, { sort: column, reverse }, now) {
  const key = KEYS[column];
  const sign = reverse ? -1 : 1;
  const keyed = rows.map((row) => ({ row, key: key(row, now) }));
  keyed.sort((a, b) => {
    if (a.key !== b.key) return a.key === MISSING ? 1 : b.key === MISSING ? -1 : a.key < b.key ? -sign : sign;
    return urgency(a.row, b.row);
  });
  return keyed.map((each) => each.row);
}

/** Among equals: who waits for longest, then who holds for longest, then the name. */
function urgency(a, b) {
  const waiting = (a.first?.since ?? MISSING) - (b.first?.since ?? MISSING);
  if (waiting) return waiting; // NaN, if nobody waits for either
  if (a.since !== b.since) return a.since < b.since ? -1 : 1;
  return a.natural < b.natural ? -1 : 1;
}

/** The group of what is held unusually long. It stands first if the most urgent come first. */
const URGENT = " unusual";

/** A group stands where its first row would stand. */
function inGroups(sorted, { sort, filter, query, collapsed }, now) {
  const pinned = sort === "attention" && filter === "all";
  const groups = new Map();
  for (const row of sorted) {
    const key = pinned && isUnusual(row, now) ? URGENT : row.group;
    const group = groups.get(key);
    if (group) group.push(row);
    else groups.set(key, [row]);
  }
  const items = [];
  for (const [group, rows] of groups) {
    const open = Boolean(query) || !collapsed.has(group); // what was searched for is not hidden
    const unusual = rows.reduce((sum, row) => sum + isUnusual(row, now), 0);
    const waiting = rows.reduce((sum, row) => sum + row.waiting, 0);
    items.push({ group, label: label(group), urgent: group === URGENT, open, rows: rows.length, unusual, waiting });
    if (open) for (const row of rows) items.push({ row });
  }
  return items;
}

function label(group) {
  if (group === URGENT) return "Held unusually long";
  return group === "" ? "without a prefix" : group === OWN ? "Fencelock’s own" : group;
}

/** Where each item begins, and after the last one the height of all. */
export function tops(items, rowHeight, groupHeight) {
  const found = new Float64Array(items.length + 1);
  for (let at = 0; at < items.length; at++)
    found[at + 1] = found[at] + (items[at].row ? rowHeight : groupHeight);
  return found;
}

/** The last item that begins at or above this height. */
export function itemAt(tops, height) {
  let low = 0;
  let high = Math.max(0, tops.length - 2);
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (tops[middle] <= height) low = middle;
    else high = middle - 1;
  }
  return low;
}
