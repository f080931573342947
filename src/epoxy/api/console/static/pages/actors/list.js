// The actors whose home is this node's datacenter, a page at a time.
import { html, useEffect, useState } from "../../lib/html.js";
import { useJson } from "../../lib/live.js";
import { Badge, Busy, Button, ErrorNotice, Field, Notice, Table } from "../../lib/ui.js";
import { actorHref, DEFAULT, generationText, STATES } from "./address.js";

const EVERY_MS = 2000;
const PAGE_ROWS = 50;

const COLUMNS = [
  { key: "name", title: "Actor", cell: (actor) => html`<a class="actors-name" href=${actorHref(actor)}>${actor.name}/${actor.key}</a>` },
  { key: "state", title: "State", cell: (actor) => html`<${Badge} kind=${STATES[actor.state].kind}>${actor.state}<//>` },
  { key: "envoy", title: "Worker", cell: (actor) => actor.envoy ?? html`<span class="muted">none</span>` },
  { key: "pool", title: "Pool" },
  { key: "generation", title: "Generation", cell: (actor) => generationText(actor.generation) },
];

export function ActorList({ rights }) {
  const [asked, setAsked] = useState({ namespace: DEFAULT, name: "", prefix: "" });
  const [typed, setTyped] = useState(asked);
  const [cursors, setCursors] = useState([]);
  useEffect(() => setCursors([]), [asked]);
  const query = new URLSearchParams({ namespace: asked.namespace || DEFAULT, limit: PAGE_ROWS });
  if (asked.name) query.set("name", asked.name);
  if (asked.name && asked.prefix) query.set("key_prefix", asked.prefix);
  if (cursors.length) query.set("after", cursors.at(-1));
  const { data, error } = useJson(rights.known && !rights.calls ? null : `/v2/actors?${query}`, EVERY_MS);
  const input = (field, id, more = {}) => html`<input id=${id} type="text" autocomplete="off" spellcheck="false" value=${typed[field]} onInput=${(event) => setTyped({ ...typed, [field]: event.target.value })} ...${more} />`;
  const submit = (event) => {
    event.preventDefault();
    setAsked(typed);
  };
  if (rights.known && !rights.calls) return html`<${Notice}>Actors are shown to callers: your token has not that role.<//>`;
  return html`<form class="actors-form" role="search" aria-label="Actors" onSubmit=${submit}>
      <${Field} id="actors-kind" label="Kind">${input("name", "actors-kind", { placeholder: "all of them" })}<//>
      <${Field} id="actors-prefix" label="Name begins with">${input("prefix", "actors-prefix", { placeholder: "with a kind", disabled: !typed.name })}<//>
      <${Field} id="actors-namespace" label="Namespace">${input("namespace", "actors-namespace")}<//>
      <button type="submit">Search</button>
    </form>
    <${ErrorNotice} error=${error} />
    ${data
      ? html`<${Table} caption="In the order of their names" columns=${COLUMNS} rows=${data.actors} empty="None here. Actors are at home in the datacenter that made them, or that took them over." />
          <div class="actions">
            ${cursors.length ? html`<${Button} onClick=${() => setCursors(cursors.slice(0, -1))}>Page before<//>` : null}
            ${data.next ? html`<${Button} onClick=${() => setCursors([...cursors, data.next])}>Next page<//>` : null}
          </div>`
      : error
        ? null
        : html`<${Busy} what="Asking the node" />`}`;
}
