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

const HOUR = 3600;

/** The samples that are known already, and those that came after them. `before` may be null. */
export function joined(before, after) {
  const known = new Map((before?.replicas ?? []).map((each) => [each.replica, each.points]));
  const replicas = after.replicas.map((each) => {
    if (!each.reached) return { ...each, points: {} };
    return { ...each, points: appended(known.get(each.replica) ?? {}, each.points ?? {}, after.time - HOUR) };
  });
  return { ...after, replicas };
}

function appended(before, after, oldest) {
  const times = before.time ?? [];
  const last = times.at(-1) ?? -Infinity;
  const from = times.findIndex((time) => time >= oldest);
  const fresh = (after.time ?? []).findIndex((time) => time > last);
  const points = {};
  for (const column of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const old = from < 0 ? [] : (before[column] ?? []).slice(from);
    points[column] = fresh < 0 ? old : [...old, ...(after[column] ?? []).slice(fresh)];
  }
  return points;
}

/** Since when samples are missing. 0: from the beginning, because a replica was never asked before. */
export function missingSince(figures) {
  const reached = (figures?.replicas ?? []).filter((each) => each.reached);
  if (!reached.length) return 0;
  return Math.min(...reached.map((each) => each.points.time?.at(-1) ?? 0));
}

/**
 * The moments and lines of one chart. The replicas measure at different moments, so these are rounded to `every`.
 * Returns {times, lines: [{replica, name, values, latest}]}; `replica` is its place among the replicas.
 */
export function lines(figures, chart) {
  const every = figures.every || 5;
  const step = (time) => Math.round(time / every);
  const replicas = figures.replicas.map(({ points }, replica) => ({ replica, points: points ?? {} })).filter(({ points }) => points.time?.length);
  const steps = [...new Set(replicas.flatMap(({ points }) => points.time.map(step)))].sort((a, b) => a - b);
  const at = new Map(steps.map((each, index) => [each, index]));
  const found = replicas.flatMap(({ replica, points }) =>
    Object.entries(chart.of).map(([column, name]) => {
      const values = new Array(steps.length).fill(null);
      points.time.forEach((time, index) => (values[at.get(step(time))] = points[column]?.[index] ?? null));
      return { replica, name, values, latest: latest(points[column] ?? [], chart) };
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
