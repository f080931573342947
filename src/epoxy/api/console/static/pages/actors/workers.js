// The workers of one pool: their parts of the ring, their load, and the order to drain one.
import { html, useState } from "../../lib/html.js";
import { send } from "../../lib/api.js";
import { ago, count, share } from "../../lib/format.js";
import { Badge, Button, Confirm, ErrorNotice, Table } from "../../lib/ui.js";

const TONES = 8;
const [MIDDLE, RADIUS, WIDTH] = [120, 92, 26];

const tone = (place) => `actors-${place % TONES}`;

// New actors go to workers of the highest version alone: those are on the ring.
export function isOnRing(worker, workers) {
  const highest = Math.max(...workers.filter((each) => each.places > 0).map((each) => each.version));
  return worker.places > 0 && worker.version === highest;
}

// Arcs of the ring, {from, to, number}: a place ends the part of the ring that is its worker's. Neighbours of one worker are one arc.
export function arcsOf(workers) {
  const placed = workers.map((worker) => (isOnRing(worker, workers) ? (worker.ring ?? []) : []));
  const places = placed.flatMap((ring, number) => ring.map((at) => ({ at, number }))).sort((a, b) => a.at - b.at);
  if (places.length === 0) return [];
  const arcs = [];
  places.forEach(({ at, number }, n) => {
    const from = n === 0 ? places.at(-1).at - 1 : places[n - 1].at;
    if (arcs.at(-1)?.number === number) arcs.at(-1).to = at;
    else arcs.push({ from, to: at, number });
  });
  return arcs;
}

export function partsOf(workers) {
  const parts = workers.map(() => 0);
  for (const { from, to, number } of arcsOf(workers)) parts[number] += to - from;
  return parts;
}

function pathOf({ from, to }) {
  const point = (turn) => [MIDDLE + RADIUS * Math.sin(2 * Math.PI * turn), MIDDLE - RADIUS * Math.cos(2 * Math.PI * turn)];
  const end = to - from >= 1 ? from + 0.9999 : to;
  const [[x1, y1], [x2, y2]] = [point(from), point(end)];
  return `M ${x1.toFixed(2)} ${y1.toFixed(2)} A ${RADIUS} ${RADIUS} 0 ${end - from > 0.5 ? 1 : 0} 1 ${x2.toFixed(2)} ${y2.toFixed(2)}`;
}

function Ring({ workers }) {
  const actors = workers.reduce((sum, worker) => sum + worker.slots, 0);
  const words = `Ring of ${workers.length} workers with ${actors} actors. The table beside it has each worker's part.`;
  return html`<svg viewBox="0 0 240 240" role="img" aria-label=${words}>
    <circle class="base" cx=${MIDDLE} cy=${MIDDLE} r=${RADIUS} stroke-width=${WIDTH} />
    ${arcsOf(workers).map((arc) => html`<path key=${arc.from} class=${tone(arc.number)} d=${pathOf(arc)} fill="none" stroke-width=${WIDTH}><title>${workers[arc.number].key}</title></path>`)}
    <text class="big" x=${MIDDLE} y=${MIDDLE + 2}>${count(actors)}</text>
    <text class="small" x=${MIDDLE} y=${MIDDLE + 22}>${actors === 1 ? "actor" : "actors"} on ${count(workers.length)} ${workers.length === 1 ? "worker" : "workers"}</text>
  </svg>`;
}

function Load({ worker, most }) {
  const whole = worker.capacity || Math.max(1, most);
  return html`<span class="actors-load">
    <span>${count(worker.slots)}${worker.capacity ? ` of ${count(worker.capacity)}` : ", no limit"}</span>
    <span aria-hidden="true"><span style=${{ width: `${Math.min(100, (100 * worker.slots) / whole)}%` }}></span></span>
  </span>`;
}

function State({ worker }) {
  if (worker.draining) return html`<${Badge} kind="warn">draining<//>`;
  return worker.connected ? html`<${Badge} kind="good">connected<//>` : html`<${Badge} kind="bad">not connected<//>`;
}

export function Workers({ workers, onChange }) {
  const [asked, setAsked] = useState(null);
  const [error, setError] = useState(null);
  const most = Math.max(0, ...workers.map((worker) => worker.slots));
  const parts = partsOf(workers);
  const order = async (worker, undo) => {
    setError(null);
    try {
      await send("POST", `/v2/envoys/drain?namespace=${encodeURIComponent(worker.namespace)}&envoy=${encodeURIComponent(worker.key)}&undo=${undo}`);
    } catch (failed) {
      setError(failed);
    }
    onChange();
  };
  const decided = (confirmed) => {
    const worker = asked;
    setAsked(null);
    if (confirmed) order(worker, false);
  };
  const columns = [
    { key: "key", title: "Worker", cell: ({ worker, number }) => html`<span class="actors-worker"><span class=${`actors-tone ${isOnRing(worker, workers) ? tone(number) : ""}`} aria-hidden="true"></span><span class="actors-name">${worker.key}</span></span>` },
    { key: "load", title: "Actors", cell: ({ worker }) => html`<${Load} worker=${worker} most=${most} />` },
    { key: "part", title: "Of the ring", number: true, cell: ({ worker, number }) => (isOnRing(worker, workers) ? share(parts[number]) : worker.places ? "none: old version" : "none") },
    { key: "state", title: "State", cell: ({ worker }) => html`<${State} worker=${worker} />` },
    { key: "ping", title: "Last heard", cell: ({ worker }) => `${ago(worker.last_ping_ts / 1000)}` },
    { key: "version", title: "Version", number: true, cell: ({ worker }) => worker.version },
    {
      key: "act", title: "Act",
      cell: ({ worker }) => (worker.draining
        ? html`<${Button} onClick=${() => order(worker, true)} aria-label=${`Stop draining ${worker.key}`}>Stop draining<//>`
        : html`<${Button} onClick=${() => setAsked(worker)} aria-label=${`Drain ${worker.key}`}>Drain…<//>`),
    },
  ];
  return html`<${ErrorNotice} error=${error} />
    <p class="muted">A new actor goes to the worker in whose part of the ring a random point falls; of several points, to the worker with the fewest actors.</p>
    <div class="actors-ring">
      <${Ring} workers=${workers} />
      <${Table}
        caption="Workers of the pool"
        columns=${columns}
        rows=${workers.map((worker, number) => ({ id: worker.key, worker, number }))}
        empty="No worker of this pool is connected to this datacenter."
      />
    </div>
    <${Confirm} open=${asked !== null} title=${`Drain ${asked?.key ?? ""}?`} action="Drain it" onClose=${decided}>
      <p>It gets no new actors, and its ${count(asked?.slots ?? 0)} move to other workers of the pool, one after the other. Requests that come meanwhile wait. You can stop the draining.</p>
    <//>`;
}
