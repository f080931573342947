// The regions on a ring, with the links between them: dashed where they are cut, thick where they are slow.
import { html } from "../../lib/html.js";

const WIDTH = 460;
const HEIGHT = 340;

function spot(place, total) {
  const angle = -Math.PI / 2 + (2 * Math.PI * place) / total;
  return { x: WIDTH / 2 + 150 * Math.cos(angle), y: HEIGHT / 2 + 110 * Math.sin(angle) };
}

export function linkState(link, conditions) {
  if (link.cut) return "cut";
  if (link.between.some((name) => conditions.get(name) === "down" || conditions.get(name) === "paused")) return "away";
  return link.added_ms ? "slow" : "whole";
}

// The table beside it says the same in words.
export function Picture({ demo, measured }) {
  const spots = new Map(demo.regions.map(({ region }, place) => [region, spot(place, demo.regions.length)]));
  const conditions = new Map(demo.regions.map(({ region, condition }) => [region, condition]));
  return html`<svg class="demo-picture" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">
    ${demo.links.map((link) => {
      const [one, other] = link.between.map((name) => spots.get(name));
      const state = linkState(link, conditions);
      const trip = link.rtt_ms || measured.get(link.between.join());
      const label = state === "cut" ? "cut" : state === "away" || trip === undefined ? "" : `${trip < 10 ? trip.toFixed(1) : Math.round(trip)} ms`;
      return html`<g key=${link.between.join()} class=${`demo-link ${state}`}>
        <line x1=${one.x} y1=${one.y} x2=${other.x} y2=${other.y} />
        ${label && demo.regions.length <= 5 ? html`<text x=${(one.x + other.x) / 2} y=${(one.y + other.y) / 2 - 6}>${label}</text>` : null}
      </g>`;
    })}
    ${demo.regions.map(({ region, condition }) => {
      const { x, y } = spots.get(region);
      return html`<g key=${region} class=${`demo-spot ${condition.replace(" ", "-")}`}>
        <circle cx=${x} cy=${y} r="26" />
        <text class="demo-sign" x=${x} y=${y + 7}>${{ up: "✓", down: "✕", paused: "❚❚", "cut off": "⌁" }[condition] ?? "?"}</text>
        <text x=${x} y=${y < HEIGHT / 2 ? y - 34 : y + 46}>${region}</text>
      </g>`;
    })}
  </svg>`;
}
