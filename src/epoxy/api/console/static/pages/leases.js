// Values that end: locks, leases, and what lives as long as a session. The counts run here between two answers of the node.
import { html, useEffect, useState } from "../lib/html.js";
import { useJson, useWhileVisible } from "../lib/live.js";
import { count, decoded, duration, keyHref, keyText, ms } from "../lib/format.js";
import { Badge, Busy, Button, ErrorNotice, Field, Notice, Page, Section, Stats, Table, useStyles } from "../lib/ui.js";

const EVERY_MS = 2000;
const PAGE_ROWS = 50;
const TICK_MS = 200;
const SOON = 0.25;

function useNow(everyMs) {
  const [now, setNow] = useState(Date.now());
  useWhileVisible(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

// Whole minutes and hours without the nought behind them.
const wholeTime = (timeMs) => duration(timeMs / 1000).replace(/ 0 (s|min|h)$/, "");

function Left({ row, spentMs }) {
  if (row.remaining === null) return html`<span class="muted">not known here: its session was not heard of yet</span>`;
  const left = Math.max(0, row.remaining - spentMs);
  const over = row.over || left === 0;
  const part = over ? 1 : Math.min(1, left / (row.ttl ?? left));
  const state = over ? "over" : part < SOON ? "soon" : "";
  return html`<div class="lease-left">
    <span>${over ? "over: its end is being decided" : html`<strong>${duration(left / 1000)}</strong>${row.ttl ? ` of ${wholeTime(row.ttl)}` : ""}`}</span>
    ${row.ttl ? html`<span class=${`lease-bar ${state}`} aria-hidden="true"><span style=${{ width: `${100 * part}%` }}></span></span>` : null}
  </div>`;
}

function Holder({ row }) {
  if (row.value === null) return html`<span class="muted">${row.value_bytes ? `${row.value_bytes} bytes that are no text` : "none"}</span>`;
  if (row.value === "") return html`<span class="muted">empty</span>`;
  return html`<code class="lease-value">${row.value}${row.cut ? "…" : ""}</code>${row.cut ? html`<span class="hint">cut: it has ${count(row.value_bytes)} bytes</span>` : null}`;
}

const columns = (spentMs) => [
  { key: "key", title: "Key", cell: (row) => html`<a class="lease-key" href=${keyHref(row.key)}>${keyText(row.key)}</a>${row.engine ? html` <${Badge}>of transactions<//>` : null}` },
  { key: "left", title: "Time left", cell: (row) => html`<${Left} row=${row} spentMs=${spentMs} />` },
  { key: "holder", title: "Value: who holds it", cell: (row) => html`<${Holder} row=${row} />` },
  { key: "version", title: "Fencing token", number: true, cell: (row) => count(row.version) },
  { key: "session", title: "Ends with", cell: (row) => (row.session ? html`session <code title=${row.session}>${row.session.slice(0, 8)}…</code>` : "its own time") },
];

function Totals({ totals }) {
  if (!totals) return html`<p class="muted">How many there are in all is told to clients that may read every key.</p>`;
  return html`<${Stats} items=${[
    { label: "Values that end", value: count(totals.leases) },
    { label: "Sessions", value: count(totals.sessions), hint: "one heartbeat for many keys" },
    { label: "Ended by this node", value: count(totals.ended), hint: "since it started" },
    { label: "Late", value: totals.late_ms > 0 ? ms(totals.late_ms) : "no", hint: "how long the next end is overdue here" },
  ]} />`;
}

function Search({ prefix, onSearch }) {
  const [text, setText] = useState(prefix);
  useEffect(() => setText(prefix), [prefix]);
  const submit = (event) => {
    event.preventDefault();
    onSearch(text);
  };
  return html`<form class="lease-search" role="search" onSubmit=${submit}>
    <${Field} id="lease-prefix" label="Keys that begin with">
      <input id="lease-prefix" type="search" value=${text} onInput=${(event) => setText(event.target.value)} placeholder="all of them" autocomplete="off" spellcheck="false" />
    <//>
    <button type="submit">Search</button>
  </form>`;
}

export default function LeasesPage({ args }) {
  useStyles("pages/leases.css");
  const prefix = decoded(args[0] ?? "");
  const [cursors, setCursors] = useState([]);
  useEffect(() => setCursors([]), [prefix]);
  const after = cursors.at(-1) ?? "";
  const query = `prefix=${encodeURIComponent(prefix)}&after=${after}&limit=${PAGE_ROWS}`;
  const { data, error, at } = useJson(`/v2/leases?${query}`, EVERY_MS);
  const now = useNow(TICK_MS);
  const spentMs = at === null ? 0 : Math.max(0, now - at);
  const search = (text) => {
    location.hash = text ? `#/leases/${encodeURIComponent(text)}` : "#/leases";
  };
  return html`<${Page} title="Leases" lead="Locks and leases: values that end by themselves when their holder is silent for too long. Each node counts the time for itself; that a value has ended is then decided by a majority, like any write.">
    <${ErrorNotice} error=${error} />
    ${data ? html`<${Section} title="In all"><${Totals} totals=${data.totals} /><//>` : null}
    <${Section} title="One by one">
      <${Search} prefix=${prefix} onSearch=${search} />
      ${data
        ? html`<${Table}
              caption=${prefix ? `Keys that begin with ${prefix}` : "In the order of their keys"}
              columns=${columns(spentMs)}
              rows=${data.leases.map((row) => ({ ...row, id: row.key }))}
              empty=${prefix ? "No value under this prefix ends." : "No value ends now. Try: epoxy put lock/deploy ada --ttl 30s --if-absent"}
            />
            <div class="actions">
              ${cursors.length ? html`<${Button} onClick=${() => setCursors(cursors.slice(0, -1))}>Page before<//>` : null}
              ${data.next ? html`<${Button} onClick=${() => setCursors([...cursors, data.next])}>Next page<//>` : null}
            </div>`
        : error
          ? null
          : html`<${Busy} what="Asking the node" />`}
      <${Notice}><strong>Fencing token:</strong> the version of the value. It rises with every holder, so a service that remembers the highest one it has seen can refuse a holder whose time was over without its knowing.<//>
    <//>
  <//>`;
}
