// Datacenters on a map of the world, with arcs between them. It is a picture of what the tables say in words, so it is
// hidden from screen readers. The page of commits draws its dots on the same map.
import { html, useEffect, useMemo, useState } from "../../lib/html.js";
import { ms } from "../../lib/format.js";
import { geoGraticule10, geoNaturalEarth1, geoPath } from "../../vendor/d3-geo.js";
import feature from "../../vendor/topojson/feature.js";
import { besides, placed } from "./labels.js";

export const WIDTH = 1000;
export const HEIGHT = 446;
// From a little north of Alaska to Cape Horn; the 11th meridian east in the middle, so that no land is cut but Chukotka's end.
const TOP = 4;
const projection = geoNaturalEarth1().rotate([-11, 0]).fitWidth(WIDTH, { type: "Sphere" });
projection.translate([WIDTH / 2, projection.translate()[1] - projection([11, 81])[1] + TOP]);
const path = geoPath(projection);
const graticule = path(geoGraticule10());
const globe = path({ type: "Sphere" });

// Land is drawn as dots, in rows that are set off against each other.
const DOT_STEP = 6.6;
const ROW_STEP = DOT_STEP * 0.87;

const BESIDE_Y = HEIGHT - 34;
const NEAR = 9;
const MANY = 4;
const KINDS = ["faint", "", "cut", "chosen", "quorum"]; // The last are drawn above the others, and told first.

// Where each member is: by its place, or in a row at the lower edge. Members of one city stand side by side.
export function positions(members) {
  const found = new Map();
  const without = members.filter((member) => member.place === null);
  for (const member of members) {
    let [x, y] = member.place
      ? projection([member.place.longitude, member.place.latitude])
      : [((without.indexOf(member) + 1) * WIDTH) / (without.length + 1), BESIDE_Y];
    while ([...found.values()].some((other) => Math.hypot(other.x - x, other.y - y) < NEAR)) x += 2 * NEAR;
    found.set(member.id, { x, y, at: member.place && [member.place.longitude, member.place.latitude] });
  }
  return found;
}

// Great circles between places: across the Pacific an arc leaves the map at one edge and comes back at the other.
export function arc(here, there) {
  if (here.at && there.at) return path({ type: "LineString", coordinates: [here.at, there.at] }) ?? "";
  const rise = 0.25 * Math.hypot(there.x - here.x, there.y - here.y);
  return `M${here.x} ${here.y}Q${(here.x + there.x) / 2} ${(here.y + there.y) / 2 - rise} ${there.x} ${there.y}`;
}

function dotted(topology) {
  const land = new Path2D(path(feature(topology, "land")));
  const canvas = document.createElement("canvas").getContext("2d");
  let dots = "";
  for (let row = 0; row * ROW_STEP < HEIGHT; row += 1) {
    for (let x = row % 2 ? DOT_STEP / 2 : 0; x < WIDTH; x += DOT_STEP) {
      const y = row * ROW_STEP;
      if (canvas.isPointInPath(land, x, y)) dots += `M${x.toFixed(1)} ${y.toFixed(1)}h0`;
    }
  }
  return dots;
}

let known = null;

function useLand() {
  const [land, setLand] = useState(known ?? "");
  useEffect(() => {
    if (known !== null) return undefined;
    const ended = new AbortController();
    fetch("/ui/vendor/land-110m.json", { signal: ended.signal })
      .then((answer) => answer.json())
      .then((topology) => setLand((known = dotted(topology))))
      .catch(() => {}); // Without land the datacenters are still there.
    return () => ended.abort();
  }, []);
  return land;
}

// Narrow screens have larger letters and fewer of them.
export function useCompact() {
  const [query] = useState(() => matchMedia("(max-width: 40rem)"));
  const [compact, setCompact] = useState(query.matches);
  useEffect(() => {
    const changed = () => setCompact(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, [query]);
  return compact;
}

// The others whose votes, with a member's own, make its nearest fast quorum.
export function nearestQuorum(world, id) {
  const up = new Set(world.members.filter((member) => member.reachable && member.status === "active").map((member) => member.id));
  const known = world.links
    .filter((link) => (link.a === id || link.b === id) && link.reachable && link.rtt_ms !== null)
    .map((link) => ({ to: link.a === id ? link.b : link.a, rtt: link.rtt_ms }))
    .filter(({ to }) => up.has(to))
    .sort((one, other) => one.rtt - other.rtt);
  return new Set(known.slice(0, world.fast_quorum - 1).map(({ to }) => to));
}

// A line that can be asked for the point at a share of its length.
export function measured(d) {
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  line.setAttribute("d", d);
  const length = line.getTotalLength();
  return (share) => line.getPointAtLength(share * length);
}

// An arc in both directions: what flows along it goes away from the datacenter that is looked at.
class Line {
  constructor(here, there) {
    this.d = arc(here, there);
    this.back = arc(there, here);
    this.at = measured(this.d);
  }
}

const ALONG = Array.from({ length: 25 }, (_, n) => n / 24);

function Arc({ d, kind }) {
  return html`<g class=${`arc ${kind}`}>
    <path class="arc-line" d=${d} />
    ${kind === "quorum" ? html`<path class="arc-flow" d=${d} />` : null}
  </g>`;
}

function kindOf(member) {
  if (!member.reachable) return "gone";
  if (member.old) return "silent";
  return member.status === "active" && !member.figures.reason ? "up" : "other";
}

function Mark({ member, at, isHere }) {
  const kind = kindOf(member);
  const busy = kind === "up" && member.figures.commits_per_s > 0;
  return html`<g class=${`mark ${kind}${isHere ? " here" : ""}`} transform=${`translate(${at.x} ${at.y})`}>
    ${busy ? html`<circle class="mark-pulse" r="7" />` : null}
    <circle class="mark-halo" r="13" />
    <circle class="mark-ring" r=${isHere ? 9 : 7} />
    ${kind === "gone" ? html`<path class="mark-cross" d="M-5 -5L5 5M5 -5L-5 5" />` : html`<circle class="mark-core" r=${isHere ? 4 : 3.4} />`}
  </g>`;
}

// `detail(member)`: what its label says below its name. `focus`: the member whose arcs are told; `onFocus(id or null)`.
export function WorldMap({ world, focus, onFocus, detail, overlay }) {
  const land = useLand();
  const compact = useCompact();
  const ids = world.members.map((member) => `${member.id} ${member.place?.longitude} ${member.place?.latitude}`).join();
  const at = useMemo(() => positions(world.members), [ids]);
  const chosen = focus ?? world.id;
  const quorum = nearestQuorum(world, chosen);
  const few = world.members.length <= MANY;
  const pairs = world.links.map((link) => `${link.a} ${link.b}`).join();
  const lines = useMemo(() => {
    const known = world.links.filter((link) => at.has(link.a) && at.has(link.b));
    return new Map(known.map(({ a, b }) => [`${a} ${b}`, new Line(at.get(a), at.get(b))]));
  }, [at, pairs]);
  const points = useMemo(() => [...lines.values()].flatMap((line) => ALONG.map(line.at)), [lines]);
  const arcs = world.links
    .filter((link) => lines.has(`${link.a} ${link.b}`))
    .map((link) => {
      const isChosen = link.a === chosen || link.b === chosen;
      const isNear = isChosen && quorum.has(link.a === chosen ? link.b : link.a);
      const kind = !link.reachable ? "cut" : isNear ? "quorum" : isChosen ? "chosen" : few ? "" : "faint";
      return { id: `${link.a} ${link.b}`, link, isChosen, kind, line: lines.get(`${link.a} ${link.b}`) };
    })
    .sort((one, other) => KINDS.indexOf(other.kind) - KINDS.indexOf(one.kind));
  const labels = placed(
    world.members.map((member) => ({ id: member.id, ...at.get(member.id), lines: [member.datacenter, ...(compact ? [] : detail(member))] })),
    points,
    compact ? 2.1 : 1,
    WIDTH,
    HEIGHT,
  );
  const told = arcs.filter(({ link, isChosen }) => !compact && (few || isChosen) && link.reachable && link.rtt_ms !== null);
  const trips = besides(
    told.map(({ id, link, line }) => ({ id, text: ms(link.rtt_ms), at: line.at })),
    labels,
  );
  return html`<svg class="world-map" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">
    <path class="globe" d=${globe} />
    <path class="graticule" d=${graticule} />
    <path class="land" d=${land} />
    ${arcs.toReversed().map(({ id, kind, link, line }) => html`<${Arc} key=${id} kind=${kind} d=${link.b === chosen ? line.back : line.d} />`)}
    ${trips.map(({ id, text, x, y }) => html`<text key=${id} class=${`trip ${arcs.find((each) => each.id === id).kind}`} x=${x} y=${y}>${text}</text>`)}
    ${overlay ?? null}
    ${world.members.map((member) => html`<${Mark} key=${member.id} member=${member} at=${at.get(member.id)} isHere=${member.id === world.id} />`)}
    ${labels.map((label) => {
      const member = world.members.find(({ id }) => id === label.id);
      return html`<g key=${label.id} class=${`label ${kindOf(member)}`} transform=${`translate(${label.left} ${label.top})`}>
        <rect width=${label.width} height=${label.height} rx="7" />
        ${label.lines.map((line, n) => html`<text key=${n} class=${n ? "detail" : "name"} x=${label.pad} y=${label.baseline(n)} font-size=${label.sizes[n]}>${line}</text>`)}
      </g>`;
    })}
    ${world.members.map(
      ({ id }) => html`<circle key=${id} class="mark-reach" cx=${at.get(id).x} cy=${at.get(id).y} r="22" onMouseEnter=${() => onFocus(id)} onMouseLeave=${() => onFocus(null)} />`,
    )}
  </svg>`;
}
