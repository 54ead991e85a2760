// Server-sent events from a stream of text. EventSource can't send the token, so this page reads them itself. Pure.

/** Feed it pieces of text as they arrive. It calls `heard(event, data)` for each complete event. */
export class Events {
  #rest = "";
  #event = "";
  #data = [];

  constructor(heard) {
    this.heard = heard;
  }

  feed(text) {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    for (const line of lines) this.#line(line);
  }

  #line(line) {
    if (line === "") return this.#end();
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon); // a comment has no field
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "event") this.#event = value;
    else if (field === "data") this.#data.push(value);
  }

  #end() {
    const event = this.#event || "message";
    const data = this.#data.join("\n");
    this.#event = "";
    this.#data = [];
    if (data) this.heard(event, JSON.parse(data));
  }
}
