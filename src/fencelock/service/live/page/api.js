// Requests to the replica. The token stays in this tab: in sessionStorage, never in an address.

import { Events } from "./sse.js";

const TOKEN = "fencelock.token";
const PREFIX = "urn:fencelock:";

/** A request that failed. `kind`: the end of the problem's type; "network" if there was no answer. */
export class Failed extends Error {
  constructor(kind, status, detail, problem = {}) {
    super(detail);
    this.kind = kind;
    this.status = status;
    this.problem = problem;
  }
}

export function token() {
  try {
    return sessionStorage.getItem(TOKEN);
  } catch {
    return null;
  }
}

export function keepToken(text) {
  if (text) sessionStorage.setItem(TOKEN, text);
  else sessionStorage.removeItem(TOKEN);
}

/** Send a request; return the JSON of the answer, or null. Raises `Failed`. */
export async function ask(path, { method = "GET", body, signal } = {}) {
  const response = await send(path, { method, body, signal });
  try {
    return response.status === 204 ? null : await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failed("network", response.status, "the answer did not arrive completely");
  }
}

/** Read the stream until it ends. `heard(event, data)` is called for each event. */
export async function listen(cursor, { signal, heard }) {
  const since = cursor ? `?since=${encodeURIComponent(cursor)}` : "";
  const response = await send(`/v1/live${since}`, { signal });
  const events = new Events(heard);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    events.feed(value);
  }
}

/** A name as a part of a path. */
export function encoded(name) {
  return encodeURIComponent(name.toWellFormed());
}

async function send(path, { method = "GET", body, signal }) {
  const headers = {};
  if (token()) headers.Authorization = `Bearer ${token()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      ...{ method, headers, signal, cache: "no-store", redirect: "error" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Failed("network", 0, "the replica can’t be reached");
  }
  if (response.ok) return response;
  throw await failure(response);
}

async function failure(response) {
  const problem = await response.json().catch(() => ({}));
  const type = String(problem.type ?? "");
  const kind = type.startsWith(PREFIX) ? type.slice(PREFIX.length) : `http-${response.status}`;
  const detail = problem.detail || problem.title || `the answer was HTTP status ${response.status}`;
  return new Failed(kind, response.status, detail, problem);
}
