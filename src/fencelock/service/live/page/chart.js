// One small chart of the last hour. uPlot draws on a canvas; the legend says the latest values in words.

import { lines } from "./figures.js";
import { html, useEffect, useMemo, useReducer, useRef } from "./html.js";
import { useWidth } from "./hooks.js";
import { NameText } from "./parts.js";
import uPlot from "./vendor/uplot.js";

const HEIGHT = 120;
const COLOURS = 6;

export function Chart({ chart, figures }) {
  const found = useMemo(() => lines(figures, chart), [figures, chart]);
  const [ref, width] = useWidth();
  const canvas = useRef(null);
  const [theme, again] = useReducer((turn) => turn + 1, 0);
  const replicas = figures.replicas.map((each) => each.replica);
  const colour = (line) => replicas.indexOf(line.replica) % COLOURS;
  useTheme(again);
  useEffect(() => {
    if (!width) return undefined;
    const plot = new uPlot(options(chart, found, width, canvas.current, colour), data(found), canvas.current);
    return () => plot.destroy();
  }, [found, width, theme]);
  return html`<figure class="chart" data-chart=${chart.id}>
    <h3 id=${`chart-${chart.id}`}>${chart.title}</h3>
    <div ref=${ref}><div class="plot" ref=${canvas} aria-hidden="true"></div></div>
    <figcaption aria-labelledby=${`chart-${chart.id}`}>
      ${found.lines.length === 0 && html`<span class="muted">nothing measured yet</span>`}
      ${found.lines.map(
        (line) => html`<span class="line"><span class="swatch s${colour(line)} ${line.name === "p50" ? "thin" : ""}" aria-hidden="true"></span>
          ${replicas.length > 1 && html`<${NameText} name=${line.replica} /> `}${line.name} <b>${line.latest}</b></span>`,
      )}
    </figcaption>
  </figure>`;
}

function useTheme(changed) {
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    addEventListener("theme", changed);
    dark.addEventListener("change", changed);
    return () => {
      removeEventListener("theme", changed);
      dark.removeEventListener("change", changed);
    };
  }, []);
}

function data({ times, lines }) {
  return [times, ...lines.map((line) => line.values)];
}

function options(chart, { lines, times }, width, element, colour) {
  const styles = getComputedStyle(element);
  const axis = { stroke: styles.color, font: `11px ${styles.fontFamily}`, ticks: { show: false }, grid: { stroke: styles.borderTopColor, width: 1 } };
  const end = times.at(-1) ?? Date.now() / 1000;
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { time: true, range: [end - 3600, end] },
      y: { range: (_, low, high) => [Math.min(0, low ?? 0), high > 0 ? high * 1.1 : 1] },
    },
    axes: [
      { ...axis, grid: { show: false }, size: 24, values: "{HH}:{mm}", space: 60 },
      { ...axis, size: 56, space: 30, values: (_, splits) => splits.map((each) => (each === 0 ? "0" : chart.say(each))) },
    ],
    series: [{}, ...lines.map((line) => ({
      stroke: shade(element, colour(line)),
      width: line.name === "p50" ? 1 : 1.75,
      dash: line.name === "p50" ? [3, 3] : undefined,
      spanGaps: false,
      points: { show: false },
    }))],
  };
}

/** The colour of a class, as the style sheet and the theme have it now. */
function shade(element, colour) {
  const sample = document.createElement("span");
  sample.className = `swatch s${colour}`;
  element.append(sample);
  const found = getComputedStyle(sample).backgroundColor;
  sample.remove();
  return found;
}
