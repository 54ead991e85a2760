// The top of the page: is it live, does the engine answer, who am I?

import { age, moment, visible } from "./format.js";
import { html, useState } from "./html.js";
import { connection, isLoggedIn, isReadOnly, logOut, now, store, useStatus, useTick } from "./live.js";
import { setTheme, theme } from "./settings.js";
import { Verdict } from "./verdict.js";

const PHASES = { connecting: "Connecting", live: "Live", stale: "Stale", lost: "Connection lost", login: "Login needed" };

export function Header({ route, help }) {
  useStatus();
  const { hello, state } = store;
  const trouble = Boolean(state?.trouble);
  const tab = (view, href, label) =>
    html`<a href=${href} aria-current=${route.view === view ? "page" : undefined}>${label}</a>`;
  return html`<header class="top">
    <a class="brand" href="#/" aria-label="Fencelock"><img src="/page/icon.svg" alt="" width="22" height="22" /> <span>Fencelock</span></a>
    <nav aria-label="Parts of the page">${tab("now", "#/", "Now")}${tab("whole", "#/whole", "The whole")}</nav>
    <p class="badges">
      <span class="badge ${connection.phase}" data-part="connection">${PHASES[connection.phase]}</span>
      ${hello && html`<span class="badge ${trouble ? "lost" : "live"}" data-part="engine">${visible(hello.engine)} ${
        !state ? "…" : trouble ? "does not answer" : "answers"
      }</span>`}
      ${isReadOnly() && html`<span class="badge" data-part="read-only">read-only</span>`}
    </p>
    <div class="me">
      ${hello && isLoggedIn() && html`<bdi class="principal">${visible(hello.principal)}</bdi>
        <button type="button" onClick=${logOut} data-action="logout">Log out</button>`}
      <${Theme} />
      <button type="button" class="round" aria-label="Help" onClick=${help}>?</button>
    </div>
  </header>
  <p class="visually-hidden" role="status">${PHASES[connection.phase]}. ${trouble ? "The engine does not answer." : ""}</p>`;
}

const THEMES = { auto: "◐", light: "☀", dark: "☾" };

function Theme() {
  const [chosen, set] = useState(theme());
  const next = () => {
    const all = Object.keys(THEMES);
    const following = all[(all.indexOf(chosen) + 1) % all.length];
    set(following);
    setTheme(following);
  };
  const label = `Colours: ${chosen === "auto" ? "as the system has them" : chosen}`;
  return html`<button type="button" class="round" aria-label=${label} title=${label} onClick=${next} data-action="theme">${THEMES[chosen]}</button>`;
}

/** What is wrong, as bars above the content. They are heard once by way of the header's status. */
export function Bars() {
  useStatus();
  useTick();
  const { phase, heardAt, detail } = connection;
  const { state, hello } = store;
  const silent = heardAt === null ? null : Date.now() / 1000 - heardAt;
  const since = silent === null ? "" : ` Nothing has come since ${moment(heardAt)} (${age(silent)} ago). What you see is as it was then.`;
  return html`<div class="bars" role="region" aria-label="What is wrong">
    ${phase === "stale" && html`<p class="bar-note warn" data-bar="stale"><b>Stale.</b>${since}</p>`}
    ${phase === "lost" && html`<p class="bar-note bad" data-bar="lost">
      <b>Connection lost</b>: ${visible(detail)}. Trying again.${since}</p>`}
    ${state?.trouble && html`<p class="bar-note bad" data-bar="trouble"><b>The engine does not answer</b> since
      ${` ${moment(state.trouble.since)} (${age(now() - state.trouble.since)}): `}${visible(state.trouble.detail)}.
      Rows are as they were last seen.</p>`}
    ${state?.draining && phase !== "lost" && html`<p class="bar-note warn" data-bar="draining">
      <b>This replica is draining.</b> The page goes on at another one.</p>`}
    ${hello?.verdict?.level === "not safe" && html`<${Verdict} verdict=${hello.verdict} />`}
  </div>`;
}
