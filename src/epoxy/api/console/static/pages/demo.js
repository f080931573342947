// The demo: kill, pause and cut regions, slow links, and race two of them for one name.
import { html, useState } from "../lib/html.js";
import { ms } from "../lib/format.js";
import { Badge, Busy, Button, Card, Confirm, ErrorNotice, Field, Notice, Page, Section, Table, useStyles } from "../lib/ui.js";
import { useDemo } from "./demo/panel.js";
import { linkState, Picture } from "./demo/picture.js";
import { Race } from "./demo/race.js";

const KINDS = { up: "good", down: "bad", paused: "warn", "cut off": "warn" };
const SLOWER_MS = [100, 300, 1000];

// By "a,b": what the two ends measured, the shorter one.
function measuredTrips(measured) {
  const trips = new Map();
  for (const { from, to, rtt_ms: trip } of measured ?? []) {
    if (trip === null) continue;
    for (const link of [`${from},${to}`, `${to},${from}`]) trips.set(link, Math.min(trip, trips.get(link) ?? Infinity));
  }
  return trips;
}

// Of a region that has several: each is killed and revived by itself.
function Nodes({ region, busy, give }) {
  const name = region.region;
  return html`<ul class="demo-nodes">${region.nodes.map((node) => {
    const isRunning = node.condition !== "down";
    const [verb, words, label] = node.condition === "paused" ? ["resume", "resuming", "Resume"] : isRunning ? ["kill", "killing", "Kill"] : ["revive", "starting", "Revive"];
    return html`<li key=${node.node}>
      <${Badge} kind=${KINDS[node.condition] ?? "info"}>${node.condition}<//>
      <span>node ${node.node}${node.gateway ? ", gateway" : ""}${node.shards === null ? "" : `: ${node.shards} shards`}</span>
      ${isRunning ? html`<span class="muted">process ${node.pid}, <a href=${`${node.http}/ui#/world`}>its console</a></span>` : null}
      <${Button} kind=${verb === "kill" ? "quiet" : "primary"} disabled=${Boolean(busy)} onClick=${() => give({ verb, region: name, node: String(node.node) }, `${words} node ${node.node} of ${name}`)} aria-label=${`${label} node ${node.node} of ${name}`}>${label}<//>
    </li>`;
  })}</ul>`;
}

function Region({ region, links, busy, give, onRemove }) {
  const name = region.region;
  const order = (verb, words) => () => give({ verb, region: name }, `${words} ${name}`);
  const isRunning = region.condition !== "down";
  const isPaused = region.condition === "paused";
  const isTouched = links.some((link) => link.between.includes(name) && (link.cut || link.added_ms));
  return html`<${Card} title=${name}>
    <p><${Badge} kind=${KINDS[region.condition] ?? "info"}>${region.condition}<//> <span class="muted">${region.nodes.length > 1 ? null : isRunning ? html`process ${region.pid}, <a href=${`${region.http}/ui#/world`}>its console</a>` : "no process"}</span></p>
    ${region.nodes.length > 1 ? html`<${Nodes} region=${region} busy=${busy} give=${give} />` : null}
    <p>A client of it ${region.can}.</p>
    <div class="actions">
      ${isRunning
        ? html`<${Button} kind="danger" disabled=${Boolean(busy)} onClick=${order("kill", "killing")} aria-label=${`Kill ${name}`}>Kill<//>`
        : html`<${Button} kind="primary" disabled=${Boolean(busy)} onClick=${order("revive", "starting")} aria-label=${`Revive ${name}`}>Revive<//>`}
      ${isRunning && !isPaused ? html`<${Button} disabled=${Boolean(busy)} onClick=${order("pause", "pausing")} aria-label=${`Pause ${name}`}>Pause<//>` : null}
      ${isPaused ? html`<${Button} kind="primary" disabled=${Boolean(busy)} onClick=${order("resume", "resuming")} aria-label=${`Resume ${name}`}>Resume<//>` : null}
      ${isRunning ? html`<${Button} disabled=${Boolean(busy)} onClick=${order("cut", "cutting off")} aria-label=${`Cut ${name} off`}>Cut off<//>` : null}
      ${isTouched ? html`<${Button} kind="primary" disabled=${Boolean(busy)} onClick=${order("heal", "healing the links of")} aria-label=${`Heal all links of ${name}`}>Heal<//>` : null}
      <${Button} kind="quiet" disabled=${Boolean(busy)} onClick=${() => onRemove(name)} aria-label=${`Remove ${name}`}>Remove<//>
    </div>
  <//>`;
}

function LinkButtons({ link, busy, give }) {
  const [one, other] = link.between;
  const [more, setMore] = useState(String(SLOWER_MS[1]));
  const order = (verb, words, rest = {}) => () => give({ verb, region: one, others: [other], ...rest }, `${words} ${one} – ${other}`);
  const label = `${one} – ${other}`;
  return html`<div class="demo-link-buttons">
    <select aria-label=${`How much slower: ${label}`} value=${more} onChange=${(event) => setMore(event.target.value)}>
      ${SLOWER_MS.map((each) => html`<option key=${each} value=${each}>+${each} ms</option>`)}
    </select>
    <${Button} disabled=${Boolean(busy)} onClick=${order("slow", "slowing", { added_ms: Number(more) })} aria-label=${`Slow ${label}`}>Slow<//>
    ${link.cut ? null : html`<${Button} disabled=${Boolean(busy)} onClick=${order("cut", "cutting")} aria-label=${`Cut ${label}`}>Cut<//>`}
    ${link.cut || link.added_ms ? html`<${Button} kind="primary" disabled=${Boolean(busy)} onClick=${order("heal", "healing")} aria-label=${`Heal ${label}`}>Heal<//>` : null}
  </div>`;
}

const STATES = { cut: ["bad", "cut"], away: ["warn", "one end is away"], slow: ["warn", "slowed"], whole: ["good", "whole"] };

function Links({ demo, trips, busy, give }) {
  const conditions = new Map(demo.regions.map(({ region, condition }) => [region, condition]));
  const state = (link) => {
    const [kind, words] = STATES[linkState(link, conditions)];
    return html`<${Badge} kind=${kind}>${words}${link.added_ms && !link.cut ? ` by ${link.added_ms} ms` : ""}<//>`;
  };
  return html`<div class="demo-links"><${Table}
    caption="Every link between two regions. What is measured is the shortest of the last seconds, so it follows a change after a while."
    columns=${[
      { key: "between", title: "Link", cell: (link) => link.between.join(" – ") },
      { key: "state", title: "State", cell: state },
      { key: "plan", title: "Emulated round trip", number: true, cell: (link) => (link.rtt_ms ? ms(link.rtt_ms) : "none") },
      { key: "trip", title: "Measured", number: true, cell: (link) => (trips.has(link.between.join()) ? ms(trips.get(link.between.join())) : "not now") },
      { key: "orders", title: "Change it", cell: (link) => html`<${LinkButtons} link=${link} busy=${busy} give=${give} />` },
    ]}
    rows=${demo.links.map((link) => ({ ...link, id: link.between.join() }))}
  /></div>`;
}

function Grow({ names, busy, give }) {
  const [chosen, setChosen] = useState("");
  if (names.length === 0) return html`<p class="muted">All regions with known round trips are members.</p>`;
  const name = names.includes(chosen) ? chosen : names[0];
  const add = (event) => {
    event.preventDefault();
    give({ verb: "add", region: name }, `adding ${name}`);
  };
  return html`<form class="demo-form" onSubmit=${add}>
    <${Field} id="demo-add" label="Another region">
      <select id="demo-add" value=${name} onChange=${(event) => setChosen(event.target.value)}>${names.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select>
    <//>
    <button type="submit" disabled=${Boolean(busy)}>Add it</button>
  </form>`;
}

function Told({ busy, told }) {
  return html`<div class="demo-told" aria-live="polite">
    ${busy
      ? html`<${Notice}>Working: ${busy}…<//>`
      : told
        ? html`<${Notice} kind=${told.done ? "good" : "warn"}>${told.lines.slice(0, 2).map((line) => html`<span key=${line} class="demo-line">${line}</span>`)}<//>`
        : html`<${Notice}>Break something, and see what the others do. Nothing that was acknowledged is lost.<//>`}
  </div>`;
}

export default function DemoPage() {
  useStyles("pages/demo.css");
  const { demo, error, give, busy, told, races } = useDemo();
  const [removing, setRemoving] = useState(null);
  const trips = measuredTrips(demo?.measured);
  const refused = error && (error.status === 401 || error.status === 403);
  return html`<${Page} title="Demo" lead="The regions of this demo are processes on one machine. Kill them, pause them, cut and slow the links between them, and watch what their clients may expect.">
    ${refused ? html`<${Notice} kind="warn">Orders to a demo need an operator's token: the one in console.token of the demo's folder.<//>` : html`<${ErrorNotice} error=${error} />`}
    ${demo
      ? html`<${Told} busy=${busy} told=${told} />
          <div class="demo-split">
            <${Section} title="Regions">
              <div class="cards">${demo.regions.map((region) => html`<${Region} key=${region.region} region=${region} links=${demo.links} busy=${busy} give=${give} onRemove=${setRemoving} />`)}</div>
            <//>
            <${Section} title="Now"><${Picture} demo=${demo} measured=${trips} /><//>
          </div>
          <${Section} title="Race two regions for one name"><${Race} names=${demo.regions.filter((each) => ["up", "cut off"].includes(each.condition)).map((each) => each.region)} races=${races} busy=${busy} give=${give} /><//>
          <${Section} title="Links"><${Links} demo=${demo} trips=${trips} busy=${busy} give=${give} /><//>
          <${Section} title="Grow"><p>A region that is added copies everything and becomes a member while clients write.</p><${Grow} names=${demo.may_add} busy=${busy} give=${give} /><//>
          <${Confirm}
            open=${removing !== null}
            title=${`Remove ${removing} from the cluster?`}
            action=${`Remove ${removing}`}
            onClose=${(confirmed) => {
              if (confirmed) give({ verb: "remove", region: removing }, `removing ${removing}`);
              setRemoving(null);
            }}
          ><p>It is no member any more, and its process ends. It can be added again, with its data.</p><//>`
      : error
        ? null
        : html`<${Busy} what="Asking the demo" />`}
  <//>`;
}
