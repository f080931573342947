// One column for each replica: what it holds for the key.
import { html } from "../../lib/html.js";
import { duration } from "../../lib/format.js";
import { Badge } from "../../lib/ui.js";
import { fromBase64, hexOf } from "./bytes.js";
import { Value } from "./value.js";

const none = html`<span class="muted">none</span>`;

function isNone(ballot) {
  return ballot.counter === 0;
}

function Ballot({ ballot, names }) {
  const { counter, replica_id: replica } = ballot;
  const whose = names.get(replica) ?? `replica ${replica}`;
  return html`${counter === 1 ? "fast round" : `slow round ${counter}`}<span class="hint">of ${whose}</span>`;
}

function Proposal({ proposal }) {
  if (!proposal) return none;
  const kind = proposal.value === null ? html`<${Badge} kind="warn">deleted<//>` : proposal.mutable ? null : html`<${Badge} kind="good">for ever<//>`;
  return html`${proposal.value === null ? null : html`<${Value} base64=${proposal.value} />`}
    <span class="key-facts">version ${proposal.version} ${kind}</span>`;
}

function Lineage({ lineage }) {
  if (lineage.length === 0) return none;
  const versions = lineage.map((settled) => settled.version);
  return html`${lineage.length === 1 ? "version" : "versions"} ${versions.join(", ")}<span class="hint">decisions it remembers the writes of</span>`;
}

function Lease({ view }) {
  const expiry = view.held.committed?.expiry;
  if (!expiry) return none;
  if (expiry.session) return html`with a session<span class="hint">${hexOf(fromBase64(expiry.session)).replaceAll(" ", "")}</span>`;
  const left = view.remaining === null ? "it counts for itself" : view.remaining === 0 ? "over: its end is being decided" : `${duration(view.remaining / 1000)} left`;
  return html`${left}<span class="hint">of ${duration(expiry.ttl_ms / 1000)}, since version ${expiry.since}</span>`;
}

function Decided({ view, names }) {
  if (!view.decision) return none;
  const { proposer, base, version, writes } = view.decision;
  const who = names.get(proposer) ?? (proposer ? `replica ${proposer}` : "the first layout");
  return html`by ${who}<span class="hint">${writes === 1 ? "one write" : `${writes} writes together`}, from version ${base} to ${version}</span>`;
}

const ROWS = [
  { title: "Committed", hint: "decided: it will not change under this version", cell: (view) => html`<${Proposal} proposal=${view.held.committed} />` },
  { title: "Decided", hint: "who put it forward", cell: (view, names) => html`<${Decided} view=${view} names=${names} />` },
  {
    title: "Vote",
    hint: "for the next version, not decided yet",
    cell: (view, names) => (view.held.vote ? html`<${Proposal} proposal=${view.held.vote.proposal} /><span class="hint"><${Ballot} ballot=${view.held.vote.ballot} names=${names} /></span>` : none),
  },
  {
    title: "Promise",
    hint: "to hear no lower round",
    cell: (view, names) => (isNone(view.held.promised) ? none : html`<${Ballot} ballot=${view.held.promised} names=${names} />`),
  },
  { title: "Ends", hint: "time to live, or a session", cell: (view) => html`<${Lease} view=${view} />` },
  { title: "Before", hint: "lineage: earlier decisions", cell: (view) => html`<${Lineage} lineage=${view.held.lineage} />` },
  {
    title: "Waiting",
    hint: "writes in line here",
    cell: (view, names) => html`${view.held.waiting || none}${view.held.owner ? html`<span class="hint">carried to ${names.get(view.held.owner) ?? `replica ${view.held.owner}`}</span>` : null}`,
  },
  { title: "Changelog", hint: "rows of the key among the newest 1,000", cell: (view) => (view.held.changelog.length ? `${view.held.changelog.length} ${view.held.changelog.length === 1 ? "row" : "rows"}` : none) },
];

export function Replicas({ views, here }) {
  const names = new Map(views.map((view) => [view.id, view.datacenter || `replica ${view.id}`]));
  return html`<div class="table-wrap" role="region" aria-label="What each replica holds" tabindex="0">
    <table class="key-replicas">
      <caption>What each replica holds, when it was asked</caption>
      <thead>
        <tr>
          <td></td>
          ${views.map((view) => html`<th key=${view.id} scope="col">${names.get(view.id)}${view.id === here ? html` <${Badge}>here<//>` : null}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${ROWS.map(
          ({ title, hint, cell }, place) => html`<tr key=${title}>
            <th scope="row">${title}<span class="hint">${hint}</span></th>
            ${views.map((view) => {
              if (view.held) return html`<td key=${view.id}>${cell(view, names)}</td>`;
              return place === 0 ? html`<td key=${view.id} rowspan=${ROWS.length}><${Badge} kind="bad">no answer<//><span class="hint">${view.reason}</span></td>` : null;
            })}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}
