// Everything around the timeline: what the run was, what came of it, and the lists.

const VERDICTS = {
  held: { word: "Held", tone: "held", sign: "✓" },
  broken: { word: "Broken", tone: "broken", sign: "✕" },
  "not exercised": { word: "Not exercised", tone: "open", sign: "–" },
  "not promised": { word: "Not promised", tone: "open", sign: "–" },
  unfinished: { word: "No verdict", tone: "open", sign: "–" },
};

const LONGEST_LIST = 200;

function verdictOf(word) {
  return VERDICTS[word] ?? { word: visible(word, 40), tone: "open", sign: "?" };
}

function showVerdict({ run, verdict, end }) {
  const { word, tone, sign } = verdictOf(verdict?.verdict ?? "unfinished");
  const known = [
    ["Engine", run.engine], ["URL", run.url],
    ["Primitive", run.primitive && `${run.primitive}${run.primitive === "semaphore" && run.permits ? `, ${several(run.permits, "permit")}` : ""}`],
    ["ttl", isNumber(run.ttl) ? duration(run.ttl) : null], ["Duration", duration(run.seconds ?? end)],
    ["Faults", { self: "of processes, networks and servers", url: "of processes and networks" }[run.depth] ?? null],
    ["Storage", run.storage], [run.names?.length > 1 ? "Names" : "Name", run.names?.length ? namesOf(run.names) : null],
    ["Began", run.began && String(run.began).replace("T", " ").replace("Z", " UTC")], ["Seed", run.seed], ["Fencelock", run.version],
  ];
  document.title = `${word}: ${visible([run.engine, run.primitive].filter(Boolean).join(", ") || "a run", 60)} – fencelock torture`;
  $("verdict").className = tone;
  $("verdict").append(
    el("div", { class: "says" },
      el("p", { class: "brand" }, "fencelock torture"),
      el("h1", {}, el("span", { class: "sign", "aria-hidden": "true" }, sign), word),
      el("p", { class: "lead" }, bdi(verdict?.text ?? "The history ends without a verdict: the run was cut short.", 400))),
    el("dl", { class: "about" }, known.filter(([, value]) => value !== null && value !== undefined && value !== "")
      .map(([head, value]) => el("div", {}, el("dt", {}, head), el("dd", {}, value instanceof Node ? value : bdi(value, 160))))),
  );
}

function namesOf(names) {
  const shown = names.slice(0, 4).map((name, at) => [at ? ", " : "", bdi(name, 80)]);
  return el("span", {}, shown.flat(), names.length > 4 ? ` and ${count(names.length - 4)} more` : null);
}

function showCounts({ verdict, run }) {
  if (!verdict) return;
  const tiles = [
    ["Leases", verdict.grants, isNumber(verdict.lost) ? `${count(verdict.lost)} lost before their release` : ""],
    ["Writes acknowledged", verdict.acknowledged, "the storage said yes"],
    ["Writes stored", verdict.stored, verdict.stored === verdict.acknowledged ? "none is missing" : "at the end of the run", verdict.stored < verdict.acknowledged && "bad"],
    ["Writes refused", verdict.refused, "a newer fence was known", "refused"],
    ["Lost without fences", run.bare === false ? null : verdict.bare_lost, "updates in a bare register, which checks no fence"],
    ["Longest without progress", isNumber(verdict.longest_idle) ? duration(verdict.longest_idle) : null,
      isNumber(verdict.bound) ? `${duration(verdict.bound)} allowed` : "", verdict.longest_idle > verdict.bound && "bad"],
  ];
  $("counts").append(...tiles.filter(([, value]) => value !== null && value !== undefined).map(([head, value, note, tone]) =>
    el("div", { class: `tile ${tone || ""}` }, el("div", { class: "what" }, head), el("div", { class: "figure" }, isNumber(value) ? count(value) : value), el("div", { class: "note" }, note))));
}

/** The shortest counterexample: its events in order, each a button that shows it on the timeline. */
function showCounterexample({ shortest, violations, promises }, timeline) {
  if (!shortest) return;
  const section = $("broken");
  const title = promises.find((each) => each.id === shortest.promise)?.title ?? shortest.promise;
  const events = numbered(shortest).map(([number, event]) => el("li", {},
    el("button", { type: "button", press: () => look(timeline, "event", event) },
      el("b", { class: "number" }, String(number)), el("span", { class: "when" }, moment(event.at)),
      el("span", { class: "who" }, bdi(event.worker ?? "", 40)), el("span", { class: "what" }, bdi(event.what ?? "", 300)))));
  section.hidden = false;
  section.append(
    el("h2", { id: "broken-title" }, "How it broke: ", bdi(title ?? "a promise", 120)),
    el("p", {}, bdi(shortest.text ?? "", 600)),
    el("ol", { class: "events" }, events),
    el("p", { class: "muted" }, violations.length > 1
      ? `This is the shortest of ${count(violations.length)} violations. The others are below the timeline.` : "The timeline shows this moment in its middle."),
  );
}

function look(timeline, kind, record) {
  timeline.lookAt({ kind, record, from: record.at, until: record.at });
}

function badge(word) {
  const { word: said, tone, sign } = verdictOf(word);
  return el("td", { class: `verdict ${tone}` }, el("span", { "aria-hidden": "true" }, sign), ` ${said.toLowerCase()}`);
}

function showPromises({ promises }) {
  $("promises").append(el("h2", { id: "promises-title" }, "Promises"));
  if (!promises.length) return $("promises").append(el("p", { class: "muted" }, "No promise was judged."));
  const order = ["broken", "not exercised", "held"];
  const rank = (each) => (order.indexOf(each.verdict) + order.length + 1) % (order.length + 1);
  const sorted = [...promises].sort((a, b) => rank(a) - rank(b));
  $("promises").append(table("Promises", ["Promise", "Verdict", "In this run"],
    sorted.map((each) => [bdi(each.title ?? each.id, 120), badge(each.verdict), bdi(each.detail ?? "", 400)])));
}

function showFaults({ verdict, faults }, tones) {
  $("faults").append(el("h2", { id: "faults-title" }, "Faults"));
  const found = Object.entries(verdict?.faults ?? counted(faults));
  if (!found.length) return $("faults").append(el("p", { class: "muted" }, "There was no fault, so this run proves little."));
  const number = (value) => el("td", { class: `number ${value ? "" : "none"}` }, count(value ?? 0));
  $("faults").append(table("Faults", ["Fault", "Times", "Hit a holder", "Hit a waiter", "Hit a request"],
    found.map(([kind, each]) => [el("td", {}, swatch(`fault ${tones.faults.get(kind)}`), bdi(each.title ?? kind, 80)),
      ...[each.times, each.holder, each.waiter, each.request].map(number)])));
}

/** The table of faults if the run has ended before its verdict. */
function counted(faults) {
  const kinds = {};
  for (const fault of faults) {
    const kind = (kinds[fault.kind] ??= { title: fault.title, times: 0, holder: 0, waiter: 0, request: 0 });
    kind.times += 1;
    for (const hit of fault.hit ?? []) if (hit in HIT) kind[hit] += 1;
  }
  return kinds;
}

const swatch = (look) => el("i", { class: `swatch ${look}`, "aria-hidden": "true" });

function showLegend(history, tones) {
  const SHARES = { lock: "lease", read: "lease to read", write: "lease to write", permit: "permit", leader: "term of a leader" };
  const some = (test) => history.lanes.some((lane) => lane.writes.items.some(test));
  const leases = [...tones.leases.tones].slice(0, 6).map(([key, tone]) => [`lease-of ${tone}`, tones.leases.byName ? bdi(key, 40) : SHARES[key] ?? visible(key, 24)]);
  const kinds = new Map(history.faults.map((each) => [each.kind, each.title ?? each.kind]));
  const items = [
    ...leases, ["unsure", "acts as holder, no longer sure"], ["waits", "waits"],
    ["accepted", "write accepted"], ["refused", "write refused"],
    ...(some((each) => each.outcome === "unknown") ? [["unknown", "write with unknown outcome"]] : []),
    ...(some((each) => each.late) ? [["late", "late write (a tail)"]] : []),
    ["killed", "process killed or failed"],
    ...(history.stalls.length ? [["stall", "the machine stood still"]] : []),
    ...(history.violations.length ? [["violation", "violation"]] : []),
    ...[...kinds].map(([kind, title]) => [`fault ${tones.faults.get(kind)}`, bdi(title, 40)]),
  ];
  $("legend").append(...items.map(([look, text]) => el("li", {}, swatch(look), text)));
}

function showLists(history, timeline) {
  const at = (kind, record, moments) => el("button", { type: "button", class: "when", press: () => look(timeline, kind, record) }, moment(moments));
  const list = (title, records, heads, cells) => {
    if (!records.length) return;
    const rest = records.length - LONGEST_LIST;
    $("lists").append(el("details", {}, el("summary", {}, `${title}: ${count(records.length)}`),
      table(title, heads, records.slice(0, LONGEST_LIST).map(cells)),
      rest > 0 ? el("p", { class: "muted" }, `… and ${count(rest)} more, on the timeline and in the history.`) : null));
  };
  const violations = history.violations.map((each) => ({ each, span: extent(each) }));
  list("Violations", violations, ["At", "Promise", "What happened"], ({ each, span }) => [
    span ? el("button", { type: "button", class: "when", press: () => timeline.lookAt({ kind: "violation", record: each, ...span }) }, moment(span.from)) : "–",
    bdi(each.promise ?? "", 60), bdi(each.text ?? "", 400)]);
  list("Refused writes", history.refused, ["At", "Process", "Name", "Its fence", "Newest fence seen"], (each) => [
    at("write", each, each.at), bdi(each.worker ?? "", 40), bdi(each.name ?? "", 60), bdi(each.fence ?? "–"), bdi(each.newest ?? "–")]);
}

/** The history as a file of its own, for other programs. */
function showFoot(text) {
  const save = () => {
    const link = el("a", { href: URL.createObjectURL(new Blob([`${text.trim()}\n`], { type: "application/jsonl" })), download: "history.jsonl" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  };
  $("foot").append(el("button", { type: "button", press: save }, "Save the history (JSONL)"),
    el("span", { class: "muted" }, "Times are seconds since the run began, on one clock. This file needs no network."));
}

function showPage() {
  const text = $("history").textContent;
  const history = readHistory(text);
  document.querySelector("main").hidden = false;
  showVerdict(history);
  showCounts(history);
  const tones = { faults: faultTones(history), leases: leaseTones(history) };
  showLegend(history, tones);
  const timeline = new Timeline(history, tones);
  showCounterexample(history, timeline);
  showPromises(history);
  showFaults(history, tones);
  showLists(history, timeline);
  showFoot(text);
}

showPage();
