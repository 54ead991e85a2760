// What the doctor says of the engine.

import { visible } from "./format.js";
import { html } from "./html.js";

const TONES = { correctness: "good", efficiency: "warn", "not safe": "bad" };

export function Verdict({ verdict }) {
  return html`<p class="bar-note ${TONES[verdict.level] ?? ""}" data-verdict=${verdict.level}>
    <b>The doctor says: ${visible(verdict.level)}.</b> ${visible(verdict.text)}</p>`;
}
