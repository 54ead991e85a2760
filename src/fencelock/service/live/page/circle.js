// Transactions that wait for one another: as a drawing, and as a list for those who don't see it.

import { person, visible } from "./format.js";
import { html } from "./html.js";
import { useWidth } from "./hooks.js";
import { NameText } from "./parts.js";
import { toLock } from "./route.js";

const BOX = { width: 132, height: 40 };
const DRAWN = 8;
/** On a narrow screen the drawing would have no room for the names. */
const LEAST_WIDTH = 460;

export function Circle({ circle, name }) {
  const [ref, width] = useWidth();
  const { steps } = circle;
  const drawn = width >= LEAST_WIDTH && steps.length > 1 && steps.length <= DRAWN;
  return html`<div class="circle" ref=${ref}>
    ${drawn && html`<${Drawing} steps=${steps} width=${Math.min(width, 620)} name=${name} />`}
    <ol>
      ${steps.map(
        (step) => html`<li key=${step.transaction}>
          <b>${short(step.transaction, 9)}</b> <bdi class="muted">${person(step.owner)}</bdi>
          ${step.holds?.length > 0 && html` holds ${step.holds.map((each, at) => html`${at ? ", " : ""}<${Link} to=${each} here=${name} />`)} and`}
          ${" "}waits for <${Link} to=${step.waits_for} here=${name} />
        </li>`,
      )}
    </ol>
  </div>`;
}

function Link({ to, here }) {
  return to === here ? html`<b><${NameText} name=${to} /></b>` : html`<a href=${toLock(to)}><${NameText} name=${to} /></a>`;
}

function Drawing({ steps, width, name }) {
  const reach = { x: (width - BOX.width) / 2 - 4, y: 60 + 14 * steps.length };
  const turn = steps.length === 2 ? Math.PI : -Math.PI / 2; // two stand side by side
  const angles = steps.map((_, at) => turn + (2 * Math.PI * at) / steps.length);
  const heights = angles.map((angle) => reach.y * Math.sin(angle));
  const top = (steps.length === 2 ? 70 : 28) - Math.min(...heights);
  const height = top + Math.max(...heights) + (steps.length === 2 ? 70 : 28);
  const places = angles.map((angle, at) => ({ x: width / 2 + reach.x * Math.cos(angle), y: top + heights[at] }));
  return html`<svg width=${width} height=${height} role="img" aria-label=${`A circle of ${steps.length} transactions; the list below says the same`}>
    <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
      <path d="M0 0 8 4 0 8z" class="tip" /></marker></defs>
    ${steps.map((step, at) => html`<${Arrow} from=${places[at]} to=${places[(at + 1) % steps.length]} bend=${steps.length === 2}
      label=${step.waits_for} here=${step.waits_for === name} />`)}
    ${steps.map((step, at) => html`<g class="box">
      <rect x=${places[at].x - BOX.width / 2} y=${places[at].y - BOX.height / 2} width=${BOX.width} height=${BOX.height} rx="6" />
      <text x=${places[at].x} y=${places[at].y - 3} class="strong">${short(step.transaction, 9)}</text>
      <text x=${places[at].x} y=${places[at].y + 13}>${short(person(step.owner), 20)}</text>
    </g>`)}
  </svg>`;
}

/** From the edge of one box to the edge of the other, with the name that is waited for. */
function Arrow({ from, to, bend, label, here }) {
  const dx = to.x - from.x;
  const dy = to.y - from.y;
  const length = Math.hypot(dx, dy) || 1;
  const shift = bend ? 26 : 10; // two arrows between the same boxes must not lie on each other
  const side = { x: (-dy / length) * shift, y: (dx / length) * shift };
  const inside = Math.min(BOX.width / 2 / Math.abs(dx || 1e-9), BOX.height / 2 / Math.abs(dy || 1e-9));
  const cut = bend ? 0.32 : Math.min(0.45, inside + 0.02);
  const at = (part) => ({ x: from.x + dx * part, y: from.y + dy * part });
  const [a, b, m] = [at(cut), at(1 - cut), at(0.5)];
  const control = { x: m.x + side.x * (bend ? 2 : 0), y: m.y + side.y * (bend ? 2 : 0) };
  const text = { x: m.x + side.x, y: m.y + side.y + (bend ? (side.y > 0 ? 14 : -4) : 4) };
  return html`<g class="arrow ${here ? "here" : ""}">
    <path d="M${a.x} ${a.y}Q${control.x} ${control.y} ${b.x} ${b.y}" marker-end="url(#tip)" />
    <text x=${text.x} y=${text.y}>${short(label, 22)}<title>${visible(label)}</title></text>
  </g>`;
}

function short(text, most) {
  const characters = [...visible(text)];
  return characters.length > most ? `${characters.slice(0, most - 1).join("")}…` : characters.join("");
}
