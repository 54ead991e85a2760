// The whole: the engine and its promise, the replicas, and the last hour as small charts.

import { COLOURS, Chart } from "./chart.js";
import { CHARTS, joined, missingSince } from "./figures.js";
import { age, duration, moment, several, visible } from "./format.js";
import { html, useEffect } from "./html.js";
import { useKeys, usePolled } from "./hooks.js";
import { now, shown, store, useStatus } from "./live.js";
import { NameText } from "./parts.js";
import { Table } from "./table.js";
import { Verdict } from "./verdict.js";

const EVERY = 5000;

/** Asks only for what is new since the last answer. */
const onlyNew = {
  path: (path, before) => `${path}?since=${missingSince(before)}`,
  join: joined,
};

export function Whole({ back }) {
  useStatus();
  useKeys({ Escape: back });
  useEffect(() => shown.are([]), []);
  const { data, error } = usePolled("/v1/live/figures", EVERY, null, onlyNew);
  return html`<article class="whole" data-part="whole">
    <h1 class="visually-hidden">The whole</h1>
    <${Engine} />
    ${error && html`<p class="bar-note bad" role="alert">No figures: ${error.message}. ${data ? "What follows is older." : ""}</p>`}
    ${data && html`<${Replicas} figures=${data} />`}
    ${data && html`<section><h2>The last hour</h2><div class="charts">
      ${CHARTS.map((chart) => html`<${Chart} key=${chart.id} chart=${chart} figures=${data} />`)}
    </div></section>`}
    ${!data && !error && html`<p class="muted">Asking …</p>`}
    <p class="muted">These are the figures of what went through the replicas that are listed here, since each of them began. Programs
      that use the engine directly are not in them.</p>
  </article>`;
}

const PROMISES = {
  correctness: "A lock of this engine protects data, as long as its fences are checked by a guard.",
  efficiency:
    "A lock of this engine saves needless work. Now and then two may hold it at the same time: only a guard that checks " +
    "fences protects data.",
};

function Engine() {
  const { hello } = store;
  if (!hello) return null;
  const { traits } = hello;
  return html`<section class="engine"><h2>${visible(hello.engine)} promises ${traits.guarantee}</h2>
    <p>${PROMISES[traits.guarantee]}</p>
    ${traits.condition && html`<p><b>On this condition:</b> ${visible(traits.condition)}</p>`}
    <dl class="facts">
      <div><dt>Fences</dt><dd>${visible(traits.fencing ?? "–")}</dd></div>
      <div><dt>Expiry is measured by</dt><dd>${visible(traits.clock ?? "–")}</dd></div>
      <div><dt>Order of the queue</dt><dd>${traits.fifo === false ? "any" : "first come, first served"}</dd></div>
      ${traits.max_overstay > 0 && html`<div><dt>A lease may end late by</dt><dd>${duration(traits.max_overstay)}</dd></div>`}
    </dl>
    ${hello.verdict && html`<${Verdict} verdict=${hello.verdict} />`}
  </section>`;
}

const COLUMNS = [
  { head: "Replica", kind: "text" },
  { head: "State", kind: "text" },
  { head: "Engine", kind: "text" },
  { head: "Answers in", kind: "number" },
  { head: "Version" },
  { head: "Runs since" },
];

function Replicas({ figures }) {
  const time = now();
  const rows = figures.replicas.map((each, at) => ({
    key: each.url ?? "",
    cells: [
      html`<span class="swatch s${at % COLOURS}" aria-hidden="true"></span> <${NameText} name=${each.replica ?? ""} /> <span class="muted">${
        each.url ? visible(each.url) : "this one"
      }</span>`,
      html`<${Health} replica=${each} />`,
      each.health && html`<${EngineHealth} engine=${each.health.engine} />`,
      each.health && duration(each.health.engine.latency),
      each.health?.version,
      each.started && `${moment(each.started, time)} (${age(time - each.started)})`,
    ],
  }));
  return html`<section data-part="replicas"><h2>${several(rows.length, "replica")}</h2>
    <${Table} label="Replicas" columns=${COLUMNS} rows=${rows} /></section>`;
}

function EngineHealth({ engine }) {
  const [tone, text] = engine.reachable ? ["good-text", "answers"] : ["bad-text", "does not answer"];
  return html`<span class=${tone}>${text}</span>${engine.detail && `: ${visible(engine.detail)}`}`;
}

function Health({ replica }) {
  if (!replica.reached) return html`<span class="bad-text">can’t be reached</span>${replica.detail ? `: ${visible(replica.detail)}` : ""}`;
  if (!replica.health) return "–";
  const { status, draining } = replica.health;
  if (draining) return html`<span class="warn-text">draining</span>`;
  return html`<span class=${status === "ok" ? "good-text" : "warn-text"}>${status}</span>`;
}
