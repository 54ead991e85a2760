// The list of all names, and the tools above it. Only the rows that can be seen are in the document.

import { FILTERS, arrange, tops } from "./arrange.js";
import { count, several } from "./format.js";
import { html, useRef } from "./html.js";
import { useKeys } from "./hooks.js";
import { now, store, useStatus, useTick } from "./live.js";
import { COLUMNS } from "./rows.js";
import { Window, isQuiet } from "./window.js";

const NARROW = matchMedia("(max-width: 760px)");

export function List({ view, setView, offerBreak }) {
  const turn = useTick();
  useStatus();
  const scroller = useRef(null);
  const { items, edges, counts } = useArranged(view);
  return html`
    <div class="tools">
      <${Search} view=${view} setView=${setView} />
      <${Filters} counts=${counts} view=${view} setView=${setView} />
    </div>
    <div class="table" role="table" aria-label="Names that are held or waited for" aria-rowcount=${items.length + 1}
      aria-colcount=${COLUMNS.length} ref=${scroller} data-part="list">
      <${Heads} view=${view} setView=${setView} />
      <${Window} ...${{ scroller, items, edges, turn, view, setView, offerBreak }} />
      ${items.length === 0 && html`<${Nothing} view=${view} setView=${setView} />`}
    </div>`;
}

/** The items, arranged again when rows have changed: not too often, and not while the reader scrolls or clicks. */
function useArranged(view) {
  const last = useRef(null);
  const moment = now();
  const narrow = NARROW.matches;
  const wait = Math.min(5, Math.max(0.25, store.rows.size / 10_000, (last.current?.took ?? 0) * 20));
  const due = last.current && moment - last.current.at > wait && isQuiet();
  const same = last.current?.view === view && last.current.narrow === narrow && last.current.store === store;
  if (!same || due) {
    const began = performance.now();
    const found = arrange(store.rows.values(), view, moment);
    const edges = tops(found.items, narrow ? 62 : 34, narrow ? 36 : 32);
    const took = (performance.now() - began) / 1000;
    last.current = { ...found, edges, view, narrow, store, at: moment, took };
  }
  return last.current;
}

function Heads({ view, setView }) {
  const by = (column) => setView(sortedBy(view, column));
  return html`<div role="rowgroup" class="heads"><div role="row" class="head" aria-rowindex="1">
    ${COLUMNS.map(([column, label]) => {
      const active = view.sort === column;
      const sort = active ? (view.reverse ? "descending" : "ascending") : "none";
      return html`<div role="columnheader" class="c-${column}" aria-sort=${sort}>
        <button type="button" data-sort=${column} onClick=${() => by(column)}>
          ${label}<span class="arrow" aria-hidden="true">${active ? (view.reverse ? "▾" : "▴") : ""}</span>
        </button>
      </div>`;
    })}
  </div></div>`;
}

/** One click sorts, the second one turns it around, the third one goes back to the most urgent first. */
function sortedBy(view, column) {
  if (view.sort !== column) return { sort: column, reverse: false };
  return view.reverse ? { sort: "attention", reverse: false } : { reverse: true };
}

function Search({ view, setView }) {
  const input = useRef(null);
  useKeys({ "/": () => input.current.focus() });
  const pressed = (event) => {
    if (event.key !== "Escape") return;
    if (view.query) setView({ query: "" });
    else event.target.blur();
    event.preventDefault();
  };
  return html`<div class="search">
    <input ref=${input} type="search" aria-label="Search names, holders, hosts and labels" placeholder="Name, holder, host, label, order:*"
      autocomplete="off" autocapitalize="off" spellcheck="false" value=${view.query}
      onInput=${({ target }) => setView({ query: target.value })} onKeyDown=${pressed} />
    <kbd aria-hidden="true">/</kbd>
  </div>`;
}

function Filters({ counts, view, setView }) {
  const labels = { all: "All", unusual: "Unusual", waiting: "Queued", abandoned: "Abandoned" };
  return html`<div class="chips" role="group" aria-label="Show only">
      ${FILTERS.map(
        (each) => html`<button type="button" data-filter=${each} aria-pressed=${String(view.filter === each)}
          class=${each !== "all" && counts[each] ? `some ${each}` : ""} onClick=${() => setView({ filter: each })}>
          ${labels[each]} <b>${count(counts[each])}</b>
        </button>`,
      )}
    </div>
    <label class="sort-by">Sort
      <select value=${view.sort} onChange=${(event) => setView({ sort: event.target.value, reverse: false })}>
        <option value="attention">most urgent first</option>
        ${COLUMNS.map(([column, label]) => html`<option value=${column}>${label.toLowerCase()}</option>`)}
      </select>
    </label>
    <label class="switch">
      <input type="checkbox" checked=${view.grouped} onChange=${(event) => setView({ grouped: event.target.checked })} />
      Group by prefix
    </label>`;
}

/** Why there are no rows. It stands where they would, so it is a row itself. */
function Nothing({ view, setView }) {
  const filtered = view.query || view.filter !== "all";
  const all = () => setView({ query: "", filter: "all" });
  return html`<div role="row" class="nothing"><div role="cell" aria-colspan=${COLUMNS.length}>
    ${store.cursor === null
      ? "Waiting for the first answer …"
      : filtered
        ? html`None of the ${several(store.rows.size, "name")} matches. <button type="button" onClick=${all}>Show all</button>`
        : "No name is held or waited for."}
  </div></div>`;
}
