// The cluster on a map: who is there, how far apart, how fast commits are against what distance allows, and how many more
// datacenters may fail. The tables below say the same in words.
import { html, useState } from "../lib/html.js";
import { count, ms, rate, share } from "../lib/format.js";
import { useJson } from "../lib/live.js";
import { Badge, Busy, ErrorNotice, Page, Section, Stats, Table, useStyles } from "../lib/ui.js";
import { WorldMap, useCompact } from "./world/map.js";
import { Trend, useHistory } from "./world/trend.js";
import { explained, mayFail, mayFailKind, mayFailShort } from "./world/words.js";

const EVERY_MS = 1000;
const LINES = 9; // Styles of lines: as many as regions of the largest demo.

const SHIELD = {
  good: html`<path d="M12 2l8 3v6c0 5-3.4 9.3-8 11-4.6-1.7-8-6-8-11V5z" /><path class="inner" d="M8 12l3 3 5-6" />`,
  warn: html`<path d="M12 3l10 18H2z" /><path class="inner" d="M12 9v6M12 17.6v.4" />`,
  bad: html`<path d="M8 2h8l6 6v8l-6 6H8l-6-6V8z" /><path class="inner" d="M8.5 8.5l7 7M15.5 8.5l-7 7" />`,
};

function Verdict({ world }) {
  const kind = mayFailKind(world.tolerated_failures);
  return html`<div class=${`verdict ${kind}`} role="status">
    <svg viewBox="0 0 24 24" width="44" height="44" aria-hidden="true">${SHIELD[kind]}</svg>
    <div>
      <p class="verdict-words">${mayFail(world.tolerated_failures)}.</p>
      <p>${explained(world)}</p>
    </div>
  </div>`;
}

function summary(world) {
  const heard = world.members.filter((member) => member.reachable && !member.old).map((member) => member.figures);
  const commits = heard.reduce((sum, each) => sum + (each.commits_per_s ?? 0), 0);
  const told = heard.filter((each) => each.fast_share !== null && each.measured > 0);
  const measured = told.reduce((sum, each) => sum + each.measured, 0);
  const fast = measured ? told.reduce((sum, each) => sum + each.fast_share * each.measured, 0) / measured : null;
  const floors = heard.map((each) => each.floor_ms).filter((floor) => floor !== null);
  const reach = world.members.filter((member) => member.reachable).length;
  return [
    { label: "Datacenters within reach", value: `${reach} of ${world.members.length}` },
    { label: "Commits, all together", value: rate(commits) },
    { label: "In one round trip", value: fast === null ? "none yet" : share(fast) },
    { label: "Lowest floor", value: floors.length ? ms(Math.min(...floors)) : "not known" },
  ];
}

// Floor, p50 and p99 on one scale for all rows.
function AgainstFloor({ figures, most }) {
  const x = (value) => 4 + (value / most) * 152;
  const { floor_ms: floor, p50_ms: p50, p99_ms: p99 } = figures;
  return html`<svg class="against" viewBox="0 0 160 22" width="160" height="22" aria-hidden="true">
    <path class="against-track" d="M4 11H156" />
    ${p99 !== null && floor !== null ? html`<path class="against-span" d=${`M${x(Math.min(floor, p50))} 11H${x(p99)}`} />` : null}
    ${floor !== null ? html`<path class="against-floor" d=${`M${x(floor)} 2V20`} />` : null}
    ${p99 !== null ? html`<path class="against-p99" d=${`M${x(p99)} 5l5 6l-5 6l-5 -6z`} />` : null}
    ${p50 !== null ? html`<circle class="against-p50" cx=${x(p50)} cy="11" r="4.5" />` : null}
  </svg>`;
}

function state(member) {
  if (!member.reachable) return html`<${Badge} kind="bad">✕ not reachable<//>`;
  if (member.age_s === null) return html`<${Badge}>… asking<//>`;
  if (member.old) return html`<${Badge} kind="warn">△ no news for ${Math.round(member.age_s)} s<//>`;
  if (member.status !== "active" || member.figures.reason) return html`<${Badge} kind="warn">◌ ${member.status}<//>`;
  return html`<${Badge} kind="good">● serves clients<//>`;
}

// How many times the floor. Commits of a minute ago may have had a lower one: nothing is said of them then.
function times(value, floor) {
  return value !== null && floor && value >= floor ? html`<span class="hint">${(value / floor).toFixed(2)}× floor</span>` : null;
}

function why(row) {
  return row.state === "serves clients" ? null : html`<span class="hint world-why">${row.state}</span>`;
}

function Members({ world }) {
  const compact = useCompact();
  const shown = world.members.map((member) => member.figures);
  const most = 1.08 * Math.max(1, ...shown.flatMap((each) => [each.floor_ms ?? 0, each.p99_ms ?? 0]));
  const columns = [
    {
      key: "datacenter",
      title: "Datacenter",
      cell: (row) => html`<span class="world-name">${row.datacenter || `replica ${row.id}`}</span>
        <span class="hint">${[row.place?.city, row.id === world.id ? "this node" : null].filter(Boolean).join(" · ")}</span>
        ${compact ? html`${state(row)}${why(row)}` : null}`,
    },
    ...(compact ? [] : [{ key: "state", title: "State", cell: (row) => html`${state(row)}${why(row)}` }]),
    { key: "floor", title: "Floor", number: true, cell: (row) => ms(row.figures.floor_ms) },
    { key: "p50", title: "p50", number: true, cell: (row) => html`${row.figures.p50_ms === null ? "–" : ms(row.figures.p50_ms)}${times(row.figures.p50_ms, row.figures.floor_ms)}` },
    { key: "p99", title: "p99", number: true, cell: (row) => html`${row.figures.p99_ms === null ? "–" : ms(row.figures.p99_ms)}${times(row.figures.p99_ms, row.figures.floor_ms)}` },
    ...(compact ? [] : [{ key: "against", title: "Against the floor", cell: (row) => html`<${AgainstFloor} figures=${row.figures} most=${most} />` }]),
    { key: "commits", title: "Commits", number: true, cell: (row) => rate(row.figures.commits_per_s) },
    { key: "fast", title: "In one round trip", number: true, cell: (row) => (row.figures.fast_share === null ? "–" : share(row.figures.fast_share)) },
    { key: "sync", title: "Longest sync", number: true, cell: (row) => ms(row.figures.longest_sync_ms) },
    { key: "fail", title: "May fail", number: true, cell: (row) => (row.age_s === null ? "–" : mayFailShort(row.figures.tolerated_failures)) },
  ];
  const rows = world.members.map((member) => ({ ...member, className: member.reachable ? "" : "world-gone" }));
  const { window_s: seconds } = world.members.find((member) => member.id === world.id).figures;
  return html`<${Section} title="Datacenters" class="world-table">
    <${Table} caption="Each datacenter, and its commits against its floor" columns=${columns} rows=${rows} />
    <ul class="world-legend">
      <li><svg viewBox="0 0 12 22" width="9" height="16" aria-hidden="true"><path class="against-floor" d="M6 2V20" /></svg> floor: the round trip to the nearest ${world.fast_quorum} of ${world.replicas}, itself included; no fresh key commits sooner</li>
      <li><svg viewBox="0 0 12 12" width="11" height="11" aria-hidden="true"><circle class="against-p50" cx="6" cy="6" r="5" /></svg> p50: half of the commits of the last ${count(Math.max(1, seconds))} s took no longer</li>
      <li><svg viewBox="0 0 12 14" width="11" height="13" aria-hidden="true"><path class="against-p99" d="M6 1l5 6l-5 6l-5 -6z" /></svg> p99: 99 of 100 took no longer; measured while this page is open</li>
    </ul>
  <//>`;
}

function RoundTrips({ world }) {
  const of = new Map(world.links.flatMap((link) => [[`${link.a} ${link.b}`, link], [`${link.b} ${link.a}`, link]]));
  const name = (member) => member.datacenter || `replica ${member.id}`;
  const most = Math.max(1, ...world.links.map((link) => link.rtt_ms ?? 0));
  const cell = (row, column) => {
    if (row.id === column.id) return html`<span class="muted">–</span>`;
    const link = of.get(`${row.id} ${column.id}`);
    if (!link) return html`<span class="muted">not known</span>`;
    if (!link.reachable) return html`<span class="world-cut">✕ no way</span>`;
    const style = { "--far": `${Math.round((70 * (link.rtt_ms ?? 0)) / most)}%` };
    return html`<span class="world-trip" style=${style}>${ms(link.rtt_ms)}</span>`;
  };
  const columns = [
    { key: "from", title: "Between", cell: name },
    ...world.members.map((member) => ({ key: `to ${member.id}`, title: name(member), number: true, cell: (row) => cell(row, member) })),
  ];
  return html`<${Section} title="Round trips" class="world-trips"><${Table} caption="Measured round trips between datacenters" columns=${columns} rows=${world.members} /><//>`;
}

function Trends({ world, history }) {
  const style = (n) => `line-${n % LINES}`;
  const name = (member) => member.datacenter || `replica ${member.id}`;
  const commits = world.members.map((member, n) => ({ name: name(member), className: style(n), of: (entry) => entry.figures.get(member.id)?.commits_per_s }));
  const p50 = world.members.map((member, n) => ({ name: name(member), className: style(n), of: (entry) => entry.figures.get(member.id)?.p50_ms }));
  const now = (words, value) => `${words}: ${world.members.map((member) => `${name(member)} ${value(member.figures)}`).join(", ")}`;
  return html`<${Section} title="The last minutes" class="world-trends">
    <div class="trends">
      <${Trend} title="Commits" unit="a second" history=${history} series=${commits} words=${now("Commits a second", (figures) => rate(figures.commits_per_s))} />
      <${Trend} title="Half of the commits took at most" unit="ms (p50)" history=${history} series=${p50} words=${now("p50", (figures) => (figures.p50_ms === null ? "none" : ms(figures.p50_ms)))} />
    </div>
  <//>`;
}

function brief(value) {
  return value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString("en");
}

function detail(member) {
  if (!member.reachable) return ["✕ not reachable"];
  const { floor_ms: floor, p50_ms: p50, commits_per_s: commits } = member.figures;
  if (member.age_s === null) return ["asking"];
  if (floor === null) return ["no quorum within reach"];
  const told = p50 === null ? `floor ${brief(floor)} ms` : `p50 ${brief(p50)} · floor ${brief(floor)} ms`;
  return commits > 0 ? [told, `${rate(commits)} commits`] : [told];
}

export default function WorldPage() {
  useStyles("pages/world.css");
  const { data: world, error } = useJson("/v2/world", EVERY_MS);
  const history = useHistory(world);
  const [focus, setFocus] = useState(null);
  return html`<${Page} title="World" lead="Every datacenter writes, without a leader. A fresh key commits in one round trip to the nearest majority: that is its floor, and the rest is ours to answer for.">
    ${error && error.status !== 0 && error.status !== 401 ? html`<${ErrorNotice} error=${error} />` : null}
    ${world === null
      ? error ? null : html`<${Busy} what="Asking the datacenters" />`
      : html`
          <${Verdict} world=${world} />
          <section class="world-picture" aria-label="Map">
            <${WorldMap} world=${world} focus=${focus} onFocus=${setFocus} detail=${detail} />
            <${Stats} items=${summary(world)} />
          </section>
          <${Members} world=${world} />
          <${Trends} world=${world} history=${history} />
          <${RoundTrips} world=${world} />
        `}
  <//>`;
}
