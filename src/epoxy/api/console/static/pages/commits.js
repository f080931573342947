// Some of this node's writes on their way: dots along the arcs, and the timeline of each against the floor.
import { html, useCallback, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { keyHref, keyText, ms } from "../lib/format.js";
import { useEvents, useJson } from "../lib/live.js";
import { Badge, Busy, Button, ErrorNotice, Page, Section, Table, useStyles } from "../lib/ui.js";
import { WorldMap } from "./world/map.js";
import { Dots, slowedBy } from "./commits/dots.js";
import { KINDS, kindOf, steps } from "./commits/story.js";
import { MiniTimeline, Timeline } from "./commits/timeline.js";

const KEPT = 50;
const SHOW_EVERY_MS = 250; // Four times a second is as often as a list can be read.
const READ_MS = 1500; // How long the timeline of the newest write stays.
const STREAM = "/v2/commits/samples";
const STATES = { connecting: "Connecting to this node…", open: "Live.", closed: "The stream ended. It is opened again by itself.", refused: "Not shown to you here." };
const REFUSED = "Writes are shown to a token that reads keys, at the node's address for clients.";

function useStill() {
  const [query] = useState(() => matchMedia("(prefers-reduced-motion: reduce)"));
  const [still, setStill] = useState(query.matches);
  useEffect(() => {
    const changed = () => setStill(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, [query]);
  return still;
}

// The last samples, newest first, and `take(listener)` for what draws each at once.
function useSamples(paused, wanted) {
  const [shown, setShown] = useState([]);
  const kept = useRef([]);
  const number = useRef(0);
  const listeners = useRef(new Set());
  const due = useRef(null);
  const state = useEvents(paused ? null : STREAM, ({ data }) => {
    const sample = { ...JSON.parse(data), id: (number.current += 1) };
    kept.current = [sample, ...kept.current].slice(0, KEPT);
    if (wanted === "all" || kindOf(sample) === wanted) listeners.current.forEach((listener) => listener(sample));
    due.current ??= setTimeout(() => {
      due.current = null;
      setShown(kept.current);
    }, SHOW_EVERY_MS);
  });
  useEffect(() => () => clearTimeout(due.current), []);
  const take = useCallback((listener) => {
    listeners.current.add(listener);
    return () => listeners.current.delete(listener);
  }, []);
  return { samples: shown, take, state: paused ? "paused" : state };
}

// The newest sample, for long enough to be read.
function useHeld(newest) {
  const held = useRef({ sample: null, since: 0 });
  const now = performance.now();
  if (newest === null || held.current.sample === null || now - held.current.since > READ_MS) held.current = { sample: newest, since: now };
  return held.current.sample;
}

function KindBadge({ sample }) {
  const kind = KINDS[kindOf(sample)];
  return html`<${Badge} kind=${kind.badge}>${kind.mark} ${kind.title}<//>`;
}

function Legend() {
  return html`<ul class="commit-legend">
    <li><svg viewBox="-8 -8 16 16" width="16" height="16" aria-hidden="true"><path class="dot vote fast out" d="M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z" /></svg> a vote is asked for</li>
    <li><svg viewBox="-8 -8 16 16" width="16" height="16" aria-hidden="true"><path class="dot vote fast back" d="M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z" /></svg> and comes back</li>
    <li><svg viewBox="-8 -8 16 16" width="16" height="16" aria-hidden="true"><path class="dot promise slow back" d="M0 -6l6 6l-6 6l-6 -6z" /></svg> a promise, before a slow round</li>
    <li><svg viewBox="-8 -8 16 16" width="16" height="16" aria-hidden="true"><path class="dot carry out" d="M-4.6 -4.6h9.2v9.2h-9.2z" /></svg> the write is handed over</li>
    <li><svg viewBox="-8 -8 16 16" width="16" height="16" aria-hidden="true"><path class="dot commit out" d="M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z" /></svg> the commit is told</li>
  </ul>`;
}

function Story({ sample, name }) {
  const kind = KINDS[kindOf(sample)];
  const over = sample.floor_ms ? `, ${(sample.answered_ms / sample.floor_ms).toFixed(2)} times its floor of ${ms(sample.floor_ms)}` : "";
  const together = sample.writes > 1 ? ` It was decided together with ${sample.writes - 1} other${sample.writes > 2 ? "s" : ""}.` : "";
  return html`<div class="story">
    <p><${KindBadge} sample=${sample} /> <a class="mono" href=${keyHref(sample.key)}>${keyText(sample.key)}</a> was answered after <strong>${ms(sample.answered_ms)}</strong>${over}: ${kind.words}${sample.carried_to !== null ? ` (${name(sample.carried_to)})` : ""}.${together}</p>
    <${Timeline} sample=${sample} name=${name} />
    <details>
      <summary>Step by step</summary>
      <ol class="steps">${steps(sample, name).map((step, n) => html`<li key=${n}><span class="steps-at">${ms(step.at)}</span> ${step.words}</li>`)}</ol>
    </details>
  </div>`;
}

function filtered(samples, wanted) {
  return wanted === "all" ? samples : samples.filter((sample) => kindOf(sample) === wanted);
}

function detail(member) {
  return member.reachable ? [] : ["✕ not reachable"];
}

export default function CommitsPage() {
  useStyles("pages/world.css");
  useStyles("pages/commits.css");
  const still = useStill();
  const [paused, setPaused] = useState(false);
  const [wanted, setWanted] = useState("all");
  const [picked, setPicked] = useState(null);
  const [focus, setFocus] = useState(null);
  const { data: world, error } = useJson("/v2/world", paused ? 0 : 1000);
  const { samples, take, state } = useSamples(paused, wanted);
  const names = useMemo(() => new Map((world?.members ?? []).map((member) => [member.id, member.datacenter || `replica ${member.id}`])), [world]);
  const name = (id) => names.get(id) ?? `replica ${id}`;
  const listed = filtered(samples, wanted);
  const newest = useHeld(listed[0] ?? null);
  const chosen = picked ?? (newest !== null && listed.some(({ id }) => id === newest.id) ? newest : listed[0]) ?? null;
  const most = Math.max(1, ...listed.map((sample) => Math.max(sample.answered_ms, sample.floor_ms ?? 0))) * 1.05;
  const columns = [
    { key: "key", title: "Key", cell: (row) => html`<span class="mono commit-key">${keyText(row.key)}</span>` },
    { key: "path", title: "Path", cell: (row) => html`<${KindBadge} sample=${row} />` },
    { key: "answered", title: "Answered after", number: true, cell: (row) => ms(row.answered_ms) },
    { key: "times", title: "Floors", number: true, cell: (row) => (row.floor_ms ? `${(row.answered_ms / row.floor_ms).toFixed(2)}×` : "–") },
    { key: "mini", title: "Against the floor", cell: (row) => html`<${MiniTimeline} sample=${row} most=${most} />` },
    { key: "writes", title: "Together", number: true, cell: (row) => row.writes },
    {
      key: "show",
      title: "Timeline",
      cell: (row) => html`<${Button} aria-pressed=${chosen?.id === row.id} aria-label=${`Timeline of ${keyText(row.key)}`} onClick=${() => setPicked(picked?.id === row.id ? null : row)}>${picked?.id === row.id ? "Follow the newest" : "Show"}<//>`,
    },
  ];
  return html`<${Page} title="Commits" lead="Some of the writes of this node, while they happen: at most twenty a second, of keys that you may read.">
    <div class="commit-tools">
      <${Button} kind="primary" aria-pressed=${paused} onClick=${() => setPaused(!paused)}>${paused ? "▶ Go on" : "❚❚ Pause"}<//>
      <label for="commit-path">Path</label>
      <select id="commit-path" value=${wanted} onChange=${(event) => { setWanted(event.target.value); setPicked(null); }}>
        <option value="all">all</option>
        ${Object.entries(KINDS).map(([kind, { title, words }]) => html`<option key=${kind} value=${kind}>${title}: ${words}</option>`)}
      </select>
      <p class="muted" role="status">${paused ? "Paused." : STATES[state]}</p>
    </div>
    ${error && error.status !== 0 && error.status !== 401 ? html`<${ErrorNotice} error=${error} />` : null}
    ${world === null
      ? error ? null : html`<${Busy} what="Asking the datacenters" />`
      : html`<section class="world-picture" aria-label="Map">
          <${WorldMap} world=${world} focus=${focus} onFocus=${setFocus} detail=${detail} overlay=${html`<${Dots} world=${world} take=${take} still=${still} />`} />
          <div class="commit-note">
            <${Legend} />
            <p class="hint">${still ? "Your system asks for less motion: nothing moves here, and the timelines below say the same." : `Shown ${Math.round(slowedBy(world)).toLocaleString("en")} times slower than it was.`}</p>
          </div>
        </section>`}
    <${Section} title=${picked ? "Timeline of the chosen write" : "Timeline of the newest write"}>
      ${chosen
        ? html`<${Story} sample=${chosen} name=${name} />`
        : html`<p class="muted">${state === "open" ? "No write was seen yet. This page shows writes that clients send to this node." : state === "refused" ? REFUSED : "Waiting for the node."}</p>`}
    <//>
    <${Section} title="The last writes" class="commit-list">
      <${Table} caption="The last 50 sampled writes, newest first" columns=${columns} rows=${listed} empty="None yet." />
    <//>
  <//>`;
}
