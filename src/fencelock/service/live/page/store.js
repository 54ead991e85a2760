// What the page knows, made from the events of the stream. Pure: no network, no clock of its own, no document.

import { place } from "./format.js";

const CLOCKS = 8;

export class Store {
  rows = new Map();
  /** Grows with each change of the rows. */
  version = 0;
  hello = null;
  state = null;
  /** Give it as `since`, and only what has changed comes. Null until the rows are complete once. */
  cursor = null;
  #clocks = [];
  #coming = null;

  /** Take in one event. `now`: seconds since 1970 by the clock of this computer. */
  apply(event, data, now) {
    if (data.time !== undefined) this.#clocks = [...this.#clocks, data.time - now].slice(-CLOCKS);
    if (event === "hello") {
      this.#clocks = [data.time - now];
      this.#coming = null; // a stream that was cut in the middle of a reset
      this.hello = data;
    } else if (event === "state") this.state = data;
    else if (event === "draining") this.state = { ...this.state, draining: true };
    else if (event === "rows") this.#take(data);
  }

  /** The replica's clock is so far ahead of ours. An event that was long under way makes it look less. */
  get offset() {
    return this.#clocks.length ? Math.max(...this.#clocks) : 0;
  }

  #take({ rows = [], gone = [], reset = false, more = false, cursor }) {
    if (reset) this.#coming = new Map();
    const target = this.#coming ?? this.rows;
    for (const row of rows) target.set(row.name, completed(row, this.rows.get(row.name)));
    for (const name of gone) target.delete(name);
    if (!more) {
      // Only now: with the cursor of a part, the other parts would be missing after a reconnect.
      this.cursor = cursor;
      this.rows = target;
      this.#coming = null;
    }
    this.version++;
  }
}

/** A row with all its fields, and with what it is found and sorted by. */
export function completed(row, before) {
  const { name, holders = [], waiting = 0, first = null, abandoned = false, fence = "0" } = row;
  const { looked_at = null, usual = null, usual_of = "name" } = row;
  const known = before ?? { group: groupOf(name), natural: naturalOf(name) };
  const words = [name.toLowerCase()];
  for (const { owner } of first ? [...holders, first] : holders)
    words.push(owner.host.toLowerCase(), place(owner).toLowerCase(), (owner.label ?? "").toLowerCase());
  const since = holders.reduce((least, each) => Math.min(least, each.since), Infinity);
  const { group, natural } = known;
  // Without a spread: objects of one shape are read many times faster.
  return { name, holders, waiting, first, abandoned, fence, looked_at, usual, usual_of, words, group, natural, since };
}

/** The prefix up to the first ":" or "/", with it. Empty if there is none. */
function groupOf(name) {
  if (name.startsWith("tx ") || name.endsWith(" (bell)")) return OWN;
  const end = name.search(/[:/]/);
  return end < 0 ? "" : name.slice(0, end + 1);
}

/** The group of the names that Fencelock makes for itself. No prefix contains a space at its end. */
export const OWN = "Fencelock ";

/** order:9 comes before order:10. */
function naturalOf(name) {
  return name.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(12, "0"));
}

/** A lock is held unusually long if it is held for three times as long as usual, and for a second at least. */
export function isUnusual(row, now) {
  return row.usual !== null && now - row.since > Math.max(3 * row.usual, 1);
}

/** The fence that a break must name: that of the newest holder. */
export function newestFence(holders) {
  return holders.map((each) => each.fence).reduce((a, b) => (wide(a) > wide(b) ? a : b), "0");
}

/** Fences are longer than a JavaScript number is exact: as text of one width they compare. */
export function wide(fence) {
  return fence.padStart(20, "0");
}
