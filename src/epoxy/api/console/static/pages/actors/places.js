// The datacenters, and which of them have workers.
import { html } from "../../lib/html.js";
import { Badge, Table } from "../../lib/ui.js";

// The console of another datacenter's node; null: its address is not known here.
export function consoleOf(datacenter, peers) {
  const url = (peers ?? []).find((peer) => peer.datacenter === datacenter)?.url?.split(",")[0];
  return url && /^https?:/.test(url) ? `${url}/ui` : null;
}

function Name({ place, peers }) {
  const address = place.here ? null : consoleOf(place.datacenter, peers);
  return html`${address ? html`<a href=${`${address}#/actors`}>${place.datacenter}</a>` : place.datacenter} ${place.here ? html`<${Badge}>this one<//>` : null}`;
}

export function Places({ places, peers }) {
  return html`<p class="muted">Each datacenter has workers of its own, and hosts actors while it holds a lease that a majority gave it.</p>
  <${Table}
    caption="Datacenters"
    columns=${[
      { key: "datacenter", title: "Datacenter", cell: (place) => html`<${Name} place=${place} peers=${peers} />` },
      { key: "hosts", title: "Hosts actors", cell: (place) => (place.hosts ? html`<${Badge} kind="good">yes<//>` : html`<${Badge} kind="warn">${place.pools.length ? "no lease" : "no workers"}<//>`) },
      { key: "pools", title: "Pools with workers", cell: (place) => place.pools.map(({ namespace, pool }) => (namespace === "default" ? pool : `${namespace}/${pool}`)).join(", ") || "none" },
    ]}
    rows=${places.map((place) => ({ ...place, id: place.datacenter }))}
  />`;
}
