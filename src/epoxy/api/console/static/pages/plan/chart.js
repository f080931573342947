// Bars: the commit floor of each region beside a write through the best leader, to one scale. The table below has the
// same figures, so the bars are hidden from screen readers.
import { html } from "../../lib/html.js";
import { ms } from "../../lib/format.js";

export function worstOf(row, failures) {
  return failures ? row.more_failures[failures - 1] : { commit_ms: row.commit_ms, path: row.path, down: [] };
}

function Bar({ kind, value, longest, words }) {
  const width = `${(100 * value) / longest}%`;
  return html`<div class="plan-bar">
    <svg height="12" width="100%" focusable="false">
      <rect class=${kind} x="0" y="0" height="12" rx="3" width=${width} />
    </svg>
    <span>${words}</span>
  </div>`;
}

function costs(row, failures) {
  const found = row.down ? null : worstOf(row, failures);
  return { floor: found?.commit_ms ?? null, slow: found?.path === "slow", leader: failures ? null : row.leader_ms };
}

export function Bars({ rows, failures, leader }) {
  const longest = Math.max(1, ...rows.flatMap((row) => Object.values(costs(row, failures)).filter((value) => typeof value === "number")));
  return html`<div class="plan-bars" aria-hidden="true">
    <p class="plan-key">
      <span class="plan-swatch ours"></span> commit floor
      ${leader && !failures ? html`<span class="plan-swatch theirs"></span> through a leader in ${leader}` : null}
    </p>
    ${rows.map((row) => {
      const { floor, slow, leader: theirs } = costs(row, failures);
      return html`<div class="plan-row" key=${row.region}>
        <div><strong>${row.region}</strong>${row.down || !failures || floor === null ? null : html`<span class="hint">without ${worstOf(row, failures).down.join(" and ")}</span>`}</div>
        <div>
          ${floor === null
            ? html`<div class="plan-none">${row.down ? "down" : "unavailable: too few are left"}</div>`
            : html`<${Bar} kind=${slow ? "ours slow" : "ours"} value=${floor} longest=${longest} words=${`${ms(floor)}${slow ? ", two round trips" : ""}`} />`}
          ${theirs === null || floor === null ? null : html`<${Bar} kind="theirs" value=${theirs} longest=${longest} words=${ms(theirs)} />`}
        </div>
      </div>`;
    })}
  </div>`;
}
