// One sample as bars, a row for each replica, with the floor as a line.
import { html } from "../../lib/html.js";
import { ms } from "../../lib/format.js";
import { lasts } from "./story.js";

const WIDTH = 720;
const LEFT = 130;
const RIGHT = 16;
const ROW = 34;
const TOP = 24;

function rowsOf(sample) {
  const others = [...new Set(sample.messages.map((message) => message.to))].sort((one, other) => one - other);
  return [sample.home, ...others.filter((id) => id !== sample.home)];
}

export function Timeline({ sample, name }) {
  const end = 1.04 * lasts(sample);
  const x = (at) => LEFT + (at / end) * (WIDTH - LEFT - RIGHT);
  const rows = rowsOf(sample);
  const height = TOP + rows.length * ROW + 26;
  const bottom = TOP + rows.length * ROW;
  const middle = (id) => TOP + (rows.indexOf(id) + 0.5) * ROW;
  const home = middle(sample.home);
  const floorLeft = sample.floor_ms !== null && x(sample.floor_ms) > WIDTH - 90;
  return html`<svg class="timeline" viewBox=${`0 0 ${WIDTH} ${height}`} aria-hidden="true">
    ${rows.map(
      (id, n) => html`<g key=${id}>
        ${n % 2 ? null : html`<rect class="timeline-row" x="0" y=${TOP + n * ROW} width=${WIDTH} height=${ROW} rx="4" />`}
        <text class="timeline-name" x="8" y=${middle(id) + 4}>${name(id)}</text>
      </g>`,
    )}
    ${sample.floor_ms !== null
      ? html`<path class="timeline-floor" d=${`M${x(sample.floor_ms)} ${TOP - 6}V${bottom + 4}`} />
          <text class="timeline-note" x=${x(sample.floor_ms) + (floorLeft ? -5 : 5)} y=${TOP - 9} text-anchor=${floorLeft ? "end" : "start"}>floor ${ms(sample.floor_ms)}</text>`
      : null}
    ${sample.voted_ms !== null ? html`<path class="timeline-bar own" d=${`M${x(0)} ${home}H${Math.max(x(sample.voted_ms), x(0) + 1.5)}`} />` : null}
    ${sample.decided_ms !== null ? html`<path class="timeline-bar wait" d=${`M${x(sample.voted_ms ?? 0)} ${home}H${x(sample.decided_ms)}`} />` : null}
    ${sample.decided_ms !== null && sample.told_ms !== null ? html`<path class="timeline-bar own" d=${`M${x(sample.decided_ms)} ${home}H${Math.max(x(sample.told_ms), x(sample.decided_ms) + 1.5)}`} />` : null}
    ${sample.messages.map((message, n) => {
      const y = middle(message.to);
      if (message.kind === "commit") return html`<g key=${n}><path class="timeline-told" d=${`M${x(message.sent_ms)} ${home}V${y}`} /><circle class="timeline-commit" cx=${x(message.sent_ms)} cy=${y} r="4" /></g>`;
      const until = x(message.heard_ms ?? end);
      return html`<g key=${n}>
        <path class=${`timeline-bar ${message.kind} ${message.heard_ms === null ? "lost" : ""}`} d=${`M${x(message.sent_ms)} ${y}H${Math.max(until, x(message.sent_ms) + 1.5)}`} />
        ${message.heard_ms !== null ? html`<circle class=${`timeline-heard ${message.kind}`} cx=${until} cy=${y} r="5" />` : null}
      </g>`;
    })}
    <path class="timeline-answered" d=${`M${x(sample.answered_ms)} ${home - 10}l6 10l-6 10l-6 -10z`} />
    <path class="timeline-axis" d=${`M${LEFT} ${bottom + 4}H${WIDTH - RIGHT}`} />
    <text class="timeline-note" x=${LEFT} y=${bottom + 20}>0</text>
    <text class="timeline-note" x=${WIDTH - RIGHT} y=${bottom + 20} text-anchor="end">${ms(end)}</text>
    <text class="timeline-note strong" x=${Math.min(Math.max(x(sample.answered_ms), LEFT + 60), WIDTH - RIGHT - 120)} y=${bottom + 20} text-anchor="middle">answered ${ms(sample.answered_ms)}</text>
  </svg>`;
}

// The same in one line, for the list: the floor as a mark, the answer as a bar.
export function MiniTimeline({ sample, most }) {
  const x = (at) => 2 + (Math.min(at, most) / most) * 116;
  return html`<svg class="mini" viewBox="0 0 120 16" width="120" height="16" aria-hidden="true">
    <path class="mini-track" d="M2 8H118" />
    <path class=${`mini-bar ${sample.path}`} d=${`M2 8H${Math.max(4, x(sample.answered_ms))}`} />
    ${sample.floor_ms !== null && sample.floor_ms <= most ? html`<path class="mini-floor" d=${`M${x(sample.floor_ms)} 1V15`} />` : null}
  </svg>`;
}
