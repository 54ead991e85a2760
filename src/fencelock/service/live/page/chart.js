// One small chart of the last hour. uPlot draws on a canvas; the legend says the latest values in words.

import { lines } from "./figures.js";
import { html, useEffect, useMemo, useReducer, useRef } from "./html.js";
import { useWidth } from "./hooks.js";
import { NameText } from "./parts.js";
import uPlot from "./vendor/uplot.js";

const HEIGHT = 120;
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000];
/** Seconds below which a logarithm would only make noise visible. */
const SHORTEST = 0.00005;

export const COLOURS = 6;

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
    const plot = new uPlot(options(chart, found, width, canvas.current, colour), data(chart, found), canvas.current);
    return () => plot.destroy();
  }, [found, width, theme]);
  return html`<figure class="chart" data-chart=${chart.id}>
    <h3 id=${`chart-${chart.id}`}>${chart.title}</h3>
    <div ref=${ref}><div class="plot" ref=${canvas} aria-hidden="true"></div></div>
    <figcaption aria-labelledby=${`chart-${chart.id}`}>
      ${found.lines.length === 0 && html`<span class="muted">nothing measured yet</span>`}
      ${replicas.map((replica) => {
        const mine = found.lines.filter((line) => line.replica === replica);
        return mine.length > 0 && html`<span><span class="swatch s${colour(mine[0])}" aria-hidden="true"></span>
          ${replicas.length > 1 && html`<${NameText} name=${replica} /> `}
          ${mine.map((line) => html`${line.name} <b>${line.latest}</b> `)}</span>`;
      })}
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

function data(chart, { times, lines }) {
  const floor = (value) => (value === null ? null : Math.max(value, SHORTEST));
  return [times, ...lines.map((line) => (chart.log ? line.values.map(floor) : line.values))];
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
      y: chart.log ? { distr: 3 } : { range: (_, low, high) => [Math.min(0, low ?? 0), high > 0 ? high * 1.1 : 1] },
    },
    axes: [
      { ...axis, grid: { show: false }, size: 24, values: "{HH}:{mm}", space: 60 },
      { ...axis, size: 56, space: 28, ...(chart.log ? { splits: decades } : {}), ...(chart.whole ? { incrs: WHOLE } : {}),
        values: (_, splits) => splits.map((each) => (each === null ? null : each === 0 ? "0" : chart.say(each))) },
    ],
    series: [{}, ...lines.map((line) => ({
      stroke: shade(element, colour(line)),
      width: line.name === "p50" ? 1 : 1.25,
      dash: line.name === "p50" ? [3, 3] : undefined,
      spanGaps: false,
      points: { show: false },
    }))],
  };
}

/** The powers of ten in this scale: the marks between them would only be noise. */
function decades(plot, axis, low, high) {
  const found = [];
  for (let power = Math.ceil(Math.log10(low) - 0.01); 10 ** power <= high * 1.01; power++) found.push(10 ** power);
  return found;
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
