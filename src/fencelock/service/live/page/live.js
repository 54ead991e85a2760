// The one store and the one connection of this page, and how components hear that something has changed.

import { ask, keepToken, token } from "./api.js";
import { Connection } from "./connection.js";
import { useEffect, useReducer } from "./html.js";
import { anyMatches } from "./pattern.js";
import { Store } from "./store.js";

const TICK = 250;

export let store = new Store();

const listeners = { tick: new Set(), status: new Set() };
const tell = (kind) => listeners[kind].forEach((each) => each());

export const connection = new Connection({
  cursor: () => store.cursor,
  heard(event, data) {
    store.apply(event, data, Date.now() / 1000);
    if (event === "hello") shown.send();
    if (event !== "rows") tell("status");
  },
  changed: () => tell("status"),
});

setInterval(() => document.hidden || tell("tick"), TICK);
document.addEventListener("visibilitychange", () => document.hidden || tell("tick"));

/** Now, by the clock of the replica: all moments in the events are by that clock. */
export function now() {
  return Date.now() / 1000 + store.offset;
}

/** Render again when the connection, the rights or the state of the replica change. */
export function useStatus() {
  useListener("status");
}

/** Render again four times a second. All changes of rows in between become visible together. */
export function useTick() {
  return useListener("tick");
}

function useListener(kind) {
  const [turn, again] = useReducer((turn) => turn + 1, 0);
  useEffect(() => {
    listeners[kind].add(again);
    return () => listeners[kind].delete(again);
  }, [kind]);
  return turn;
}

/** Whether the page should offer a break. The service decides in any case. */
export function mayBreak(name) {
  return anyMatches(store.hello?.rights?.break, name);
}

export function isReadOnly() {
  return store.hello !== null && !store.hello.rights?.break?.length;
}

export function logIn(text) {
  keepToken(text);
  forget(); // another principal may read other names
  connection.start();
}

/** Forget the token and everything that it allowed to see. */
export function logOut() {
  keepToken(null);
  forget();
  connection.stop();
}

export function isLoggedIn() {
  return Boolean(token());
}

function forget() {
  store = new Store();
}

/** Tells the replica which rows the page shows: it looks at these first. */
export const shown = {
  names: [],
  opened: null,
  timer: 0,
  told: "",

  are(names, opened = null) {
    this.names = names.slice(0, 200);
    this.opened = opened;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.send(), 300);
  },

  send() {
    const { names, opened } = this;
    const stream = store.hello?.stream;
    const body = { stream, names, opened };
    const text = JSON.stringify(body);
    if (!stream || text === this.told) return;
    this.told = text;
    // A load balancer may ask another replica, which does not know this stream. Then the rows are looked at later.
    ask("/v1/live/visible", { method: "POST", body }).catch(() => {});
  },
};
