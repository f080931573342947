// The ordered engine of this node in words, its last transactions against the floor, and a form to try one.
import { html } from "../lib/html.js";
import { useJson } from "../lib/live.js";
import { count, duration, keyHref, keyText, ms, share } from "../lib/format.js";
import { useRights } from "../lib/rights.js";
import { Badge, Busy, ErrorNotice, Notice, Page, Section, Stats, Table, useStyles } from "../lib/ui.js";
import { Trial } from "./transactions/trial.js";

const EVERY_MS = 1000;
const LITTLE = 0.05;

const OUTCOMES = {
  committed: { word: "committed", kind: "good" },
  condition_failed: { word: "condition failed", kind: "warn" },
  refused: { word: "refused", kind: "bad" },
  unknown: { word: "unknown", kind: "bad" },
  under_way: { word: "under way", kind: "info" },
};
const PATHS = { fast: "one round trip", slow: "two round trips: others wanted the same keys" };

function Engine({ engine }) {
  return html`<div class="txn-state">
      <${Badge} kind=${engine.open ? "good" : "warn"}>${engine.open ? "open" : engine.state}<//>
      <span>${engine.meaning}</span>
    </div>
    <${Stats} items=${[
      { label: "Decided in one round", value: share(engine.fast_share), hint: "of what this node proposed" },
      { label: "Floor", value: ms(engine.floor_ms), hint: "round trip to the nearest quorum: no transaction is faster" },
      { label: "Under way here", value: count(engine.in_flight) },
      { label: "Executed for clients", value: count(engine.executed), hint: "of this node, since it started" },
      { label: "Behind", value: count(engine.behind), hint: engine.behind ? "decisions it has missed and learns" : "it has missed no decision" },
      { label: "Kept for others", value: count(engine.kept), hint: engine.kept_for.length ? `${engine.kept_for.join(", ")} lack many` : "decisions that not all have executed" },
      { label: "Period", value: count(engine.term), hint: "a new one begins with each change of members" },
    ]} />
    ${engine.refused ? html`<p class="muted">${count(engine.refused)} were refused since this node started, because too many were under way.</p>` : null}`;
}

function Bar({ row, floorMs, scaleMs }) {
  const at = (value) => `${Math.min(100, (100 * value) / scaleMs)}%`;
  const waited = row.waited_ms ?? 0;
  return html`<span class="txn-bar" aria-hidden="true">
    ${waited ? html`<span class="waited" style=${{ left: 0, width: at(waited) }}></span>` : null}
    <span class="round" style=${{ left: at(waited), width: at(Math.max(0, row.took_ms - waited)) }}></span>
    ${floorMs ? html`<span class="floor" style=${{ left: at(floorMs) }}></span>` : null}
  </span>`;
}

function Took({ row, floorMs, scaleMs }) {
  if (row.took_ms === null) return html`<span class="muted">not answered yet</span>`;
  const waited = row.waited_ms > LITTLE * row.took_ms ? `, of which ${ms(row.waited_ms)} waiting` : "";
  const beside = floorMs > 0.5 ? `: ${(row.took_ms / floorMs).toFixed(1)} × the floor` : "";
  return html`<span>${ms(row.took_ms)}${waited}${beside}</span><${Bar} row=${row} floorMs=${floorMs} scaleMs=${scaleMs} />`;
}

function Keys({ row }) {
  return html`<span class="txn-keys">
    ${row.keys.map((key) => html`<a key=${key} href=${keyHref(key)}>${keyText(key)}</a>`)}
    ${row.more_keys ? html`<span class="muted">and ${count(row.more_keys)} more</span>` : null}
  </span>`;
}

function Outcome({ row }) {
  const { word, kind } = OUTCOMES[row.outcome];
  const path = row.path ? PATHS[row.path] : row.outcome === "committed" || row.outcome === "condition_failed" ? "decided with the help of another node" : null;
  return html`<span class="txn-outcome"><${Badge} kind=${kind}>${word}<//> ${row.writes ? null : html`<${Badge}>reads only<//>`}
    <span class="hint">${row.reason || path}</span></span>`;
}

function Recent({ feed }) {
  const { transactions, engine } = feed;
  const scaleMs = Math.max(1, engine.floor_ms ?? 0, ...transactions.map((each) => each.took_ms ?? 0)) * 1.05;
  const columns = [
    { key: "keys", title: "Keys", cell: (row) => html`<${Keys} row=${row} />` },
    { key: "took", title: "How long", cell: (row) => html`<${Took} row=${row} floorMs=${engine.floor_ms} scaleMs=${scaleMs} />` },
    { key: "outcome", title: "Outcome", cell: (row) => html`<${Outcome} row=${row} />` },
    { key: "when", title: "When", cell: (row) => `${duration(row.ago_ms / 1000)} ago` },
  ];
  return html`<p class="muted">What this node was asked for in the last ${duration(feed.watched_ms / 1000)}: it keeps them only while a page like this one looks.</p>
    <ul class="txn-legend">
      <li><span class="swatch waited"></span>waiting: keys that are named for the first time, earlier transactions of the same keys</li>
      <li><span class="swatch round"></span>deciding and executing</li>
      <li><span class="swatch floor"></span>the floor</li>
    </ul>
    <${Table}
      caption="The last transactions, the newest first"
      columns=${columns}
      rows=${transactions}
      empty="None since this page looks. Run one below, or: echo '{…}' | epoxy txn -"
    />
    ${feed.left_out ? html`<p class="muted">${count(feed.left_out)} more are left out: your token may read none of their keys.</p>` : null}`;
}

export default function TransactionsPage({ node }) {
  useStyles("pages/transactions.css");
  const rights = useRights(node);
  const { data, error } = useJson("/v2/transactions?limit=50", EVERY_MS);
  return html`<${Page} title="Transactions" lead="Changes of several keys at one moment. All datacenters execute them in the same order, without a leader: a majority near the client agrees on each.">
    <${ErrorNotice} error=${error} />
    ${data
      ? html`<${Section} title="How it is"><${Engine} engine=${data.engine} /><//>
          <${Section} title="The last ones"><${Recent} feed=${data} /><//>`
      : error
        ? null
        : html`<${Busy} what="Asking the node" />`}
    <${Section} title="Try one"><${Trial} rights=${rights} node=${node} /><//>
  <//>`;
}
