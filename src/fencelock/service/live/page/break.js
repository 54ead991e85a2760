// The dialog that takes a lock away from its holder.

import { Failed, ask, encoded } from "./api.js";
import { age, count, person, several, visible } from "./format.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { Dialog } from "./hooks.js";
import { connection, now, store, useTick } from "./live.js";
import { NameText, Owner } from "./parts.js";
import { newestFence } from "./store.js";

const WORD = "break";
const SHOWN = 5;

/** `row`: the lock as it was when the reader asked for the dialog. Only these holders are broken. */
export function Break({ row, closed }) {
  const [outcome, setOutcome] = useState(null);
  const [sending, setSending] = useState(false);
  const fence = newestFence(row.holders);
  const send = async () => {
    setSending(true);
    setOutcome(await breakLock(row.name, fence));
    setSending(false);
  };
  return html`<${Dialog} title=${outcome ? outcome.title : "Break this lock?"} closed=${closed} data-part="break">
    <p class="the-name"><${NameText} name=${row.name} /></p>
    ${outcome
      ? html`<${Outcome} outcome=${outcome} closed=${closed} />`
      : html`<${Question} ...${{ row, fence, sending, send, closed }} />`}
  <//>`;
}

function Question({ row, fence, sending, send, closed }) {
  useTick();
  const [typed, setTyped] = useState("");
  const sure = typed.trim().toLowerCase() === WORD;
  const submit = (event) => {
    event.preventDefault();
    if (sure && !sending) send();
  };
  return html`<form onSubmit=${submit}>
    <dl class="facts">
      ${row.holders.slice(0, SHOWN).map(
        (each) => html`<div><dt>Holder</dt><dd><${Owner} owner=${each.owner} /></dd></div>
          <div><dt>Fence</dt><dd class="number">${each.fence}</dd></div>
          <div><dt>Held for</dt><dd>${age(now() - each.since)}</dd></div>`,
      )}
    </dl>
    ${row.holders.length > SHOWN && html`<p>… and ${several(row.holders.length - SHOWN, "more holder")}.</p>`}
    ${row.holders.length > 1 && html`<p><b>All ${count(row.holders.length)} holders lose it.</b></p>`}
    <${Changed} name=${row.name} fence=${fence} />
    <p>The holder loses the lock, and the next waiter gets it. The holder’s program is not stopped: it hears of the loss at its next renewal.
      Until then only a guard that checks fences keeps it from writing.</p>
    <label class="field">Type <b>${WORD}</b> to go on
      <input type="text" name="confirm" autocomplete="off" autocapitalize="off" spellcheck="false" autofocus value=${typed}
        onInput=${(event) => setTyped(event.target.value)} /></label>
    <div class="buttons">
      <button type="button" onClick=${closed}>Cancel</button>
      <button type="submit" class="danger" disabled=${!sure || sending}>${sending ? "Breaking …" : "Break"}</button>
    </div>
  </form>`;
}

/** Whether somebody else holds it by now: then the service will refuse. */
function Changed({ name, fence }) {
  const row = store.rows.get(name);
  const still = row && newestFence(row.holders) === fence;
  return html`<p class=${still ? "" : "bar-note warn"} role="status">${
    still ? "" : row?.holders.length
      ? html`By now <${Owner} owner=${row.holders[0].owner} /> holds it, with fence ${newestFence(row.holders)}. A break would not touch that holder.`
      : "By now nobody holds it."
  }</p>`;
}

function Outcome({ outcome, closed }) {
  const button = useRef(null);
  useEffect(() => button.current.focus(), []);
  return html`<div role="alert" data-outcome=${outcome.kind}><p class="bar-note ${outcome.tone}">${outcome.text}</p></div>
    <div class="buttons"><button type="button" ref=${button} onClick=${closed}>Close</button></div>`;
}

/** Break it, if a ticket with this fence still holds it. Returns what came of it, in words. */
async function breakLock(name, fence) {
  try {
    const path = `/v1/locks/${encoded(name)}?fence=${encodeURIComponent(fence)}`;
    const broken = await ask(path, { method: "DELETE" });
    const who = (broken.holders ?? []).map((each) => person(each.owner)).join(", ");
    return { kind: "broken", tone: "good", title: "Broken", text: `${who || "The holder"} holds it no more.` };
  } catch (error) {
    if (!(error instanceof Failed)) throw error;
    if (error.status === 401) connection.stop(error.message);
    return failed(error);
  }
}

function failed({ kind, status, message, problem }) {
  const detail = visible(message);
  const not = (tone, text) => ({ kind, tone, title: "Not broken", text });
  if (kind === "stale-fence") {
    const newest = problem.newest ?? "0";
    const by = newest === "0" ? "Nobody holds it now." : `Fence ${newest} holds it now.`;
    return not("warn", `The lock has changed hands since you opened this dialog, and nothing was done. ${by}`);
  }
  if (kind === "forbidden") return not("bad", `You may not break it: ${detail}.`);
  if (kind === "engine-away") return not("bad", `The engine did not answer, and has not acted: ${detail}.`);
  if (kind === "unauthorized" || kind === "draining" || kind === "overloaded" || (status >= 400 && status < 500))
    return not("bad", `The service refused: ${detail}.`);
  return {
    ...{ kind, tone: "bad", title: "Nobody knows whether it is broken" },
    text: `No answer says what came of it (${detail}). Look who holds the lock before you try again.`,
  };
}
