// Epochs on a timeline: a lane for each datacenter, a column for each epoch. The list beside it says the same in words.
import { html, useEffect, useRef } from "../../lib/html.js";
import { ago, time } from "../../lib/format.js";
import { Badge } from "../../lib/ui.js";

const NARROW = 84;
const WIDE = 150;
const BESIDE = 320;
const LANE = 34;
const TOP = 30;
const BOTTOM = 30;
const SHOWN = 24;

function lanes(epochs) {
  const found = new Map();
  for (const epoch of epochs) for (const member of epoch.members) found.set(member.id, member.datacenter || `replica ${member.id}`);
  return [...found].sort(([one], [other]) => one - other);
}

function clock(seconds) {
  return new Date(1000 * seconds).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

// A bar for each stay of a member in one status, so that nothing is cut at the borders of epochs that change nothing for it.
function bars(epochs, id) {
  const found = [];
  epochs.forEach((epoch, place) => {
    const status = epoch.members.find((member) => member.id === id)?.status;
    const last = found[found.length - 1];
    if (status && last?.status === status && last.end === place) last.end += 1;
    else if (status) found.push({ status, begin: place, end: place + 1 });
  });
  return found;
}

const WORDS = { joining: "joins", learning: "copies", active: "votes", leaving: "leaves" };

// The names stay where they are while the epochs beside them are scrolled.
function Names({ rows, height }) {
  return html`<ul class="members-lanes" aria-hidden="true" style=${{ height: `${height}px`, paddingTop: `${TOP}px` }}>
    ${rows.map(([id, name]) => html`<li key=${id} style=${{ height: `${LANE}px`, lineHeight: `${LANE}px` }}>${name}</li>`)}
  </ul>`;
}

function Drawing({ epochs }) {
  const wrap = useRef(null);
  const newest = epochs[epochs.length - 1].epoch;
  useEffect(() => {
    wrap.current.scrollLeft = wrap.current.scrollWidth;
  }, [newest]);
  const rows = lanes(epochs);
  const column = Math.min(WIDE, Math.max(NARROW, (window.innerWidth - BESIDE) / epochs.length));
  const width = column * epochs.length;
  const height = TOP + LANE * rows.length + BOTTOM;
  return html`<div class="members-timeline">
    <${Names} rows=${rows} height=${height} />
    <div class="members-drawing" ref=${wrap} role="region" aria-label="Epochs on a timeline" tabindex="0">
      <svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${`Epochs ${epochs[0].epoch} to ${newest}; the list below says the same in words`}>
        ${epochs.map(
          (epoch, place) => html`<g key=${epoch.epoch} transform=${`translate(${column * place} 0)`}>
            ${epoch.joint ? html`<rect class="members-together" x="0" y=${TOP - 4} width=${column} height=${height - TOP - BOTTOM + 8} rx="6" />` : null}
            <text class="members-epoch" x=${column / 2} y="18" text-anchor="middle">${epoch.epoch}</text>
            <text class="members-when" x=${column / 2} y=${height - 10} text-anchor="middle">${epoch.at === null ? "earlier" : clock(epoch.at)}</text>
          </g>`,
        )}
        ${rows.map(
          ([id], lane) => html`<g key=${id} transform=${`translate(0 ${TOP + LANE * lane})`}>
            <line class="members-rail" x1="0" x2=${width} y1=${LANE / 2} y2=${LANE / 2} />
            ${bars(epochs, id).map(
              ({ status, begin, end }) => html`<g key=${begin}>
                <rect class=${`members-bar ${status}`} x=${column * begin + 3} y=${LANE / 2 - 11} width=${column * (end - begin) - 6} height="22" rx="7" />
                <text class=${`members-bar-word ${status}`} x=${(column * (begin + end)) / 2} y=${LANE / 2 + 4.5} text-anchor="middle">${WORDS[status] ?? status}</text>
              </g>`,
            )}
          </g>`,
        )}
      </svg>
    </div>
  </div>`;
}

function Entry({ epoch }) {
  return html`<li>
    <p class="members-entry">
      <strong>Epoch ${epoch.epoch}</strong>${" "}
      ${epoch.joint ? html`<${Badge} kind="warn">old and new together<//>${" "}` : null}
      <span class="muted">${epoch.at === null ? "before this node's process" : html`<time datetime=${new Date(1000 * epoch.at).toISOString()}>${time(epoch.at)}</time>, ${ago(epoch.at)}`}</span>
    </p>
    ${epoch.changes.map((change, place) => html`<p key=${place}>${change.words}</p>`)}
    ${epoch.changes.length === 0 ? html`<p class="muted">nothing that members would notice</p>` : null}
    ${epoch.missed ? html`<p class="muted">${epoch.missed} epoch${epoch.missed === 1 ? "" : "s"} before it ${epoch.missed === 1 ? "is" : "are"} not known here</p>` : null}
  </li>`;
}

export function Timeline({ past }) {
  const drawn = past.epochs.slice(0, SHOWN).reverse();
  return html`
    <${Drawing} epochs=${drawn} />
    <p class="hint">An epoch is a set of members. A shaded one has two: while members change, old and new must agree, until the new ones have copied everything.</p>
    <ol class="members-epochs" tabindex="0" aria-label="Epochs, newest first">${past.epochs.map((epoch) => html`<${Entry} key=${epoch.epoch} epoch=${epoch} />`)}</ol>
    ${past.complete ? null : html`<p class="muted">Earlier epochs are not kept at this node.</p>`}
  `;
}
