// One actor: where it is at home, where it runs, its state, and its moves as this node saw them.
import { html, useEffect, useState } from "../../lib/html.js";
import { send } from "../../lib/api.js";
import { useJson } from "../../lib/live.js";
import { ago, bytes, count, duration, time } from "../../lib/format.js";
import { Badge, Busy, Button, Confirm, ErrorNotice, Field, Notice, Page, Section, Stats, useStyles } from "../../lib/ui.js";
import { actorQuery, generationText, STATES } from "./address.js";
import { consoleOf } from "./places.js";

const EVERY_MS = 1000;
const RARELY_MS = 10000;
const DESTROYING = "Destroying it";

const MOVES = {
  home: ({ epoch }, here) => (epoch === 0 ? `was made, with ${here} as its home` : `${here} became its home, the ${epoch + 1}th`),
  started: ({ worker, generation }) => `was given to worker ${worker}: ${generationText(generation)}`,
  asleep: ({ worker }) => `went to sleep on ${worker}`,
  failed: ({ worker }) => `failed on ${worker}: its code raised, and it is started again`,
  ended: ({ worker }) => `was ended by ${worker}, so that it can go on elsewhere or not at all`,
  left: (_, here) => `left ${here} for another datacenter`,
  destroyed: () => "was destroyed",
};

const apart = (gapMs) => (gapMs < 100 ? "at once" : `${duration(gapMs / 1000)} later`);

function Moves({ record }) {
  const { moves, seen_by: here } = record;
  if (moves.length === 0) return html`<p class="muted">This process of ${here} saw none of its moves: they were before it started, or in another datacenter.</p>`;
  return html`<ol class="actors-moves">
      ${moves.map((move, n) => html`<li key=${n} class=${move.kind}>
        <div>${MOVES[move.kind](move, here)}</div>
        <span class="hint">${time(move.at_ms / 1000)}${n ? `, ${apart(move.at_ms - moves[n - 1].at_ms)}` : ""}</span>
      </li>`)}
    </ol>
    <p class="muted">What this process of ${here} saw since it started, at most 16: memory, not a record.</p>`;
}

function Facts({ record }) {
  const { actor } = record;
  const state = STATES[actor.state];
  return html`<p><${Badge} kind=${state.kind}>${actor.state}<//> ${state.words}${record.since_ms && actor.state === "running" ? `, for ${duration((Date.now() - record.since_ms) / 1000)} now` : ""}.</p>
    <${Stats} items=${[
      { label: "Home", value: actor.datacenter, hint: actor.epoch ? `the ${actor.epoch + 1}th; made in ${record.first_home}` : "where it was made" },
      { label: "Worker", value: actor.envoy ?? "none", hint: `of pool ${actor.pool}` },
      { label: "Generation", value: count(actor.generation % 2 ** 32), hint: "starts in this home; only the newest may save" },
      { label: "State", value: record.state_version === null ? (record.saved ? "not known here" : "none") : `version ${count(record.state_version)}`, hint: record.state_bytes === null ? (record.local ? "stays in its home" : "") : `${bytes(record.state_bytes)}${record.local ? ", stays in its home" : ", replicated"}` },
      { label: "Alarm", value: record.alarm_ms ? time(record.alarm_ms / 1000) : "none", hint: record.alarm_ms ? "when it is woken" : "" },
      { label: "Failures", value: count(record.failures), hint: record.failures ? "of its code, in a row" : "none in a row" },
      { label: "Made", value: ago(actor.create_ts / 1000), hint: time(actor.create_ts / 1000) },
    ]} />
    <p class="hint">id <code class="actors-id">${actor.id}</code></p>`;
}

function Orders({ record, places, rights, onDone }) {
  const { actor } = record;
  const others = places.filter((place) => place.datacenter !== actor.datacenter && place.pools.some((each) => each.namespace === actor.namespace && each.pool === actor.pool));
  const [to, setTo] = useState("");
  const [asked, setAsked] = useState(null);
  const [state, setState] = useState({ busy: null, error: null, done: null });
  const target = to || others[0]?.datacenter || "";
  const order = async (what, words, method, path) => {
    setState({ busy: what, error: null, done: null });
    try {
      await send(method, path);
      setState({ busy: null, error: null, done: words });
      onDone(what);
    } catch (error) {
      setState({ busy: null, error, done: null });
    }
  };
  const decided = (confirmed) => {
    const what = asked;
    setAsked(null);
    if (!confirmed) return;
    if (what === "move") order("Moving it", `It is in ${target} now.`, "POST", `/v2/actors/move?${actorQuery(actor)}&to=${encodeURIComponent(target)}`);
    else order(DESTROYING, "It was destroyed.", "DELETE", `/v2/actors?id=${actor.id}`);
  };
  return html`<div aria-live="polite">
      <${ErrorNotice} error=${state.error} />
      ${state.done ? html`<${Notice} kind="good">${state.done}<//>` : null}
      ${state.busy ? html`<${Busy} what=${state.busy} />` : null}
    </div>
    ${rights.operates && others.length
      ? html`<div class="actors-form">
          <${Field} id="actor-to" label="Another datacenter with workers of its pool">
            <select id="actor-to" value=${target} onChange=${(event) => setTo(event.target.value)}>
              ${others.map(({ datacenter }) => html`<option key=${datacenter} value=${datacenter}>${datacenter}</option>`)}
            </select>
          <//>
          <${Button} disabled=${state.busy !== null} onClick=${() => setAsked("move")}>Move it there…<//>
        </div>`
      : html`<p class="muted">${rights.operates ? `No other datacenter has workers of pool ${actor.pool}, so it cannot move.` : "To move it takes the role operator."}</p>`}
    ${rights.calls ? html`<${Button} kind="danger" disabled=${state.busy !== null || actor.state === "destroyed"} onClick=${() => setAsked("destroy")}>Destroy it…<//>` : null}
    <${Confirm} open=${asked === "move"} kind="primary" title=${`Move ${actor.name}/${actor.key} to ${target}?`} action=${`Move it to ${target}`} onClose=${decided}>
      <p>It is stopped in ${actor.datacenter} and started in ${target}, with its state. Requests that come meanwhile wait; WebSockets are closed, and their clients connect again.</p>
    <//>
    <${Confirm} open=${asked === "destroy"} title=${`Destroy ${actor.name}/${actor.key}?`} action="Destroy it for ever" onClose=${decided}>
      <p>It ends, and its state is deleted. This cannot be undone. The name may be given to a new actor.</p>
    <//>`;
}

export function ActorPage({ which, rights, pools, peers }) {
  useStyles("pages/actors.css");
  const [missing, setMissing] = useState(false);
  const [destroyed, setDestroyed] = useState(false);
  const { data, error, again } = useJson(destroyed ? null : `/v2/actors/record?${actorQuery(which)}`, missing ? RARELY_MS : EVERY_MS);
  useEffect(() => setMissing(error?.status === 404), [error]);
  const elsewhere = data && !data.here ? consoleOf(data.actor.datacenter, peers) : null;
  const gone = missing || destroyed;
  const done = (what) => (what === DESTROYING ? setDestroyed(true) : again());
  return html`<${Page} title=${`${which.name}/${which.key}`} lead=${html`An actor: a name with an owner, which runs in one place at a time. <a href="#/actors">All actors of this datacenter</a>`}>
    ${gone ? html`<${Notice} kind=${destroyed ? "good" : "warn"}>${destroyed ? "It was destroyed. The name may be given to a new actor." : "There is no actor of this name."}<//>` : html`<${ErrorNotice} error=${error} />`}
    ${data && !data.here && !gone
      ? html`<${Notice}>It is at home in ${data.actor.datacenter}, and this node is in ${data.seen_by}. ${elsewhere ? html`<a href=${`${elsewhere}${location.hash}`}>See it there</a>, with its moves.` : "Its moves are seen there."}<//>`
      : null}
    ${data && !gone
      ? html`<${Section} title="Now"><${Facts} record=${data} /><//>
          <${Section} title="Its moves"><${Moves} record=${data} /><//>
          <${Section} title="Orders"><${Orders} record=${data} places=${pools?.datacenters ?? []} rights=${rights} onDone=${done} /><//>`
      : error || gone
        ? null
        : html`<${Busy} what="Asking its home" />`}
  <//>`;
}
