// A table of few rows. On a narrow screen each row becomes a block, with the heads beside the values.

import { html } from "./html.js";

/** `columns`: [{head, kind}], kind "number" or "text". `rows`: [{key, cells}]; an empty cell is left out if it folds. */
export function Table({ label, columns, rows, tall }) {
  // The roles are said again: some browsers forget them when the style sheet folds the table.
  return html`<div class="scroll ${tall ? "tall" : ""}" tabindex="0" role="region" aria-label=${label}>
    <table role="table" aria-label=${label}>
      <thead role="rowgroup"><tr role="row">
        ${columns.map(({ head, kind }) => html`<th role="columnheader" scope="col" class=${kind}>${head}</th>`)}
      </tr></thead>
      <tbody role="rowgroup">
        ${rows.map(
          ({ key, cells }) => html`<tr role="row" key=${key}>
            ${cells.map((cell, at) => html`<td role="cell" class=${columns[at].kind} data-head=${columns[at].head}>${cell}</td>`)}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}
