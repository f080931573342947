// Labels of points that do not cover each other: each takes the free place around its point that hides least of the arcs.
const NAME = 13.5;
const DETAIL = 12;
const FONT = 'system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
const PAD = 7;
const GAP = 13;
const CLEAR = 38;
const STRANGE = 5; // As bad as so many points of arcs that are hidden.

function overlaps(one, other) {
  return one.left < other.left + other.width && other.left < one.left + one.width && one.top < other.top + other.height && other.top < one.top + one.height;
}

let ruler = null;

function widthOf(text, size, weight) {
  ruler ??= document.createElement("canvas").getContext("2d");
  ruler.font = `${weight} ${size}px ${FONT}`;
  return ruler.measureText(text).width;
}

function sized(lines, scale) {
  const sizes = lines.map((_, n) => (n ? DETAIL : NAME) * scale);
  const pad = PAD * Math.sqrt(scale);
  const width = Math.max(...lines.map((line, n) => widthOf(line, sizes[n], n ? 600 : 700))) + 2 * pad;
  const heights = sizes.map((size) => size * 1.28);
  const baseline = (n) => pad * 0.7 + heights.slice(0, n).reduce((sum, each) => sum + each, 0) + sizes[n];
  return { sizes, pad, width, height: pad * 1.4 + heights.reduce((sum, each) => sum + each, 0), baseline };
}

// How many of these points of arcs a label would cover.
function hidden(box, arcs) {
  return arcs.filter(({ x, y }) => overlaps(box, { left: x - 2, top: y - 2, width: 4, height: 4 })).length;
}

// Other points so near that the label could be taken for theirs.
function strangers(box, own, points) {
  const away = ({ x, y }) => Math.hypot(Math.max(box.left - x, 0, x - box.left - box.width), Math.max(box.top - y, 0, y - box.top - box.height));
  return points.filter((other) => other !== own && away(other) < CLEAR).length;
}

function candidates({ x, y }, { width, height }) {
  return [
    [x + GAP, y - height / 2],
    [x - GAP - width, y - height / 2],
    [x - width / 2, y + GAP],
    [x - width / 2, y - GAP - height],
    [x + GAP, y + GAP / 2],
    [x - GAP - width, y + GAP / 2],
    [x + GAP, y - height - GAP / 2],
    [x - GAP - width, y - height - GAP / 2],
  ];
}

// `points`: {id, x, y, lines}; `arcs`: points of lines that should stay visible. A label for which there is no room is left out: the table has what it says.
export function placed(points, arcs, scale, width, height) {
  const taken = points.map(({ x, y }) => ({ left: x - GAP / 2, top: y - GAP / 2, width: GAP, height: GAP }));
  const found = [];
  for (const point of points) {
    const box = sized(point.lines, scale);
    const free = candidates(point, box)
      .map(([left, top]) => ({ left, top, width: box.width, height: box.height }))
      .filter((here) => here.left >= 2 && here.top >= 2 && here.left + here.width <= width - 2 && here.top + here.height <= height - 2)
      .filter((here) => !taken.some((other) => overlaps(here, other)))
      .map((here) => ({ here, cost: hidden(here, arcs) + STRANGE * strangers(here, point, points) }));
    if (free.length === 0) continue;
    const { here } = free.reduce((best, next) => (next.cost < best.cost ? next : best));
    taken.push(here);
    found.push({ ...box, id: point.id, lines: point.lines, left: here.left, top: here.top });
  }
  return found;
}

const TRIP = 12.5;
const SHARES = [0.5, 0.62, 0.38, 0.72, 0.28];

// Figures on arcs, where they cover no label and no other figure. `arcs`: {id, text, at(share)}.
export function besides(arcs, labels) {
  const taken = [...labels];
  const found = [];
  for (const { id, text, at } of arcs) {
    const width = widthOf(text, TRIP, 600) + 6;
    for (const share of SHARES) {
      const { x, y } = at(share);
      const here = { left: x - width / 2, top: y - TRIP - 5, width, height: TRIP + 4 };
      if (taken.some((other) => overlaps(here, other))) continue;
      taken.push(here);
      found.push({ id, text, x, y: y - 5 });
      break;
    }
  }
  return found;
}
