// Hooks that several parts of the page use.

import { ask } from "./api.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { connection } from "./live.js";
import { remembered } from "./settings.js";

const POKE_GAP = 500;

/**
 * The answer to a request, asked again every so many milliseconds, and soon after `change` has changed.
 * Returns {data, error}: after an error, `data` is still the last good answer.
 */
export function usePolled(path, every, change) {
  const [found, set] = useState({ path, data: null, error: null });
  const poke = useRef(() => {});
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    let busy = false;
    let asked = 0;
    const load = async () => {
      clearTimeout(timer);
      if (busy) return;
      timer = setTimeout(load, every);
      if (document.hidden) return;
      busy = true;
      asked = Date.now();
      try {
        const data = await ask(path, { signal: abort.signal });
        set({ path, data, error: null });
      } catch (error) {
        if (abort.signal.aborted) return;
        if (error.status === 401) connection.stop(error.message);
        set((before) => ({ ...before, path, error }));
      } finally {
        busy = false;
      }
    };
    poke.current = () => {
      clearTimeout(timer);
      timer = setTimeout(load, Math.max(0, asked + POKE_GAP - Date.now()));
    };
    load();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [path, every]);
  useEffect(() => poke.current(), [change]);
  return found.path === path ? found : { path, data: null, error: null };
}

/** The width of an element in pixels, and a ref for that element. 0 before the first layout. */
export function useWidth() {
  const ref = useRef(null);
  const [width, set] = useState(0);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => set(Math.floor(entry.contentRect.width)));
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}

/** Act on keys while this component is shown: {"j": action, …}. An action that returns false leaves the key alone. */
export function useKeys(actions) {
  const latest = useRef(actions);
  latest.current = actions;
  useEffect(() => {
    const pressed = (event) => {
      const action = latest.current[event.key];
      if (!action || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target.closest?.("input, select, textarea, dialog")) return;
      if (document.querySelector("dialog[open]")) return;
      // Single letters can be switched off: speech input would trigger them.
      if (event.key.length === 1 && remembered("letters", "on") === "off") return;
      if (action(event) !== false) event.preventDefault();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
}

/** A modal dialog. It is closed by Escape, and gives the focus back to where it was. */
export function Dialog({ title, closed, children, ...rest }) {
  const ref = useRef(null);
  useLayoutEffect(() => {
    const before = document.activeElement;
    ref.current.showModal();
    return () => before?.isConnected && before.focus({ preventScroll: true });
  }, []);
  return html`<dialog ref=${ref} aria-labelledby="dialog-title" onClose=${closed} ...${rest}>
    <h2 id="dialog-title">${title}</h2>
    ${children}
  </dialog>`;
}
