// The figures of all replicas, put side by side for the charts. Pure.

import { duration, figure } from "./format.js";

const rate = (number) => (number === null ? "–" : `${figure(number)}/s`);

/**
 * `of`: the columns that a chart shows, each with what it is called if there are two. `log`: a logarithmic scale,
 * because p50 and p99 are far apart. `whole`: there are no halves of it.
 */
export const CHARTS = [
  { id: "wait", title: "Waiting for a lock", of: { wait_p50: "p50", wait_p99: "p99" }, say: duration, log: true },
  { id: "grants", title: "Grants per second", of: { grants: "" }, say: rate },
  { id: "waiters", title: "Waiters", of: { waiters: "" }, say: figure, whole: true },
  { id: "lost", title: "Lost leases", of: { lost: "" }, say: figure, whole: true, sum: true },
  { id: "margin", title: "Renewal margin (99 % have more)", of: { margin: "" }, say: duration },
  { id: "engine", title: "Answers of the engine", of: { engine_p50: "p50", engine_p99: "p99" }, say: duration, log: true },
  { id: "errors", title: "Errors of the engine", of: { errors: "" }, say: figure, whole: true, sum: true },
];

/**
 * The moments and lines of one chart. The replicas measure at different moments, so these are rounded to `every`.
 * Returns {times, lines: [{replica, column, name, values, latest}]}.
 */
export function lines(figures, chart) {
  const every = figures.every || 5;
  const step = (time) => Math.round(time / every);
  const replicas = figures.replicas.filter((each) => each.points?.time?.length);
  const steps = [...new Set(replicas.flatMap((each) => each.points.time.map(step)))].sort((a, b) => a - b);
  const at = new Map(steps.map((each, index) => [each, index]));
  const found = replicas.flatMap((each) =>
    Object.entries(chart.of).map(([column, name]) => {
      const values = new Array(steps.length).fill(null);
      const points = each.points[column] ?? [];
      each.points.time.forEach((time, index) => (values[at.get(step(time))] = points[index] ?? null));
      return { replica: each.replica, column, name, values, latest: latest(points, chart) };
    }),
  );
  return { times: steps.map((each) => each * every), lines: found };
}

/** The number in words: the last one that is known, or how many in all. */
function latest(points, chart) {
  const known = points.filter((each) => each !== null && each !== undefined);
  if (chart.sum) return `${figure(known.reduce((sum, each) => sum + each, 0))} in all`;
  return known.length ? chart.say(known.at(-1)) : "nothing measured";
}
