// Which rows the list shows, and in which order. Pure.

import { OWN, isUnusual, wide } from "./store.js";
import { search } from "./pattern.js";

const MISSING = Infinity;
const LAST = "\uffff\uffff";

/** By what a column sorts. All keys of a column are numbers, or all are texts; what is missing comes last. */
const KEYS = {
  attention: (row, unusual) => (unusual ? 0 : 1),
  name: (row) => row.natural,
  holder: (row) => {
    const owner = row.holders[0]?.owner;
    return owner ? `${owner.label || "\uffff"} ${owner.host} ${owner.pid}` : LAST;
  },
  fence: (row) => (row.holders.length ? wide(row.holders[0].fence) : LAST),
  held: (row) => row.since,
  lease: (row) => row.holders.reduce((least, each) => Math.min(least, each.until ?? MISSING), MISSING),
  queue: (row) => (row.waiting ? -row.waiting : MISSING),
  longest: (row) => row.first?.since ?? MISSING,
};

/** The quick filters: what somebody who is on call looks for first. */
export const FILTERS = ["all", "unusual", "waiting", "abandoned"];

/**
 * The items of the list from top to bottom: rows, and headers of groups.
 * `view`: { query, filter, sort, reverse, grouped, collapsed }.
 */
export function arrange(rows, view, now) {
  const found = search(view.query);
  const key = KEYS[view.sort];
  const counts = { all: 0, unusual: 0, waiting: 0, abandoned: 0 };
  const chosen = [];
  for (const row of rows) {
    if (found && !found(row)) continue;
    const unusual = isUnusual(row, now);
    const is = { all: true, unusual, waiting: row.waiting > 0, abandoned: row.abandoned };
    counts.all += 1;
    counts.unusual += is.unusual;
    counts.waiting += is.waiting;
    counts.abandoned += is.abandoned;
    // A comparison happens a hundred thousand times: it finds all that it needs in one place.
    if (is[view.filter])
      chosen.push({ row, unusual, key: key(row, unusual), waits: row.first?.since ?? MISSING, since: row.since });
  }
  chosen.sort(view.reverse ? descending : ascending);
  return { items: view.grouped ? inGroups(chosen, view) : chosen.map(({ row }) => ({ row })), counts };
}

function ascending(a, b) {
  return a.key === b.key ? urgency(a, b) : a.key < b.key ? -1 : 1;
}

function descending(a, b) {
  if (a.key === b.key) return urgency(a, b);
  if (missing(a.key) || missing(b.key)) return missing(a.key) ? 1 : -1;
  return a.key < b.key ? 1 : -1;
}

function missing(key) {
  return key === MISSING || key === LAST;
}

/** Among equals: who waits for longest, then who holds for longest, then the name. */
function urgency(a, b) {
  if (a.waits !== b.waits) return a.waits < b.waits ? -1 : 1;
  if (a.since !== b.since) return a.since < b.since ? -1 : 1;
  return a.row.natural < b.row.natural ? -1 : 1;
}

/** The group of what is held unusually long. It stands first if the most urgent come first. */
const URGENT = " unusual";

/** A group stands where its first row would stand. */
function inGroups(sorted, { sort, filter, query, collapsed }) {
  const pinned = sort === "attention" && filter === "all";
  const groups = new Map();
  for (const each of sorted) {
    const key = pinned && each.unusual ? URGENT : each.row.group;
    const group = groups.get(key);
    if (group) group.push(each);
    else groups.set(key, [each]);
  }
  const items = [];
  for (const [group, members] of groups) {
    const open = Boolean(query) || !collapsed.has(group); // what was searched for is not hidden
    const header = { group, label: label(group), urgent: group === URGENT, open, rows: members.length, unusual: 0, waiting: 0 };
    items.push(header);
    for (const { row, unusual } of members) {
      header.unusual += unusual;
      header.waiting += row.waiting;
      if (open) items.push({ row });
    }
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
