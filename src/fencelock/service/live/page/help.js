// The help: keys, and what this page can't know.

import { html, useState } from "./html.js";
import { Dialog } from "./hooks.js";
import { remember, remembered } from "./settings.js";

const KEYS = [
  ["/", "search"],
  ["↓ j", "next row"],
  ["↑ k", "previous row"],
  ["Enter", "open the selected name"],
  ["Esc", "back to the list"],
  ["b", "break the selected lock"],
  ["?", "this help"],
];

export function Help({ closed }) {
  const [letters, setLetters] = useState(remembered("letters", "on") === "on");
  const toggle = ({ target }) => {
    setLetters(target.checked);
    remember("letters", target.checked ? null : "off");
  };
  return html`<${Dialog} title="Help" closed=${closed} data-part="help">
    <h3>Keys</h3>
    <dl class="keys">${KEYS.map(
      ([keys, what]) => html`<div><dt>${keys.split(" ").map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${what}</dd></div>`,
    )}</dl>
    <label class="switch"><input type="checkbox" checked=${letters} onChange=${toggle} /> Keys of a single letter or sign work</label>
    <h3>Search</h3>
    <p>Part of a name, host or label. With <kbd>*</kbd>, <kbd>?</kbd> or <kbd>[</kbd> it is a pattern for the whole of one: <code>order:*</code>.</p>
    <h3>What this page can’t know</h3>
    <ul>
      <li>It asks the engine again and again. A lock that is held for a moment only may never be shown, and a row is as old as it says.</li>
      <li>History, reasons of a loss, refused writes and percentiles are what the replica has seen since it started, and its memory is bounded.
        Programs that use the engine directly leave no history here.</li>
      <li>The ttl of a lease is the longest time left that was seen: engines don’t say it.</li>
      <li>“Unusually long” is: held for more than three times as long as usual, and for more than a second.</li>
    </ul>
    <div class="buttons"><button type="button" autofocus onClick=${closed}>Close</button></div>
  <//>`;
}
