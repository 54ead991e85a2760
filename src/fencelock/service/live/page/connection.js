// The stream of events, and in which state it is. It comes back by itself.

import { listen } from "./api.js";

const STALE = 12;
const GIVE_UP = 25;
const PAUSES = [0.5, 1, 2, 3.5, 5];

/**
 * The phases: "connecting" at the beginning, "live", "stale" if nothing was heard for a while, "lost" until it is
 * back, "login" if a token is needed. `heard(event, data)` hears each event, `changed()` each change of the phase.
 */
export class Connection {
  phase = "connecting";
  /** When rows or the state came for the last time, by the clock of this computer. Null: never. */
  heardAt = null;
  /** Why it is lost. */
  detail = "";
  /** Why a token is needed, from then on until the service accepts one. Null: nothing was refused. */
  refused = null;
  #tries = 0;
  /** The run that goes on, if there is one, and what ends its request. */
  #run = null;
  #wake = () => {};

  constructor({ cursor, heard, changed }) {
    this.cursor = cursor;
    this.heard = heard;
    this.changed = changed;
    addEventListener("online", () => this.#hurry());
    document.addEventListener("visibilitychange", () => document.hidden || this.#hurry());
    setInterval(() => this.#watch(), 1000);
  }

  /** Begin: also after a login. */
  start() {
    this.#tries = 0;
    this.#to("connecting");
    this.#go((this.#run = {}));
  }

  /** End: after a logout, or because a token is needed. */
  stop(detail = "") {
    this.#run?.abort?.abort();
    this.#run = null;
    this.#wake();
    this.heardAt = null;
    this.refused = detail;
    this.#to("login");
  }

  async #go(run) {
    while (this.#run === run) {
      const { signal } = (run.abort = new AbortController());
      run.began = seconds();
      let detail = "the stream has ended";
      try {
        await listen(this.cursor(), {
          signal,
          heard: (event, data) => this.#take(event, data),
        });
      } catch (error) {
        if (this.#run !== run) return;
        if (error.status === 401) return this.stop(error.message);
        detail = signal.aborted ? "the replica has become silent" : error.message;
      }
      run.abort.abort(); // ends the request, too, if the fault was an event that can't be read
      if (this.#run !== run) return;
      this.#to("lost", detail);
      await this.#pause();
    }
  }

  #take(event, data) {
    this.heard(event, data);
    if (event === "hello") {
      this.#tries = 0;
      this.refused = null;
      return; // so far there is nothing to see
    }
    this.heardAt = seconds();
    this.#to("live");
  }

  #watch() {
    if (!this.#run) return;
    const silent = seconds() - Math.max(this.#run.began, this.heardAt ?? 0);
    if (silent > GIVE_UP) this.#run.abort.abort();
    else if (silent > STALE && this.phase === "live") this.#to("stale");
  }

  async #pause() {
    const pause = PAUSES[Math.min(this.#tries++, PAUSES.length - 1)];
    const random = 0.75 + Math.random() / 2; // or all pages would come back at the same moment
    await new Promise((resolve) => {
      this.#wake = resolve;
      setTimeout(resolve, pause * random * 1000);
    });
  }

  #hurry() {
    if (this.phase === "lost") this.#wake();
  }

  #to(phase, detail = "") {
    if (phase === this.phase && detail === this.detail) return;
    this.phase = phase;
    this.detail = detail;
    this.changed();
  }
}

function seconds() {
  return Date.now() / 1000;
}
