// Actors: the ring of workers of this datacenter, the actors that are at home here, and one of them on a page of its own.
import { html, useState } from "../lib/html.js";
import { useJson } from "../lib/live.js";
import { decoded } from "../lib/format.js";
import { useRights } from "../lib/rights.js";
import { Busy, ErrorNotice, Field, Notice, Page, Section, useStyles } from "../lib/ui.js";
import { ActorPage } from "./actors/actor.js";
import { DEFAULT } from "./actors/address.js";
import { ActorList } from "./actors/list.js";
import { Places } from "./actors/places.js";
import { Workers } from "./actors/workers.js";

const EVERY_MS = 2000;
const RARELY_MS = 10000;

function Pool({ pools }) {
  const [chosen, setChosen] = useState(0);
  const { namespace, pool } = pools[chosen] ?? pools[0];
  const { data, error, again } = useJson(`/v2/envoys?namespace=${encodeURIComponent(namespace)}&pool=${encodeURIComponent(pool)}&ring=true`, EVERY_MS);
  return html`${pools.length > 1
      ? html`<${Field} id="actors-pool" label="Pool">
          <select id="actors-pool" value=${chosen} onChange=${(event) => setChosen(Number(event.target.value))}>
            ${pools.map((each, n) => html`<option key=${n} value=${n}>${each.namespace === DEFAULT ? "" : `${each.namespace}/`}${each.pool} (${each.workers})</option>`)}
          </select>
        <//>`
      : html`<p>Pool <strong>${pool}</strong>${namespace === DEFAULT ? "" : ` of namespace ${namespace}`}</p>`}
    <${ErrorNotice} error=${error} />
    ${data ? html`<${Workers} workers=${data.envoys} onChange=${again} />` : error ? null : html`<${Busy} what="Asking the node" />`}`;
}

function WorkersSection({ node, rights, pools, error }) {
  if (!node) return html`<${Busy} what="Asking the node" />`;
  if (!rights.operates) return html`<${Notice}>${rights.known ? "Workers are shown to operators: your token has not that role." : "Workers are shown to operators: this cluster asks for a token."}<//>`;
  if (error) return html`<${ErrorNotice} error=${error} />`;
  if (!pools) return html`<${Busy} what="Asking the node" />`;
  if (pools.pools.length === 0) return html`<${Notice}>No worker is connected to ${pools.datacenter}. Run one: <code>epoxy worker run app:worker</code><//>`;
  return html`<${Pool} pools=${pools.pools} />`;
}

export default function ActorsPage({ args, node }) {
  useStyles("pages/actors.css");
  const rights = useRights(node);
  const { data: pools, error } = useJson(rights.operates ? "/v2/pools" : null, EVERY_MS);
  const { data: status } = useJson(rights.known ? "/v2/status" : null, RARELY_MS);
  if (args.length >= 2 && args[0] && args[1]) {
    const [name, key, namespace = DEFAULT] = args.map(decoded);
    return html`<${ActorPage} key=${args.join("/")} which=${{ namespace, name, key }} rights=${rights} pools=${pools} peers=${status?.peers} />`;
  }
  return html`<${Page} title="Actors" lead="Names with an owner: each actor runs on one worker of one datacenter at a time, keeps its state through failures, and moves when its worker or its region is lost.">
    <${Section} title="Workers of this datacenter"><${WorkersSection} node=${node} rights=${rights} pools=${pools} error=${error} /><//>
    <${Section} title="Actors at home here"><${ActorList} rights=${rights} /><//>
    ${pools ? html`<${Section} title="Everywhere"><${Places} places=${pools.datacenters} peers=${status?.peers} /><//>` : null}
  <//>`;
}
