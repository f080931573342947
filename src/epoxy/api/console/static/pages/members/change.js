// Add, replace and remove datacenters: first what it would do, then a button that says what it does.
import { html, useState } from "../../lib/html.js";
import { getJson, send } from "../../lib/api.js";
import { Button, Busy, ErrorNotice, Field, Notice } from "../../lib/ui.js";
import { PLACES } from "../plan/places.js";
import { Preview } from "./preview.js";
import { nameOf } from "./words.js";

const KINDS = [
  { name: "add", title: "Add a datacenter" },
  { name: "replace", title: "Replace one" },
  { name: "remove", title: "Remove one" },
];
const NEWCOMERS = ["new", "removed", "joining", "learning"];
const REGIONS = Object.keys(PLACES);

// As `epoxy members add` checks it: the node at the address is a newcomer, of this cluster, and known there by that address.
function objectionTo(probe, { id, url }, cluster) {
  const addresses = url.split(",").map((each) => each.trim().replace(/\/$/, ""));
  if (probe.url && !addresses.includes(probe.url.replace(/\/$/, ""))) {
    return `By its own file replica ${id} is at ${probe.url}: add it there, or write advertise_url = "${addresses[0]}" into [node] of its file and start it again.`;
  }
  if (!NEWCOMERS.includes(probe.state)) return `Replica ${id} is no newcomer: its state is ${probe.state}, in epoch ${probe.members.epoch}.`;
  if (probe.cluster !== cluster) return `Replica ${id} belongs to another cluster: start it with an empty directory and ${cluster ? `cluster.id = "${cluster}"` : "without cluster.id"} in its file.`;
  return "";
}

async function examine(kind, given, rows, { mayOrder, cluster }) {
  const gone = kind === "add" ? null : rows.find((row) => row.id === Number(given.gone));
  const comes = kind !== "remove";
  let datacenter = given.datacenter.trim();
  const url = given.url.replaceAll(/\s/g, "");
  const id = Number(given.id);
  if (comes && url && mayOrder) {
    const probe = await getJson(`/v2/members/probe?id=${id}&url=${encodeURIComponent(url)}`);
    const objection = objectionTo(probe, { id, url }, cluster);
    if (objection) return { objection };
    datacenter = probe.datacenter;
  }
  const query = new URLSearchParams();
  if (comes) {
    query.set("add", datacenter || url);
    query.set("id", String(id));
  }
  if (gone) query.set("remove", String(gone.id));
  const seen = await getJson(`/v2/members/preview?${query}`);
  const newcomer = { id, url, datacenter };
  const possible = !seen.objection && (!comes || Boolean(url));
  return { seen, order: possible ? orderOf(comes ? newcomer : null, gone) : null, lacksAddress: comes && !url };
}

function orderOf(newcomer, gone) {
  const coming = newcomer ? `${newcomer.datacenter || newcomer.url} (replica ${newcomer.id})` : "";
  const going = gone ? `${nameOf(gone)} (replica ${gone.id})` : "";
  const title = newcomer && gone ? `Replace ${going} by ${coming}` : newcomer ? `Add ${coming}` : `Remove ${going}`;
  return { title, kind: gone ? "danger" : "primary", json: { add: newcomer ? [newcomer] : [], remove: gone ? [gone.id] : [] } };
}

function Newcomer({ given, change }) {
  const input = (name) => ({ id: `members-${name}`, value: given[name], "aria-describedby": `members-${name}-hint`, onInput: (event) => change({ [name]: event.target.value }) });
  return html`<div class="members-fields">
    <${Field} id="members-url" label="Its address" hint="Where the members reach it; of several nodes all, with commas. It runs already, with join = true in its file.">
      <input type="text" placeholder="http://10.0.4.1:7800" autocomplete="off" spellcheck=${false} ...${input("url")} />
    <//>
    <${Field} id="members-id" label="Its id" hint="As in its file.">
      <input type="number" min="1" max="4294967295" required ...${input("id")} />
    <//>
    <${Field} id="members-datacenter" label="Or only its datacenter" hint="To see what it would do before there is a node. With an address, the node says it.">
      <input type="text" list="members-regions" autocomplete="off" spellcheck=${false} ...${input("datacenter")} />
    <//>
    <datalist id="members-regions">${REGIONS.map((region) => html`<option key=${region} value=${region} />`)}</datalist>
  </div>`;
}

export function Change({ members, mayOrder, cluster, onOrdered }) {
  const rows = members.replicas.filter((row) => row.status !== "leaving");
  const nextId = 1 + Math.max(...members.replicas.map((row) => row.id), ...members.wanted);
  const [kind, setKind] = useState("add");
  const [own, setOwn] = useState({ url: "", id: null, datacenter: "", gone: "" });
  const [found, setFound] = useState(null);
  const [busy, setBusy] = useState("");
  const [error, setError] = useState(null);
  const given = { ...own, id: own.id ?? String(nextId), gone: own.gone || String(rows[rows.length - 1]?.id ?? "") };
  const forget = () => {
    setFound(null);
    setError(null);
  };
  const change = (part) => {
    setOwn({ ...own, ...part });
    forget();
  };
  const attempt = async (words, act) => {
    setBusy(words);
    setError(null);
    try {
      await act();
    } catch (refused) {
      setError(refused);
    }
    setBusy("");
  };
  const look = (event) => {
    event.preventDefault();
    setFound(null);
    attempt("Looking", async () => setFound(await examine(kind, given, rows, { mayOrder, cluster })));
  };
  const order = () =>
    attempt("Ordering", async () => {
      const { body } = await send("POST", "/v2/members", { json: found.order.json });
      setFound(null);
      setOwn({ url: "", id: null, datacenter: "", gone: "" });
      onOrdered({ title: found.order.title, wanted: body.wanted, queued: body.queued });
    });
  const lacks = kind !== "remove" && !given.url.trim() && !given.datacenter.trim();
  return html`
    <form onSubmit=${look}>
      <fieldset class="members-kinds">
        <legend>What to change</legend>
        ${KINDS.map(({ name, title }) => html`<label key=${name}><input type="radio" name="members-kind" checked=${kind === name} onChange=${() => { setKind(name); forget(); }} /> ${title}</label>`)}
      </fieldset>
      ${kind === "add" ? null : html`<${Field} id="members-gone" label=${kind === "replace" ? "Which one leaves" : "Which one"} hint="Dead or alive: the others must be able to decide without it.">
        <select id="members-gone" aria-describedby="members-gone-hint" value=${given.gone} onChange=${(event) => change({ gone: event.target.value })}>
          ${rows.map((row) => html`<option key=${row.id} value=${String(row.id)} selected=${String(row.id) === given.gone}>${nameOf(row)}, replica ${row.id}</option>`)}
        </select>
      <//>`}
      ${kind === "remove" ? null : html`<${Newcomer} given=${given} change=${change} />`}
      <div class="actions"><button type="submit" disabled=${Boolean(busy) || lacks}>Show what it would do</button></div>
    </form>
    <div aria-live="polite" class="members-verdict">
      ${busy ? html`<${Busy} what=${busy} />` : null}
      <${ErrorNotice} error=${error} />
      ${found?.objection ? html`<${Notice} kind="bad">${found.objection}<//>` : null}
      ${found?.seen ? html`<${Preview} seen=${found.seen} />` : null}
      ${found?.lacksAddress && !found.seen.objection ? html`<p class="muted">To add it, start a node there and give its address.</p>` : null}
      ${found?.order && !mayOrder ? html`<p class="muted">A token with the role operator may do this.</p>` : null}
      ${found?.order && mayOrder ? html`<div class="actions"><${Button} kind=${found.order.kind} disabled=${Boolean(busy)} onClick=${order}>${found.order.title}<//> <${Button} onClick=${forget}>Cancel<//></div>` : null}
    </div>
  `;
}
