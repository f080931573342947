// Samples as dots on the map: out along the arc, and back with the answer. Drawn by hand, frame by frame: a hundred dots
// sixty times a second are no work for a tree of components.
import { html, useEffect, useRef } from "../../lib/html.js";
import { arc, measured, positions } from "../world/map.js";
import { MESSAGES, lasts } from "./story.js";

const SVG = "http://www.w3.org/2000/svg";
const MOST_SAMPLES = 12; // Moving at a time: more cannot be told apart.
const FARTHEST_S = 1.3; // How long the longest round trip takes on the screen.

const SHAPES = {
  circle: "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
  ring: "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
  diamond: "M0 -6l6 6l-6 6l-6 -6z",
  square: "M-4.6 -4.6h9.2v9.2h-9.2z",
};

// So many times slower than it was.
export function slowedBy(world) {
  const longest = Math.max(0.2, ...world.links.map((link) => link.rtt_ms ?? 0));
  return Math.max(1, (1000 * FARTHEST_S) / longest);
}

// Where a message is at a time: out, then back. Null: not on its way.
function along(message, at, oneWay) {
  if (message.kind === "commit") {
    const share = (at - message.sent_ms) / oneWay;
    return share >= 0 && share <= 1 ? { share, back: false } : null;
  }
  const heard = message.heard_ms ?? message.sent_ms + 2 * oneWay;
  const half = (message.sent_ms + heard) / 2;
  if (at < message.sent_ms || at > heard) return null;
  if (at <= half) return { share: (at - message.sent_ms) / Math.max(half - message.sent_ms, 1e-6), back: false };
  if (message.heard_ms === null) return null;
  return { share: 1 - (at - half) / Math.max(heard - half, 1e-6), back: true };
}

export function Dots({ world, take, still }) {
  const group = useRef(null);
  const latest = useRef(world);
  latest.current = world;
  useEffect(() => {
    if (still) return undefined;
    const moving = [];
    const lines = new Map();
    let shown = "";
    let frame = null;

    function line(from, to) {
      const members = latest.current.members;
      const now = members.map((member) => `${member.id} ${member.place?.longitude}`).join();
      if (now !== shown) lines.clear();
      shown = now;
      const pair = `${from} ${to}`;
      if (!lines.has(pair)) {
        const at = positions(members);
        lines.set(pair, at.has(from) && at.has(to) ? measured(arc(at.get(from), at.get(to))) : null);
      }
      return lines.get(pair);
    }

    function dot(message) {
      const element = document.createElementNS(SVG, "path");
      element.setAttribute("d", SHAPES[MESSAGES[message.kind].shape]);
      return element;
    }

    function begin(sample) {
      if (moving.length >= MOST_SAMPLES || sample.messages.length === 0) return;
      const trips = new Map(latest.current.links.flatMap(({ a, b, rtt_ms: rtt }) => [[`${a} ${b}`, rtt], [`${b} ${a}`, rtt]]));
      const dots = sample.messages.map((message) => ({
        message,
        element: dot(message),
        oneWay: Math.max(0.1, (trips.get(`${sample.home} ${message.to}`) ?? 1) / 2),
      }));
      const last = Math.max(lasts(sample), ...dots.map(({ message, oneWay }) => message.sent_ms + oneWay));
      moving.push({ sample, dots, last, since: performance.now() });
      frame ??= requestAnimationFrame(draw);
    }

    function draw(now) {
      frame = null;
      const slower = slowedBy(latest.current);
      for (const each of [...moving]) {
        const at = (now - each.since) / slower;
        for (const { message, element, oneWay } of each.dots) {
          const place = along(message, at, oneWay);
          const way = place && line(each.sample.home, message.to);
          if (!way) {
            element.remove();
            continue;
          }
          const { x, y } = way(place.share);
          element.setAttribute("class", `dot ${message.kind} ${each.sample.path} ${place.back ? "back" : "out"}`);
          element.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
          if (!element.parentNode) group.current?.append(element);
        }
        if (at > each.last) {
          each.dots.forEach(({ element }) => element.remove());
          moving.splice(moving.indexOf(each), 1);
        }
      }
      if (moving.length) frame = requestAnimationFrame(draw);
    }

    const end = take(begin);
    return () => {
      end();
      if (frame !== null) cancelAnimationFrame(frame);
      moving.forEach(({ dots }) => dots.forEach(({ element }) => element.remove()));
    };
  }, [still]);
  return html`<g ref=${group} class="dots"></g>`;
}
