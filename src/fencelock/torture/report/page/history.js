// The history, as the report uses it: one lane per process, everything in the order of time.

/** The text of the element: one JSON object per line. */
function readHistory(text) {
  const records = JSON.parse(`[${text.trim().split("\n").filter(Boolean).join(",")}]`);
  const of = (type) => records.filter((each) => each?.type === type);
  const dated = (type) => of(type).filter((each) => isNumber(each.at));
  const history = {
    run: of("run")[0] ?? {},
    verdict: of("verdict").at(-1) ?? null,
    promises: of("promise"),
    violations: of("violation"),
    stalls: dated("stall"),
    faults: dated("fault"),
    refused: [],
    lanes: [],
  };
  history.end = endOf(history, records);
  const lanes = new Lanes(of("process"));
  for (const process of dated("process")) lanes.of(process).processes.push(process);
  for (const attempt of dated("attempt")) lanes.of(attempt).attempts.push(attempt);
  for (const grant of dated("grant")) lanes.of(grant).grants.push(grant);
  for (const write of dated("write")) {
    const lane = lanes.of(write);
    lane.writes.push(write);
    if (write.outcome === "refused") history.refused.push(write);
  }
  for (const fault of history.faults) for (const lane of fault.lanes ?? []) lanes.called(lane).faults.push(fault);
  history.lanes = lanes.finished(history.end);
  history.laneOf = (record) => history.lanes.find((lane) => lane.name === lanes.nameOf(record)) ?? null;
  history.engineFaults = index(history.faults.filter((each) => !each.lanes?.length), untilOr(history.end));
  history.refused.sort((a, b) => a.at - b.at);
  history.marks = marksOf(history);
  history.shortest = shortest(history.violations);
  return history;
}

class Lanes {
  constructor(processes) {
    this.lanes = new Map();
    this.lanesOfWorkers = new Map(processes.map((each) => [each.worker, each.lane]));
    this.endsOfWorkers = new Map(processes.map((each) => [each.worker, each.until]));
  }

  nameOf(record) {
    return record.lane ?? this.lanesOfWorkers.get(record.worker) ?? String(record.worker ?? "?").split(".")[0];
  }

  of(record) {
    return this.called(this.nameOf(record));
  }

  called(name) {
    let lane = this.lanes.get(name);
    if (!lane) this.lanes.set(name, (lane = { name, processes: [], attempts: [], grants: [], writes: [], faults: [] }));
    return lane;
  }

  finished(end) {
    const lanes = [...this.lanes.values()];
    lanes.sort((a, b) => String(a.name).localeCompare(String(b.name), "en", { numeric: true }));
    for (const [at, lane] of lanes.entries()) {
      lane.number = at;
      lane.processes = index(lane.processes, untilOr(end));
      lane.attempts = index(lane.attempts, (each) => untilOr(untilOr(end)({ until: this.endsOfWorkers.get(each.worker) }))(each));
      lane.grants = index(lane.grants, heldUntil);
      lane.writes = index(lane.writes, (write) => write.at);
      lane.faults = index(lane.faults, untilOr(end));
    }
    return lanes;
  }
}

/** What has no end went on until the end of the run. */
const untilOr = (end) => (record) => (isNumber(record.until) ? record.until : end);

/** Until when a process acted as the holder: until it gave the lease back, or noticed the loss, or was killed. */
function heldUntil(grant) {
  if (isNumber(grant.released)) return grant.released;
  return Math.max(grant.at, isNumber(grant.lost) ? grant.lost : grant.at, isNumber(grant.sure_until) ? grant.sure_until : grant.at);
}

/** Until when it knew that it held. */
const sureUntil = (grant) => (isNumber(grant.sure_until) ? Math.min(grant.sure_until, grant.ends) : grant.ends);

/** Records by time; `reach[n]` is the latest end of the first n + 1, so that a search finds the first visible one. */
function index(items, until) {
  items.sort((a, b) => a.at - b.at);
  const reach = new Float64Array(items.length);
  let latest = -Infinity;
  for (const [at, item] of items.entries()) {
    item.ends = Math.max(item.at, until(item));
    reach[at] = latest = Math.max(latest, item.ends);
  }
  return { items, reach };
}

/** Visit the records that are not over before `from` and begin before `until`. */
function visit({ items, reach }, from, until, act) {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (reach[middle] < from) low = middle + 1;
    else high = middle;
  }
  for (let at = low; at < items.length && items[at].at <= until; at++) if (items[at].ends >= from) act(items[at]);
}

function endOf({ run }, records) {
  let end = isNumber(run.seconds) ? run.seconds : 0;
  for (const each of records) {
    for (const at of [each.at, each.until, each.released, each.lost]) if (isNumber(at) && at > end) end = at;
  }
  return end || 1;
}

/** From when to when a violation happened, with all its events. */
function extent(violation) {
  const times = [violation.at, violation.until, ...(violation.events ?? []).map((each) => each.at)].filter(isNumber);
  return times.length ? { from: Math.min(...times), until: Math.max(...times) } : null;
}

/** The counterexample that is read fastest: the fewest events, then the least time. */
function shortest(violations) {
  const length = (each) => each.events?.length || Infinity;
  const time = (each) => (extent(each)?.until ?? Infinity) - (extent(each)?.from ?? 0);
  return violations.reduce((best, each) =>
    best && (length(best) - length(each) || time(best) - time(each) || 0) <= 0 ? best : each, null);
}

/** Where `n` and `p` go. */
function marksOf({ violations, refused }) {
  const marks = refused.map((write) => ({ kind: "write", from: write.at, until: write.at, record: write }));
  for (const violation of violations) {
    const span = extent(violation);
    if (span) marks.push({ kind: "violation", ...span, record: violation });
  }
  return marks.sort((a, b) => a.from - b.from);
}
