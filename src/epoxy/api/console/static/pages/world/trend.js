// The last minutes as small charts, one line for each datacenter.
import { html, useRef } from "../../lib/html.js";

const KEPT = 300; // Seconds, one point for each answer: five minutes.
const WIDTH = 480;
const HEIGHT = 110;
const LEFT = 44;
const BOTTOM = 16;

// What was shown, by time. The array is the same one for as long as the page is open.
export function useHistory(world) {
  const kept = useRef([]);
  const last = kept.current.at(-1);
  if (world && last?.at !== world.clock_s) {
    const figures = new Map(world.members.map((member) => [member.id, member.reachable && !member.old ? member.figures : null]));
    kept.current.push({ at: world.clock_s, figures });
    if (kept.current.length > KEPT) kept.current.shift();
  }
  return kept.current;
}

function nice(value) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 2.5, 5, 10].map((step) => step * unit).find((step) => step >= value) ?? 10 * unit;
}

// A line that breaks where nothing was known.
function line(points, x, y) {
  let d = "";
  let open = false;
  for (const { at, value } of points) {
    if (value === null || value === undefined) {
      open = false;
      continue;
    }
    d += `${open ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    open = true;
  }
  return d;
}

// `series`: {name, className, of(entry)}. `words`: what the chart says now, for those who do not see it.
export function Trend({ title, unit, history, series, words }) {
  const end = history.at(-1)?.at ?? 0;
  const begin = Math.min(history[0]?.at ?? 0, end - 60);
  const points = series.map(({ of }) => history.map((entry) => ({ at: entry.at, value: of(entry) })));
  const top = nice(Math.max(1, ...points.flat().map(({ value }) => value ?? 0)));
  const x = (at) => LEFT + ((at - begin) / (end - begin)) * (WIDTH - LEFT - 8);
  const y = (value) => 6 + (1 - value / top) * (HEIGHT - BOTTOM - 6);
  return html`<figure class="trend">
    <figcaption>${title} <span class="muted">${unit}</span></figcaption>
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${words}>
      ${[0, 0.5, 1].map(
        (part) => html`<g key=${part} class="trend-grid">
          <path d=${`M${LEFT} ${y(part * top)}H${WIDTH - 8}`} />
          <text x=${LEFT - 6} y=${y(part * top) + 4} text-anchor="end">${(part * top).toLocaleString("en")}</text>
        </g>`,
      )}
      <text class="trend-time" x=${LEFT} y=${HEIGHT - 2}>${Math.round(end - begin)} s ago</text>
      <text class="trend-time" x=${WIDTH - 8} y=${HEIGHT - 2} text-anchor="end">now</text>
      ${points.map((each, n) => html`<path key=${series[n].name} class=${`trend-line ${series[n].className}`} d=${line(each, x, y)} />`)}
    </svg>
    <ul class="trend-key">
      ${series.map(({ name, className }) => html`<li key=${name}><svg viewBox="0 0 26 8" width="26" height="8" aria-hidden="true"><path class=${`trend-line ${className}`} d="M1 4H25" /></svg> ${name}</li>`)}
    </ul>
  </figure>`;
}
