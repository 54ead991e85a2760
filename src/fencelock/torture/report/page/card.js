// What is at a place of the timeline, and the card that tells all facts about it.

const yes = (value) => (value ? "yes" : null);
const plain = (value) => visible(value, 300);

/** [title, [key of the record, heading, how to show it] …] for each kind of thing. */
const FACTS = {
  event: [() => "Event of the counterexample", ["at", "at", moment], ["worker", "process", plain], ["what", "what", plain]],
  write: [
    (write) => ({ accepted: "Write accepted", refused: "Write refused by the storage" })[write.outcome] ?? "Write with unknown outcome",
    ["at", "at", moment], ["worker", "process", plain], ["name", "name", plain], ["fence", "its fence", plain],
    ["newest", "newest fence seen", plain], ["value", "value", plain], ["replaced", "replaced", plain],
    ["late", "delayed past the end of its lease", yes],
  ],
  lease: [
    (grant) => ({ read: "Lease to read", write: "Lease to write", permit: "Permit", leader: "Term of a leader" })[grant.share] ?? "Lease",
    ["fence", "fence", plain], ["name", "name", plain], ["worker", "process", plain], ["at", "granted at", moment],
    ["sure_until", "known to be held until", moment], ["released", "released at", moment], ["lost", "loss noticed at", moment],
    ["reason", "lost because", plain], ["abandoned", "previous holder did not release", yes],
  ],
  wait: [
    () => "Acquiring", ["outcome", "outcome", plain], ["name", "name", plain], ["worker", "process", plain], ["at", "from", moment],
    ["until", "until", moment], ["error", "error", plain],
  ],
  fault: [
    (fault) => `Fault: ${visible(fault.title ?? fault.kind, 80)}`, ["target", "target", plain], ["at", "from", moment], ["until", "until", moment],
    ["hit", "hit", (hit) => (hit.length ? listed(hit.map((each) => HIT[each] ?? plain(each))) : "nobody who held or waited")], ["detail", "detail", plain],
  ],
  violation: [(violation) => `Violation: ${visible(violation.promise, 80)}`, ["text", "what", plain], ["at", "from", moment], ["until", "until", moment]],
  process: [() => "Process", ["worker", "process", plain], ["pid", "pid", plain], ["at", "started at", moment], ["until", "ended at", moment], ["end", "how", plain]],
  stall: [() => "The whole machine stood still", ["at", "from", moment], ["until", "until", moment]],
};

const HIT = { holder: "a holder", waiter: "a waiter", request: "a request under way" };

/** [[heading, text] …] of a thing. */
function facts({ kind, record }) {
  const rows = FACTS[kind].slice(1).map(([key, heading, show]) => {
    const value = record[key];
    return [heading, value === null || value === undefined ? null : show(value)];
  });
  if (isNumber(record.at) && isNumber(record.ends) && record.ends > record.at) rows.push(["took", duration(record.ends - record.at)]);
  return rows.filter(([, text]) => text !== null);
}

const heading = ({ kind, record }) => FACTS[kind][0](record);

/** The same in one sentence, to be spoken. */
const sentence = (thing) => `${heading(thing)}: ${facts(thing).map(([head, text]) => `${head} ${text}`).join(", ")}.`;

/** What is under the pointer, the smallest first. */
function thingsAt(painter, x, y) {
  const { history, size } = painter;
  const found = [];
  if (history.shortest) {
    for (const event of history.shortest.events ?? []) {
      const place = painter.eventPlace(event);
      if (place && Math.hypot(place.x - x, place.y - y) < 11) found.push({ kind: "event", record: event });
    }
  }
  const near = (pixels) => [painter.at(x - pixels), painter.at(x + pixels)];
  const add = (kind, index, pixels, most = 1) => {
    const [from, until] = near(pixels);
    const hits = [];
    visit(index, from, until, (record) => hits.push(record));
    const middle = painter.at(x);
    hits.sort((a, b) => Math.max(a.at - middle, middle - a.ends, 0) - Math.max(b.at - middle, middle - b.ends, 0) || b.at - a.at);
    found.push(...hits.slice(0, most).map((record) => ({ kind, record })));
  };
  const row = (y - painter.top) / size.height;
  const lane = history.lanes[Math.floor(row)];
  if (y >= painter.top && lane) {
    const down = y - painter.laneTop(lane.number);
    if (Math.abs(down - size.writes) < size.mark + 5) add("write", lane.writes, size.mark + 3);
    add("lease", lane.grants, 1);
    if (found.length === 0 || found.at(-1).kind !== "lease") add("wait", lane.attempts, 1);
    add("fault", lane.faults, 1, 3);
  }
  if (y >= AXIS) add("fault", history.engineFaults, 1, 3);
  const at = painter.at(x);
  for (const violation of history.violations) {
    const span = extent(violation);
    if (span && span.from <= at && at <= span.until) found.push({ kind: "violation", record: violation });
  }
  for (const stall of history.stalls) if (stall.at <= at && at <= (stall.until ?? stall.at)) found.push({ kind: "stall", record: stall });
  if (lane && found.length === 0) add("process", lane.processes, 0);
  return found;
}

/** Show the card about these things beside a place of the window, or hide it. */
function showCard(things, x, y) {
  const card = $("card");
  card.hidden = things.length === 0;
  if (card.hidden) return;
  card.replaceChildren(...things.slice(0, 4).map((thing, at) => el("section", {},
    el("h3", { class: thing.record.outcome === "refused" ? "refused" : thing.kind }, heading(thing)),
    el("dl", {}, (at && thing.kind !== "fault" ? facts(thing).slice(0, 4) : facts(thing))
      .map(([head, text]) => [el("dt", {}, head), el("dd", {}, bdi(text, 400))])))));
  const { width, height } = card.getBoundingClientRect();
  const left = x + 16 + width < innerWidth ? x + 16 : Math.max(4, x - width - 12);
  card.style.left = `${scrollX + Math.max(4, Math.min(left, innerWidth - width - 4))}px`;
  card.style.top = `${scrollY + Math.max(4, Math.min(y + 16, innerHeight - height - 4))}px`;
}
