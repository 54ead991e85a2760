// Small parts that the list, the page of a name and the dialog have in common.

import { age, duration, moment, person, visible } from "./format.js";
import { html } from "./html.js";

const IN_TIME = 0.6;
const SOON = 0.2;

/** After so many seconds without a look, what is shown may be over. */
export const OLD = 10;

/** A name. `<bdi>` keeps a name that is written from right to left from turning what stands beside it. */
export function NameText({ name }) {
  return html`<bdi>${visible(name)}</bdi>`;
}

/** How much of the lease is left: a bar that moves, and the seconds. */
export function Lease({ holder, now }) {
  const { until = null, ttl = null } = holder;
  if (until === null) return html`<span class="muted">does not expire</span>`;
  const left = Math.max(0, until - now);
  const part = ttl ? Math.min(1, left / ttl) : 0;
  const level = part > IN_TIME ? "good" : part > SOON ? "warn" : "bad";
  const of = ttl ? ` of about ${duration(ttl)}` : "";
  return html`<span class="lease" title=${`expires in ${duration(left)}${of} unless it is renewed`}>
    <span class="bar ${level}" aria-hidden="true"><span style=${{ transform: `scaleX(${part.toFixed(3)})` }} /></span>
    <span class="left">${until < now ? "overdue" : age(left + 0.5)}</span>
  </span>`;
}

/** The holder whose lease ends first: the one to worry about. */
export function mostUrgent(holders) {
  return holders.reduce((a, b) => ((b.until ?? Infinity) < (a.until ?? Infinity) ? b : a));
}

/** "read", "2 of 5 permits": how a holder shares the lock. Empty for a lock of one holder. */
export function shareText(share) {
  if (!share) return "";
  if (share.group === "read") return "read";
  const { weight = 1, permits = 1 } = share;
  return `${weight} of ${permits} permits`;
}

export function Owner({ owner }) {
  return html`<bdi>${person(owner)}</bdi>`;
}

export function Moment({ time, now }) {
  return html`<time datetime=${new Date(time * 1000).toISOString()}>${moment(time, now)}</time>`;
}

/** "usually 40 s": with what a long hold is compared. */
export function usually(row) {
  const of = row.usual_of === "prefix" ? " (names with this prefix)" : "";
  return `usually ${duration(row.usual)}${of}`;
}
