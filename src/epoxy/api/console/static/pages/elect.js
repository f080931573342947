// Failover of Redis and Valkey servers, as the agents say it that the node's file names.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { count, duration, time } from "../lib/format.js";
import { useJson } from "../lib/live.js";
import { Badge, Busy, ErrorNotice, Notice, Page, Section, Stats, useStyles } from "../lib/ui.js";
import { clustersOf, dataOf, serverState, stateOf, voteOf } from "./elect/words.js";

const EVERY_MS = 1000;
const MOST_NOTES = 50;

const HOW = `[console]
elect = ["10.0.0.1:26379", "10.0.0.2:26379", "10.0.0.3:26379"]`;

function NoAgents() {
  return html`<${Section} title="No agents are named in this node's file">
    <p><code>epoxy elect</code> keeps one server of a group of Redis or Valkey servers writable, and promotes another when it fails. Its agents are processes of their own. To see them here, name their ports for clients in the file of this node, and start it again:</p>
    <pre tabindex="0"><code>${HOW}</code></pre>
    <p class="muted">The node asks these addresses alone, and only while this page is looked at. docs/operating-elect.md says how agents are set up.</p>
  <//>`;
}

// What changed while the page was open.
function useNotes(clusters) {
  const [notes, setNotes] = useState([]);
  const before = useRef(new Map());
  useEffect(() => {
    const fresh = [];
    for (const { name, best } of clusters) {
      if (!best) continue;
      const was = before.current.get(name);
      const now = `${best.primary ?? ""} ${best.leader_epoch}`;
      if (was !== undefined && was !== now) {
        const words = best.primary ? `${best.primary} takes writes, epoch ${best.leader_epoch}` : "no server takes writes";
        fresh.push({ at: Date.now() / 1000, words: `${name}: ${words}` });
      }
      before.current.set(name, now);
    }
    if (fresh.length) setNotes((old) => [...fresh.reverse(), ...old].slice(0, MOST_NOTES));
  }, [clusters]);
  return notes;
}

function Headline({ cluster }) {
  const { best, agents } = cluster;
  const heard = agents.filter((agent) => agent.status).length;
  if (!best) return html`<${Notice} kind="bad">No agent of it answers this node.<//>`;
  const differ = cluster.primaries.length > 1;
  return html`
    ${best.primary
      ? html`<${Notice} kind="good"><strong>${best.primary}</strong> takes writes, at <code>${best.primary_address}</code>${best.primary_ms === null ? "" : ` for ${duration(best.primary_ms / 1000)}`}.<//>`
      : html`<${Notice} kind="bad">No server takes writes.<//>`}
    ${differ ? html`<${Notice} kind="warn">The agents name different primaries: ${cluster.primaries.join(", ")}. One with a higher epoch is right; the others learn of it within a heartbeat.<//>` : null}
    ${best.handing ? html`<${Notice}>Writes wait: they are handed over to ${best.handing}.<//>` : null}
    ${best.joining.length + best.leaving.length ? html`<${Notice}>The list of nodes is changing: ${[...best.joining.map((name) => `${name} joins`), ...best.leaving.map((name) => `${name} leaves`)].join(", ")}. A majority is one of both lists meanwhile.<//>` : null}
    ${best.implausible ? html`<${Notice} kind="bad">${count(best.implausible)} messages with an impossible epoch were ignored: the log of ${best.node} names their sender.<//>` : null}
    <${Stats} items=${[
      { label: "primary", value: best.primary ?? "none", hint: best.primary_address ?? "" },
      { label: "epoch", value: count(best.leader_epoch), hint: `elected: ${best.leader || "none yet"}` },
      { label: "majority", value: `${best.quorum} of ${best.nodes.length - best.leaving.length}`, hint: "agents, to elect and to stay" },
      { label: "replicas to write", value: best.min_replicas_to_write, hint: "must keep up, or writes are refused" },
      { label: "agents that answer", value: `${heard} of ${agents.length}`, hint: "of those in this node's file" },
    ]} />`;
}

function NodeCard({ node, cluster }) {
  const own = cluster.agents.find((agent) => agent.status?.node === node.id)?.status;
  const { best } = cluster;
  const state = stateOf(node, best);
  return html`<li class=${`card elect-node ${node.id === best.primary ? "primary" : ""}`}>
    <h3>${node.id}${node.id === best.primary ? html` <span class="elect-mark" aria-hidden="true">★</span>` : null}</h3>
    <p class="elect-badges"><${Badge} kind=${state.kind}>${state.words}<//>${own && !own.guard ? html` <${Badge} kind="bad">no watchdog<//>` : null}</p>
    <p class="hint">${state.means}</p>
    <dl class="elect-facts">
      <div><dt>Server</dt><dd><code>${node.server}</code></dd></div>
      <div><dt>Fence</dt><dd>${serverState(node, best, own)}</dd></div>
      <div><dt>Vote</dt><dd>${voteOf(own)}</dd></div>
      <div><dt>Data</dt><dd>${dataOf(node, best)}</dd></div>
      <div><dt>Heard</dt><dd>${node.seen_ms === null ? "never" : node.id === best.node ? "by itself" : `${count(node.seen_ms)} ms ago`}</dd></div>
      <div><dt>Priority</dt><dd>${node.priority === 0 ? "0: never promoted" : node.priority}</dd></div>
    </dl>
  </li>`;
}

function Cluster({ cluster }) {
  const silent = cluster.agents.filter((agent) => !agent.status);
  return html`<${Section} title=${cluster.name}>
    <${Headline} cluster=${cluster} />
    ${cluster.best ? html`<ul class="cards elect-nodes">${cluster.best.nodes.map((node) => html`<${NodeCard} key=${node.id} node=${node} cluster=${cluster} />`)}</ul>` : null}
    ${silent.map((agent) => html`<${Notice} key=${agent.address} kind="warn">The agent at <code>${agent.address}</code> does not answer: ${agent.trouble}.<//>`)}
  <//>`;
}

function Notes({ notes }) {
  return html`<${Section} title="What changed while you looked">
    <div aria-live="polite">
      ${notes.length ? html`<ol class="elect-notes">${notes.map((note, place) => html`<li key=${notes.length - place}><span class="muted">${time(note.at)}</span> ${note.words}</li>`)}</ol>` : html`<p class="muted">Nothing yet.</p>`}
    </div>
  <//>`;
}

export default function ElectPage() {
  useStyles("pages/elect.css");
  const { data, error } = useJson("/v2/elect", EVERY_MS);
  const [clusters, setClusters] = useState([]);
  useEffect(() => {
    if (data) setClusters(clustersOf(data.agents));
  }, [data]);
  const notes = useNotes(clusters);
  return html`<${Page} title="Elect" lead="Which Redis or Valkey server takes writes, who voted for it, and which servers are fenced off.">
    <${ErrorNotice} error=${error?.status === 0 ? null : error} />
    ${data || error ? null : html`<${Busy} />`}
    ${data && data.agents.length === 0 ? html`<${NoAgents} />` : null}
    ${data ? clusters.map((cluster) => html`<${Cluster} key=${cluster.name} cluster=${cluster} />`) : null}
    ${clusters.length ? html`<${Notes} notes=${notes} />` : null}
  <//>`;
}
