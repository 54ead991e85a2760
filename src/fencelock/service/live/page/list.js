// The list of all names. Only the rows that can be seen are in the document.

import { FILTERS, arrange, itemAt, tops } from "./arrange.js";
import { age, count, person, several, visible as shown } from "./format.js";
import { html, useEffect, useLayoutEffect, useReducer, useRef } from "./html.js";
import { useKeys } from "./hooks.js";
import { now, store, useStatus, useTick, visible } from "./live.js";
import { Lease, NameText, OLD, mostUrgent, usually } from "./parts.js";
import { toLock } from "./route.js";
import { isUnusual } from "./store.js";

const COLUMNS = [
  ["name", "Name"],
  ["holder", "Holder"],
  ["fence", "Fence"],
  ["held", "Held for"],
  ["lease", "Lease"],
  ["queue", "Queue"],
  ["longest", "Waits longest"],
];
const NARROW = matchMedia("(max-width: 760px)");
const OVERSCAN = 6;
const STILL = 400;

/** Outlives the list, so that a reader who comes back finds it as it was. */
const kept = { scrollTop: 0, selected: null, focus: false };

export function List({ view, setView, offerBreak }) {
  const tick = useTick();
  useStatus();
  const [, again] = useReducer((turn) => turn + 1, 0);
  const scroller = useRef(null);
  const quiet = useQuiet(scroller, again);
  const { items, edges, counts } = useArranged(view, quiet);
  const height = scroller.current?.clientHeight ?? 800;
  const first = Math.max(0, itemAt(edges, kept.scrollTop) - OVERSCAN);
  const last = Math.min(items.length, itemAt(edges, kept.scrollTop + height) + 1 + OVERSCAN);
  const indexes = Array.from({ length: Math.max(0, last - first) }, (_, at) => first + at);
  const chosen = kept.selected === null ? -1 : items.findIndex((item) => item.row?.name === kept.selected);
  if (chosen >= 0 && !indexes.includes(chosen)) indexes.push(chosen); // the focus must not be lost
  useVisible(items.slice(first, last));
  useSelection({ scroller, items, edges, chosen, height, again, offerBreak });
  const moment = now();
  const drawn = useDrawn(`${tick} ${kept.selected}`);
  return html`
    <div class="tools">
      <${Search} view=${view} setView=${setView} />
      <${Filters} counts=${counts} view=${view} setView=${setView} />
    </div>
    <div class="table" role="table" aria-label="Names that are held or waited for" aria-rowcount=${items.length + 1}
      aria-colcount=${COLUMNS.length} ref=${scroller} data-part="list">
      <${Heads} view=${view} setView=${setView} />
      <div class="rows" role="rowgroup" style=${{ height: `${edges[items.length]}px` }}>
        ${indexes.map((index) => {
          const item = items[index];
          return drawn(item, index, () => {
            const place = { key: item.row ? `r${item.row.name}` : `g${item.group}`, index, top: edges[index] };
            return item.row
              ? html`<${Row} ...${place} row=${item.row} now=${moment} />`
              : html`<${Group} ...${place} item=${item} view=${view} setView=${setView} />`;
          });
        })}
      </div>
      ${items.length === 0 && html`<${Nothing} view=${view} setView=${setView} />`}
    </div>`;
}

/** The items, arranged again when rows have changed: not too often, and not while the reader scrolls or clicks. */
function useArranged(view, quiet) {
  const last = useRef(null);
  const moment = now();
  const narrow = NARROW.matches;
  const wait = Math.min(5, Math.max(0.25, store.rows.size / 10_000, (last.current?.took ?? 0) * 20));
  const due = last.current && moment - last.current.at > wait && quiet();
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

/** Items that were drawn since the last tick are not drawn again: while the list scrolls, only what is new to it is. */
function useDrawn(turn) {
  const before = useRef({});
  if (before.current.turn !== turn) before.current = { turn, items: new Map() };
  const { items } = before.current;
  return (item, index, draw) => {
    const known = items.get(item);
    if (known?.index === index) return known.drawn;
    const drawn = draw();
    items.set(item, { index, drawn });
    return drawn;
  };
}

/** Follow the scrolling. Returns a function: whether the reader neither scrolls nor presses a button. */
function useQuiet(scroller, again) {
  const state = useRef({ scrolled: 0, pressed: false }).current;
  useLayoutEffect(() => {
    const element = scroller.current;
    element.scrollTop = kept.scrollTop;
    let frame = 0;
    const scrolled = () => {
      kept.scrollTop = element.scrollTop;
      state.scrolled = performance.now();
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        again();
      });
    };
    const pressed = ({ type }) => (state.pressed = type === "pointerdown");
    element.addEventListener("scroll", scrolled, { passive: true });
    element.addEventListener("pointerdown", pressed);
    addEventListener("pointerup", pressed);
    addEventListener("pointercancel", pressed);
    const resized = new ResizeObserver(again);
    resized.observe(element);
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener("pointerup", pressed);
      removeEventListener("pointercancel", pressed);
      resized.disconnect();
    };
  }, []);
  return () => !state.pressed && performance.now() - state.scrolled > STILL;
}

/** Tell the replica which rows are seen. */
function useVisible(items) {
  const names = items.flatMap((item) => (item.row ? [item.row.name] : []));
  useEffect(() => visible.show({ names, opened: null }), [names.join("\n")]);
}

/** The keys that move from row to row. The selected row is the one with the focus. */
function useSelection({ scroller, items, edges, chosen, height, again, offerBreak }) {
  const step = (by) => {
    let to = chosen < 0 ? itemAt(edges, kept.scrollTop) - (by > 0) : chosen;
    do to += by;
    while (items[to] && !items[to].row);
    if (items[to]) select(items[to].row.name, to);
  };
  const select = (name, index) => {
    Object.assign(kept, { selected: name, focus: true });
    const head = scroller.current.firstElementChild.offsetHeight;
    const element = scroller.current;
    if (edges[index] < element.scrollTop) element.scrollTop = edges[index];
    else if (edges[index + 1] + head > element.scrollTop + height)
      element.scrollTop = edges[index + 1] + head - height;
    kept.scrollTop = element.scrollTop;
    again();
  };
  useKeys({
    j: () => step(1),
    ArrowDown: () => step(1),
    k: () => step(-1),
    ArrowUp: () => step(-1),
    b: () => kept.selected !== null && offerBreak(kept.selected),
  });
  // A row that moves in the document loses the focus.
  const had = scroller.current?.contains(document.activeElement) ? document.activeElement : null;
  useLayoutEffect(() => {
    if (kept.focus) {
      kept.focus = false;
      scroller.current.querySelector("[aria-current] a")?.focus({ preventScroll: true });
    } else if (had?.isConnected && document.activeElement === document.body) had.focus({ preventScroll: true });
  });
  useLayoutEffect(() => {
    kept.focus = kept.selected !== null; // after coming back
    const focused = ({ target }) => (kept.selected = target.closest("[data-name]")?.dataset.name ?? kept.selected);
    scroller.current.addEventListener("focusin", focused);
    again();
  }, []);
}

function Row({ row, index, top, now }) {
  const latest = store.rows.get(row.name);
  const { name, holders, waiting, first, abandoned, looked_at } = latest ?? row;
  const unusual = isUnusual(latest ?? row, now);
  const old = looked_at !== null && now - looked_at > OLD;
  const classes = ["row", unusual && "unusual", old && "old", !latest && "gone"].filter(Boolean).join(" ");
  return html`<div role="row" class=${classes} aria-rowindex=${index + 2} data-name=${name}
    aria-current=${name === kept.selected ? "true" : undefined} style=${{ transform: `translateY(${top}px)` }}>
    <div role="cell" class="c-name">
      <a href=${toLock(name)} title=${shown(name)}><${NameText} name=${name} /></a>
      ${abandoned && html`<span class="chip warn" title="The last holder did not release it: its work may be half done">abandoned</span>`}
      ${!latest && html`<span class="chip">free now</span>`}
    </div>
    <div role="cell" class="c-holder"><${Holder} holders=${holders} waiting=${waiting} looked=${looked_at} /></div>
    <div role="cell" class="c-fence">${holders.length ? holders[0].fence : ""}</div>
    <div role="cell" class="c-held" title=${unusual ? usually(latest ?? row) : undefined}>
      ${holders.length > 0 && age(now - (latest ?? row).since)}
      ${unusual && html`<span class="chip bad"><span class="visually-hidden">unusually long: </span>×${times(latest ?? row, now)}</span>`}
    </div>
    <div role="cell" class="c-lease">
      ${old
        ? html`<span class="muted">looked at ${age(now - looked_at)} ago</span>`
        : holders.length > 0 && html`<${Lease} holder=${mostUrgent(holders)} now=${now} />`}
    </div>
    <div role="cell" class="c-queue">${waiting > 0 && html`${count(waiting)}<span class="unit"> waiting</span>`}</div>
    <div role="cell" class="c-longest">
      ${first && html`<span class="for">${age(now - first.since)}</span> <bdi title=${person(first.owner)}>${person(first.owner)}</bdi>`}
    </div>
  </div>`;
}

function times({ usual, since }, now) {
  const ratio = (now - since) / usual;
  return ratio > 999 ? ">999" : Math.floor(ratio);
}

function Holder({ holders, waiting, looked }) {
  if (looked === null) return html`<span class="muted">not looked at yet</span>`;
  if (!holders.length) return html`<span class="muted">${waiting ? "nobody: the next one comes" : "nobody"}</span>`;
  const text = person(holders[0].owner);
  const others = holders.length > 1 && html` <span class="chip">+${count(holders.length - 1)}</span>`;
  return html`<bdi title=${text}>${text}</bdi>${others}`;
}

function Group({ item, index, top, view, setView }) {
  const toggle = () => {
    const collapsed = new Set(view.collapsed);
    if (!collapsed.delete(item.group)) collapsed.add(item.group);
    setView({ collapsed });
  };
  return html`<div role="row" class="group ${item.urgent ? "urgent" : ""}" aria-rowindex=${index + 2} style=${{ transform: `translateY(${top}px)` }}>
    <div role="cell" aria-colspan=${COLUMNS.length}>
      <button type="button" aria-expanded=${String(item.open)} onClick=${toggle} data-group=${item.group}>
        <${NameText} name=${item.label} />
        <span class="muted">${several(item.rows, "name")}</span>
        ${item.waiting > 0 && html`<span class="muted wide">${count(item.waiting)} waiting</span>`}
        ${item.unusual > 0 && !item.urgent && html`<span class="chip bad">${count(item.unusual)} unusual</span>`}
      </button>
    </div>
  </div>`;
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

function Nothing({ view, setView }) {
  if (store.cursor === null) return html`<p class="nothing">Waiting for the first answer …</p>`;
  if (view.query || view.filter !== "all")
    return html`<p class="nothing">None of the ${several(store.rows.size, "name")} matches.
      <button type="button" onClick=${() => setView({ query: "", filter: "all" })}>Show all</button></p>`;
  return html`<p class="nothing">No name is held or waited for.</p>`;
}
