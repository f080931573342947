// The regions on a map, with a line from each to those whose answers its commits wait for. The list of regions says the
// same in words, so the map is hidden from screen readers; a click chooses a region, as its box in the list does.
import { html, useEffect, useState } from "../../lib/html.js";
import { ms } from "../../lib/format.js";
import { geoEqualEarth, geoPath } from "../../vendor/d3-geo.js";
import feature from "../../vendor/topojson/feature.js";
import { PLACES } from "./places.js";

const WIDTH = 960;
const HEIGHT = 400;
const projection = geoEqualEarth().rotate([-10, 0]).fitExtent([[4, 4], [WIDTH - 4, HEIGHT + 62]], { type: "Sphere" });
const path = geoPath(projection);

// Lines are bent towards the north by a part of their length.
const BEND = 0.22;

function arc([x, y], [toX, toY]) {
  const rise = BEND * Math.hypot(toX - x, toY - y);
  return `M${x} ${y}Q${(x + toX) / 2} ${Math.max(4, (y + toY) / 2 - rise)} ${toX} ${toY}`;
}

// The shorter way round: across the Pacific a line leaves the map at one edge and comes back at the other.
function line(here, there) {
  const [west, east] = [PLACES[here].at, PLACES[there].at].sort((one, other) => one[0] - other[0]);
  const [left, right] = [projection(west), projection(east)];
  if (east[0] - west[0] <= 180) return arc(left, right);
  return arc(right, [left[0] + WIDTH, left[1]]) + arc(left, [right[0] - WIDTH, right[1]]);
}

function useLand() {
  const [land, setLand] = useState("");
  useEffect(() => {
    const ended = new AbortController();
    fetch("/ui/vendor/land-110m.json", { signal: ended.signal })
      .then((answer) => answer.json())
      .then((topology) => setLand(path(feature(topology, "land"))))
      .catch(() => {}); // Without land the regions are still there.
    return () => ended.abort();
  }, []);
  return land;
}

export function RegionMap({ known, rows, onToggle }) {
  const land = useLand();
  const chosen = new Map(rows.map((row) => [row.region, row]));
  const lines = rows.flatMap((row) => row.waits_for.map((there) => [row.region, there]));
  return html`<svg class="plan-map" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">
    <path class="plan-land" d=${land} />
    ${lines.map(
      ([here, there]) => html`<path key=${`${here} ${there}`} class="plan-line" d=${line(here, there)} />`,
    )}
    ${known.map((name) => {
      const [x, y] = projection(PLACES[name].at);
      const { figure } = PLACES[name];
      const row = chosen.get(name);
      const kind = row ? (row.down ? "down" : "on") : "off";
      return html`<g key=${name} class=${`plan-dot ${kind}`} transform=${`translate(${x} ${y})`} onClick=${() => onToggle(name)}>
        <title>${name}</title>
        <circle class="plan-reach" r="22" />
        <circle r=${row ? 8 : 6} />
        ${row?.down ? html`<path d="M-5 -5L5 5M5 -5L-5 5" />` : null}
        ${row && !row.down && row.commit_ms !== null ? html`<text x=${figure.x} y=${figure.y} text-anchor=${figure.anchor}>${ms(row.commit_ms)}</text>` : null}
      </g>`;
    })}
  </svg>`;
}
