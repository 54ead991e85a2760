// One name: its holders, its queue, what has happened to it.

import { encoded } from "./api.js";
import { Circle } from "./circle.js";
import { age, count, duration, several, visible } from "./format.js";
import { html, useEffect, useRef } from "./html.js";
import { useKeys, usePolled } from "./hooks.js";
import { mayBreak, now, shown, store, useStatus, useTick } from "./live.js";
import { Lease, Moment, NameText, OLD, Owner, shareText, usually } from "./parts.js";
import { completed, isUnusual } from "./store.js";
import { Table } from "./table.js";
import { Times } from "./times.js";

const EVERY = 2000;

export function Name({ name, back, offerBreak }) {
  useTick();
  useStatus();
  const live = store.rows.get(name);
  const { data, error } = usePolled(`/v1/live/names/${encoded(name)}`, EVERY, live && outline(live));
  useEffect(() => shown.are([name], name), [name]);
  const heading = useRef(null);
  useEffect(() => heading.current.focus({ preventScroll: true }), [name]);
  const row = newest(live, data?.row);
  const allowed = data ? Boolean(data.may_break) : mayBreak(name);
  useKeys({ Escape: back, b: () => offerBreak(name, row) });
  const moment = now();
  return html`<article class="name-page" data-part="name" data-name=${name}>
    <header class="title">
      <a class="back" href="#/" onClick=${(event) => (event.preventDefault(), back())}>← All names</a>
      <h1 tabindex="-1" ref=${heading}><${NameText} name=${name} /></h1>
      ${allowed && row?.holders.length > 0 && html`<button type="button" class="danger" data-action="break"
        onClick=${() => offerBreak(name, row)}>Break …</button>`}
    </header>
    ${error && html`<p class="bar-note bad" role="alert">No details: ${error.message}. ${data ? "What follows is older." : ""}</p>`}
    ${data?.trouble && html`<p class="bar-note bad" role="alert">The engine could not be asked:
      ${` ${visible(data.trouble)}`}. The holders are those that were seen last.</p>`}
    ${!data && !error && html`<p class="muted">Asking …</p>`}
    ${row && html`<${Facts} row=${row} now=${moment} allowed=${allowed} />`}
    ${row && html`<${Holders} row=${row} now=${moment} />`}
    ${data?.circles?.length > 0 && html`<section data-part="circle">
      <h2>Transactions that wait for one another</h2>
      ${data.circles.map((circle) => html`<${Circle} circle=${circle} name=${name} />`)}
    </section>`}
    ${data && html`<${Queue} row=${row} waiters=${data.waiters ?? []} now=${moment} />`}
    ${data && html`<${History} detail=${data} now=${moment} />`}
  </article>`;
}

/** What of a row makes it worth to ask again at once. */
function outline(row) {
  return [...row.holders.map((each) => each.fence), row.waiting, row.first?.fence].join(" ");
}

/** The stream and the request both bring the row. */
function newest(live, asked) {
  if (!asked) return live ?? null;
  return live && (live.looked_at ?? 0) >= (asked.looked_at ?? 0) ? live : completed(asked, live);
}

function Facts({ row, now, allowed }) {
  const unusual = isUnusual(row, now);
  const state = row.holders.length ? `held by ${several(row.holders.length, "holder")}` : "not held";
  return html`<dl class="facts">
    <div><dt>State</dt><dd>${state}${row.waiting > 0 && `, ${count(row.waiting)} waiting`}
      ${row.abandoned && html` <span class="chip warn">abandoned</span>`}</dd></div>
    ${row.holders.length > 0 && html`<div><dt>Held for</dt><dd>${age(now - row.since)}
      ${unusual && html` <span class="chip bad">unusually long</span>`}
      ${row.usual !== null && html` <span class="muted">${usually(row)}</span>`}</dd></div>`}
    ${!row.holders.length && row.fence !== "0" && html`<div><dt>Newest fence</dt><dd class="number">${row.fence}</dd></div>`}
    <div><dt>Looked at</dt><dd class=${row.looked_at !== null && now - row.looked_at > OLD ? "warn-text" : ""}>
      ${row.looked_at === null ? "not yet" : `${age(now - row.looked_at)} ago`}</dd></div>
    ${!allowed && html`<div><dt>Break</dt><dd class="muted">You may not break it</dd></div>`}
  </dl>
  ${row.abandoned && html`<p class="muted">Abandoned: the last holder did not release it. Its work may be half done.</p>`}`;
}

function Holders({ row, now }) {
  if (!row.holders.length) return null;
  return html`<section data-part="holders"><h2>${row.holders.length === 1 ? "Holder" : `Holders (${count(row.holders.length)})`}</h2>
    <${Contenders} contenders=${row.holders} now=${now} label="Holders" verb="Held for" /></section>`;
}

function Queue({ row, waiters, now }) {
  const hidden = row.waiting - waiters.length;
  return html`<section data-part="queue"><h2>Queue (${count(row.waiting)})</h2>
    ${waiters.length === 0
      ? html`<p class="muted">${row.waiting > 0 ? "Who waits is not known." : "Nobody waits."}</p>`
      : html`<${Contenders} contenders=${waiters} now=${now} label="Queue, in the order of service" verb="Waits for" numbered />`}
    ${waiters.length > 0 && hidden > 0 && html`<p class="muted">${several(hidden, "more waiter")} not shown.</p>`}
    ${store.hello?.traits?.fifo === false && html`<p class="muted">This engine keeps no order: any of them may be next.</p>`}
  </section>`;
}

function Contenders({ contenders, now, label, verb, numbered }) {
  const shared = contenders.some((each) => each.share);
  const columns = [
    ...(numbered ? [{ head: "#", kind: "number" }] : []),
    { head: "Who", kind: "text" },
    { head: numbered ? "Ticket" : "Fence", kind: "number" },
    { head: verb, kind: "number" },
    { head: "Since" },
    { head: "Lease" },
    ...(shared ? [{ head: "Shares" }] : []),
  ];
  const rows = contenders.map((each, at) => ({
    key: each.fence,
    cells: [
      ...(numbered ? [at + 1] : []),
      html`<${Owner} owner=${each.owner} />`,
      each.fence,
      age(now - each.since),
      html`<${Moment} time=${each.since} now=${now} />`,
      html`<${Lease} holder=${each} now=${now} />`,
      ...(shared ? [shareText(each.share)] : []),
    ],
  }));
  return html`<${Table} ...${{ label, columns, rows }} tall />`;
}

const HISTORY = [
  { head: "Time" },
  { head: "Event" },
  { head: "Who", kind: "text" },
  { head: "Fence", kind: "number" },
  { head: "Waited", kind: "number" },
  { head: "Held", kind: "number" },
  { head: "Note", kind: "text" },
];

function History({ detail, now }) {
  const history = detail.history ?? [];
  const replicas = detail.replicas ?? [];
  const many = replicas.length > 1;
  const columns = many ? [...HISTORY, { head: "Replica", kind: "text" }] : HISTORY;
  const rows = history.map((each) => ({
    key: `${each.time} ${each.event} ${each.fence} ${each.replica}`,
    cells: [
      html`<${Moment} time=${each.time} now=${now} />`,
      html`<span class="event ${TONES[each.event] ?? ""}">${each.event}</span>`,
      each.owner && html`<${Owner} owner=${each.owner} />`,
      each.fence,
      each.waited != null && duration(each.waited),
      each.held_for != null && duration(each.held_for),
      notes(each),
      ...(many ? [html`<${NameText} name=${each.replica} />`] : []),
    ],
  }));
  return html`<section data-part="history"><h2>History</h2>
    ${rows.length === 0 && html`<p class="muted">Nothing has happened to it that this page knows of.</p>`}
    ${rows.length > 0 && html`<${Times} history=${history} /><${Table} label="History, newest first" ...${{ columns, rows }} />`}
    <${Known} replicas=${replicas} now=${now} />
  </section>`;
}

const TONES = { granted: "good", lost: "bad", broken: "bad", "refused write": "bad", silent: "warn", "gave up": "warn" };

function notes(entry) {
  const found = [];
  if (entry.reason) found.push(entry.reason);
  if (entry.by) found.push(html`by <${NameText} name=${entry.by} />`);
  if (entry.newest) found.push(`the newest fence was ${entry.newest}`);
  if (entry.abandoned) found.push("after a holder that did not release it");
  return found.length > 0 && found.map((note, at) => html`${at ? "; " : ""}${note}`);
}

/** How far the history goes, and what can't be in it. */
function Known({ replicas, now }) {
  return html`<div class="known muted">
    ${replicas.map(
      (each) => html`<p key=${each.url}>
        ${each.url ? html`<${NameText} name=${each.url} />` : "This replica"}
        ${each.reached
          ? each.since != null && html` has seen what went through it since <${Moment} time=${each.since} now=${now} />`
          : html` <span class="warn-text">did not answer: ${visible(each.detail ?? "")}</span>`}.
      </p>`,
    )}
    <p>Programs that use the engine directly, and not through this service, leave no history here.</p>
  </div>`;
}
