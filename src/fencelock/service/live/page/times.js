// How long a name was waited for and held lately: one point for each time that is known.

import { duration, moment } from "./format.js";
import { html } from "./html.js";
import { useWidth } from "./hooks.js";

const HEIGHT = 130;
const EDGE = { left: 54, right: 10, top: 8, bottom: 20 };
const DECADES = [0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36_000, 86_400];
const SAID = ["1 ms", "10 ms", "100 ms", "1 s", "10 s", "1 min", "10 min", "1 h", "10 h", "1 d"];

export function Times({ history }) {
  const [ref, width] = useWidth();
  const waits = history.filter((each) => each.waited != null).map((each) => ({ time: each.time, seconds: each.waited }));
  const holds = history.filter((each) => each.held_for != null).map((each) => ({ time: each.time, seconds: each.held_for }));
  const all = [...waits, ...holds];
  return html`<figure class="times" ref=${ref}>
    ${all.length > 0 && width > 0 && html`<${Plot} ...${{ waits, holds, all, width }} />`}
    <figcaption>
      <span class="key waited" aria-hidden="true"></span> waited: ${summary(waits)}
      <span class="key held" aria-hidden="true"></span> held: ${summary(holds)}
    </figcaption>
  </figure>`;
}

/** The points in words. Exported for tests. */
export function summary(points) {
  if (!points.length) return "nothing seen";
  const sorted = points.map((each) => each.seconds).sort((a, b) => a - b);
  const median = sorted[(sorted.length - 1) >> 1];
  return `${sorted.length} times, median ${duration(median)}, longest ${duration(sorted.at(-1))}`;
}

function Plot({ waits, holds, all, width }) {
  const times = all.map((each) => each.time);
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const lengths = all.map((each) => Math.max(each.seconds, DECADES[0]));
  const low = DECADES.findLast((each) => each <= Math.min(...lengths));
  const high = DECADES.find((each) => each > Math.max(...lengths)) ?? Math.max(...lengths);
  const x = (time) => EDGE.left + ((time - first) / (last - first || 1)) * (width - EDGE.left - EDGE.right);
  const share = (seconds) => Math.log(Math.max(seconds, low) / low) / Math.log(high / low);
  const y = (seconds) => HEIGHT - EDGE.bottom - share(seconds) * (HEIGHT - EDGE.top - EDGE.bottom);
  const lines = DECADES.filter((each) => each >= low && each <= high);
  return html`<svg width=${width} height=${HEIGHT} aria-hidden="true">
    ${lines.map((each) => html`<g class="grid">
      <line x1=${EDGE.left} x2=${width - EDGE.right} y1=${y(each)} y2=${y(each)} />
      <text x=${EDGE.left - 6} y=${y(each) + 4} class="end">${SAID[DECADES.indexOf(each)]}</text>
    </g>`)}
    <text x=${EDGE.left} y=${HEIGHT - 4}>${moment(first)}</text>
    <text x=${width - EDGE.right} y=${HEIGHT - 4} class="end">${moment(last)}</text>
    ${holds.map((each) => html`<rect class="held" x=${x(each.time) - 2.5} y=${y(each.seconds) - 2.5} width="5" height="5" />`)}
    ${waits.map((each) => html`<circle class="waited" cx=${x(each.time)} cy=${y(each.seconds)} r="2.5" />`)}
  </svg>`;
}
