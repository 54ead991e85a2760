// The part of the list that can be seen: which items are drawn, which one is selected, and the scrolling.

import { itemAt } from "./arrange.js";
import { html, useEffect, useLayoutEffect, useReducer, useRef } from "./html.js";
import { useKeys } from "./hooks.js";
import { now, shown } from "./live.js";
import { Group, Row } from "./rows.js";

const OVERSCAN = 6;
const STILL = 400;

/** Outlives the list, so that a reader who comes back finds it as it was. */
const kept = { scrollTop: 0, selected: null, focus: false, scrolledAt: 0, pressed: false };

/** Whether the reader neither scrolls nor presses a button: then rows may change places. */
export function isQuiet() {
  return !kept.pressed && performance.now() - kept.scrolledAt > STILL;
}

/** Draws again when it scrolls, without the rest of the list. `turn` changes when the rows themselves must be drawn. */
export function Window({ scroller, items, edges, turn, view, setView, offerBreak }) {
  const [, again] = useReducer((count) => count + 1, 0);
  const height = scroller.current?.clientHeight ?? 800;
  const first = Math.max(0, itemAt(edges, kept.scrollTop) - OVERSCAN);
  const last = Math.min(items.length, itemAt(edges, kept.scrollTop + height) + 1 + OVERSCAN);
  const indexes = Array.from({ length: Math.max(0, last - first) }, (_, at) => first + at);
  const chosen = kept.selected === null ? -1 : items.findIndex((item) => item.row?.name === kept.selected);
  if (chosen >= 0 && !indexes.includes(chosen)) indexes.push(chosen); // the focus must not be lost
  useScroll(scroller, again);
  useShown(items.slice(first, last));
  useSelection({ scroller, items, edges, chosen, height, again, offerBreak });
  const drawn = useDrawn(`${turn} ${kept.selected}`);
  return html`<div class="rows" role="rowgroup" style=${{ height: `${edges[items.length]}px` }}>
    ${indexes.map((index) => {
      const item = items[index];
      return drawn(item, index, () => {
        const place = { index, top: edges[index] };
        return item.row
          ? html`<${Row} key=${`r${item.row.name}`} ...${place} row=${item.row} now=${now()} selected=${index === chosen} />`
          : html`<${Group} key=${`g${item.group}`} ...${place} item=${item} view=${view} setView=${setView} />`;
      });
    })}
  </div>`;
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

function useScroll(scroller, again) {
  useLayoutEffect(() => {
    const element = scroller.current;
    element.scrollTop = kept.scrollTop;
    let frame = 0;
    const scrolled = () => {
      kept.scrollTop = element.scrollTop;
      kept.scrolledAt = performance.now();
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        again();
      });
    };
    const pressed = ({ type }) => (kept.pressed = type === "pointerdown");
    const resized = new ResizeObserver(again);
    resized.observe(element);
    element.addEventListener("scroll", scrolled, { passive: true });
    element.addEventListener("pointerdown", pressed);
    addEventListener("pointerup", pressed);
    addEventListener("pointercancel", pressed);
    return () => {
      cancelAnimationFrame(frame);
      resized.disconnect();
      removeEventListener("pointerup", pressed);
      removeEventListener("pointercancel", pressed);
      kept.pressed = false;
    };
  }, []);
}

/** Tell the replica which rows are seen. */
function useShown(items) {
  const names = items.flatMap((item) => (item.row ? [item.row.name] : []));
  useEffect(() => shown.are(names), [names.join("\n")]);
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
