// The page: which part of it is shown, and what all parts share.

import { Break } from "./break.js";
import { Circle } from "./circle.js";
import { age, duration, several, visible } from "./format.js";
import { Bars, Header } from "./header.js";
import { Help } from "./help.js";
import { useKeys } from "./hooks.js";
import { html, render, useEffect, useState } from "./html.js";
import { List } from "./list.js";
import { connection, mayBreak, now, store, useStatus, useTick } from "./live.js";
import { Login } from "./login.js";
import { Name } from "./name.js";
import { toNow, useRoute } from "./route.js";
import { remember, remembered } from "./settings.js";

const SLOW = 10;

function App() {
  useStatus();
  const route = useRoute();
  const [view, setView] = useView(route);
  const [breaking, setBreaking] = useState(null);
  const [help, setHelp] = useState(false);
  const [said, say] = useSaid();
  const back = () => (location.hash = toNow(view.query));
  const offerBreak = (name, row = store.rows.get(name)) => {
    if (!mayBreak(name)) say("You may not break this lock.");
    else if (!row?.holders.length) say("Nobody holds this lock.");
    else setBreaking(row);
  };
  useKeys({ "?": () => setHelp(true) });
  useTitle(route);
  if (connection.refused !== null) return html`<${Login} />`;
  const faded = connection.phase === "stale" || connection.phase === "lost";
  return html`
    <${Header} route=${route} help=${() => setHelp(true)} />
    <${Bars} />
    <main class=${faded ? "faded" : ""} data-view=${route.view}>
      ${route.view === "now" && html`<${Now} ...${{ view, setView, offerBreak }} />`}
      ${route.view === "lock" && html`<${Name} key=${route.name} ...${{ name: route.name, back, offerBreak }} />`}
      ${route.view === "whole" && html`<${Later} load=${() => import("./whole.js")} part="Whole" back=${back} />`}
    </main>
    <p class="toast" role="status">${said}</p>
    ${breaking && html`<${Break} row=${breaking} closed=${() => setBreaking(null)} />`}
    ${help && html`<${Help} closed=${() => setHelp(false)} />`}`;
}

function Now({ view, setView, offerBreak }) {
  return html`<h1 class="visually-hidden">Now</h1>
    <${Circles} />
    <${List} view=${view} setView=${setView} offerBreak=${offerBreak} />
    <${Foot} />`;
}

function Circles() {
  useStatus();
  const circles = store.state?.circles ?? [];
  if (!circles.length) return null;
  const many = circles.length > 1 ? `${circles.length} circles: transactions` : "Transactions";
  return html`<details class="bar-note bad" data-part="circle">
    <summary><b>${many} wait for one another</b>,
      and none of them can go on: ${circles.map((circle, at) => html`${at ? "; " : ""}<bdi>${inOneLine(circle)}</bdi>`)}</summary>
    ${circles.map((circle) => html`<${Circle} circle=${circle} />`)}
  </details>`;
}

function inOneLine({ steps }) {
  return steps.map((each) => visible(each.waits_for)).join(" → ");
}

/** How complete and how old the list is. */
function Foot() {
  useTick();
  const { state, hello } = store;
  if (!state || !hello) return null;
  const { left_out = 0, unlooked = 0, list_took = 0, listed_at = null, load = 0 } = state;
  const slow = list_took > SLOW;
  return html`<footer class="foot muted" data-part="foot">
    <span>${several(store.rows.size, "name")}</span>
    ${left_out > 0 && html`<span class="warn-text">${several(left_out, "more name")} not shown</span>`}
    ${unlooked > 0 && html`<span>${several(unlooked, "name")} not looked at yet</span>`}
    ${slow && html`<span class="warn-text">a listing of all names takes ${duration(list_took)}: new names may come late</span>`}
    ${listed_at === null && html`<span>the names are being listed</span>`}
    ${listed_at !== null && now() - listed_at > SLOW && html`<span>listed ${age(now() - listed_at)} ago</span>`}
    <span class="wide">the pages take ${(load * 100).toFixed(1)} % of the engine’s time</span>
    <span class="wide">replica ${hello.replica}, Fencelock ${hello.version}</span>
  </footer>`;
}

/** Loads a part of the page when it is needed for the first time. */
function Later({ load, part, ...rest }) {
  const [module, set] = useState(null);
  const [failed, fail] = useState(false);
  useEffect(() => void load().then(set, () => fail(true)), []);
  if (failed) return html`<p class="bar-note bad" role="alert">This part can’t be loaded. Load the page again.</p>`;
  return module ? html`<${module[part]} ...${rest} />` : html`<p class="muted">Loading …</p>`;
}

/** What the list shows. The query stands in the address, so that it can be shared. */
function useView(route) {
  const [view, set] = useState(() => ({
    ...{ query: route.query ?? "", filter: "all", sort: "attention", reverse: false },
    ...{ grouped: remembered("grouped", "on") === "on", collapsed: new Set() },
  }));
  useEffect(() => {
    if (route.view === "now" && route.query !== view.query) set({ ...view, query: route.query });
  }, [route]);
  const change = (changes) => {
    set((before) => ({ ...before, ...changes }));
    if ("query" in changes) history.replaceState(null, "", toNow(changes.query));
    if ("grouped" in changes) remember("grouped", changes.grouped ? null : "off");
  };
  return [view, change];
}

function useSaid() {
  const [said, set] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => set(""), 5000);
    return () => clearTimeout(timer);
  }, [said]);
  return [said, set];
}

function useTitle(route) {
  const trouble = connection.phase === "lost" || connection.phase === "stale" || store.state?.trouble;
  const part = route.view === "lock" ? visible(route.name) : route.view === "whole" ? "The whole" : "Now";
  useEffect(() => {
    document.title = `${trouble ? "⚠ " : ""}${part} – Fencelock`;
  }, [trouble, part]);
}

render(html`<${App} />`, document.getElementById("app"));
connection.start();
