// What stands in one line of the list: a row, or the header of a group.

import { age, count, person, several, visible } from "./format.js";
import { html } from "./html.js";
import { store } from "./live.js";
import { Lease, NameText, OLD, mostUrgent, usually } from "./parts.js";
import { toLock } from "./route.js";
import { isUnusual } from "./store.js";

export const COLUMNS = [
  ["name", "Name"],
  ["holder", "Holder"],
  ["fence", "Fence"],
  ["held", "Held for"],
  ["lease", "Lease"],
  ["queue", "Queue"],
  ["longest", "Waits longest"],
];

export function Row({ row, index, top, now, selected }) {
  const latest = store.rows.get(row.name);
  const { name, holders, waiting, first, abandoned, looked_at } = latest ?? row;
  const unusual = isUnusual(latest ?? row, now);
  const old = looked_at !== null && now - looked_at > OLD;
  const classes = ["row", unusual && "unusual", old && "old", !latest && "gone"].filter(Boolean).join(" ");
  return html`<div role="row" class=${classes} aria-rowindex=${index + 2} data-name=${name}
    aria-current=${selected ? "true" : undefined} style=${{ transform: `translateY(${top}px)` }}>
    <div role="cell" class="c-name">
      <a href=${toLock(name)} title=${visible(name)}><${NameText} name=${name} /></a>
      ${abandoned && html`<span class="chip warn" title="The last holder did not release it: its work may be half done">abandoned</span>`}
      ${!latest && html`<span class="chip">free now</span>`}
    </div>
    <div role="cell" class="c-holder"><${Holder} holders=${holders} waiting=${waiting} looked=${looked_at} /></div>
    <div role="cell" class="c-fence">${holders.length ? holders[0].fence : ""}</div>
    <div role="cell" class="c-held" title=${unusual ? usually(latest ?? row) : undefined}>
      ${holders.length > 0 && age(now - (latest ?? row).since)}
      ${unusual && html`<span class="chip bad"><span class="visually-hidden">unusually long: </span>×${times(latest ?? row, now)}</span>`}
    </div>
    <div role="cell" class="c-lease">
      ${old
        ? html`<span class="muted">looked at ${age(now - looked_at)} ago</span>`
        : holders.length > 0 && html`<${Lease} holder=${mostUrgent(holders)} now=${now} />`}
    </div>
    <div role="cell" class="c-queue">${waiting > 0 && html`${count(waiting)}<span class="unit"> waiting</span>`}</div>
    <div role="cell" class="c-longest">
      ${first && html`<span class="for">${age(now - first.since)}</span> <bdi title=${person(first.owner)}>${person(first.owner)}</bdi>`}
    </div>
  </div>`;
}

function times({ usual, since }, now) {
  const ratio = (now - since) / usual;
  return ratio >= 1000 ? "999+" : Math.floor(ratio);
}

function Holder({ holders, waiting, looked }) {
  if (looked === null) return html`<span class="muted">not looked at yet</span>`;
  if (!holders.length) return html`<span class="muted">${waiting ? "nobody: the next one comes" : "nobody"}</span>`;
  const text = person(holders[0].owner);
  const others = holders.length > 1 && html` <span class="chip">+${count(holders.length - 1)}</span>`;
  return html`<bdi title=${text}>${text}</bdi>${others}`;
}

export function Group({ item, index, top, view, setView }) {
  const toggle = () => {
    const collapsed = new Set(view.collapsed);
    if (!collapsed.delete(item.group)) collapsed.add(item.group);
    setView({ collapsed });
  };
  return html`<div role="row" class="group ${item.urgent ? "urgent" : ""}" aria-rowindex=${index + 2} style=${{ transform: `translateY(${top}px)` }}>
    <div role="cell" aria-colspan=${COLUMNS.length}>
      <button type="button" aria-expanded=${String(item.open)} onClick=${toggle} data-group=${item.group}>
        <${NameText} name=${item.label} />
        <span class="muted">${several(item.rows, "name")}</span>
        ${item.waiting > 0 && html`<span class="muted wide">${count(item.waiting)} waiting</span>`}
        ${item.unusual > 0 && !item.urgent && html`<span class="chip bad">${count(item.unusual)} unusual</span>`}
      </button>
    </div>
  </div>`;
}

