// What a change will do, before it is done: floors of each datacenter before and after, and how many may fail.
import { html } from "../../lib/html.js";
import { ms } from "../../lib/format.js";
import { Badge, Notice, Table } from "../../lib/ui.js";
import { capital, nameOf, numberWord, plural, spare } from "./words.js";

const NOISE_MS = 0.5;
const NOISE_SHARE = 0.02;

function floor(row) {
  if (!row) return html`<span class="muted">no member</span>`;
  if (row.floor_ms === null) return html`<span class="muted">not known</span>`;
  const source = row.source === "table" ? "by the planner's table" : row.at_most ? "by what is measured" : "measured";
  return html`${row.at_most ? "at most " : ""}${ms(row.floor_ms)}<span class="hint">${source}</span>`;
}

// The difference that matters to a person: noise is none.
function Difference({ before, after }) {
  if (!before) return html`<${Badge}>new<//>`;
  if (!after) return html`<${Badge} kind="warn">leaves<//>`;
  if (before.floor_ms === null || after.floor_ms === null) return html`<span class="muted">not known</span>`;
  const more = after.floor_ms - before.floor_ms;
  if (Math.abs(more) < Math.max(NOISE_MS, NOISE_SHARE * before.floor_ms)) return "the same";
  return more > 0 ? html`<${Badge} kind="warn">${ms(more)} slower<//>` : html`<${Badge} kind="good">${ms(-more)} faster<//>`;
}

function tolerated({ before, after }) {
  const one = plural(before.tolerated_failures, "datacenter");
  if (after.tolerated_failures === before.tolerated_failures) return `As before, ${one} may fail.`;
  const words = `${capital(plural(after.tolerated_failures, "datacenter"))} may fail then; now ${before.tolerated_failures === 0 ? "none" : numberWord(before.tolerated_failures)} may.`;
  return after.tolerated_failures < before.tolerated_failures ? `${words} That is less safe.` : `${words} That is safer.`;
}

function Verdict({ seen }) {
  const { before, after } = seen;
  const more = after.tolerated_failures - before.tolerated_failures;
  const kind = more < 0 || after.tolerated_now <= 0 ? "warn" : more > 0 ? "good" : "info";
  const now = after.tolerated_now === after.tolerated_failures ? "" : ` With those that this node reaches now, ${spare(after.tolerated_now)}.`;
  const even = after.members.length % 2 === 0 && after.members.length > before.members.length;
  return html`<${Notice} kind=${kind}>
    ${tolerated(seen)}${now} ${capital(numberWord(after.quorums.fast))} of ${numberWord(after.members.length)} must answer for a write in one round trip, ${numberWord(after.quorums.slow)} to decide anything.
    ${even ? " An even number survives no more failures than the odd one below it." : ""}
  <//>`;
}

export function Preview({ seen }) {
  if (seen.objection && !seen.after) return html`<${Notice} kind="bad">This is not possible: ${seen.objection.message}.<//>`;
  const ids = [...new Set([...seen.before.members, ...seen.after.members].map((row) => row.id))].sort((one, other) => one - other);
  const rows = ids.map((id) => {
    const [before, after] = [seen.before, seen.after].map((side) => side.members.find((row) => row.id === id));
    return { id, before, after, name: nameOf(after ?? before) };
  });
  const columns = [
    { key: "name", title: "Datacenter", cell: (row) => html`<span class="members-name">${row.name}</span>` },
    { key: "before", title: "Floor now", number: true, cell: (row) => floor(row.before) },
    { key: "after", title: "Floor then", number: true, cell: (row) => floor(row.after) },
    { key: "difference", title: "Difference", cell: (row) => html`<${Difference} ...${row} />` },
  ];
  return html`
    ${seen.objection ? html`<${Notice} kind="bad">This would be refused: ${seen.objection.message}.<//>` : null}
    <${Verdict} seen=${seen} />
    <${Table} caption="The floor is the least time in which a datacenter can commit a new key" columns=${columns} rows=${rows} />
  `;
}
