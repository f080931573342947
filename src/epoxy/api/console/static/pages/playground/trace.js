// The shortest run in which the judge finds the fault, as lanes of replicas with the messages between them.
import { html } from "../../lib/html.js";
import { Notice } from "../../lib/ui.js";

// The replicas that a trace names, in order.
function lanesOf(trace) {
  const named = new Set(trace.flatMap((line) => (line.sender ? [line.sender, ...line.to] : [])));
  return [...named].sort();
}

function Arrows({ line, lanes }) {
  const from = lanes.indexOf(line.sender);
  return html`<span class="pg-lanes" aria-hidden="true">
    ${lanes.map((name, at) => html`<span key=${name} class=${`pg-lane ${at === from ? "from" : ""}`}></span>`)}
    ${line.to.map((name) => {
      const to = lanes.indexOf(name);
      const kind = `${to > from ? "right" : "left"} ${line.is_reply ? "reply" : ""} ${line.lost.includes(name) ? "lost" : ""}`;
      return html`<span key=${name} class=${`pg-arrow ${kind}`} style=${{ "--from": Math.min(from, to), "--span": Math.abs(to - from) }}></span>`;
    })}
  </span>`;
}

function Line({ line, lanes }) {
  const lost = line.lost.length ? html` <span class="pg-lost">lost on the way${line.to.length > 1 ? ` to ${line.lost.join(", ")}` : ""}</span>` : null;
  return html`<li class=${line.sender ? "" : "pg-event"}>
    <span class="pg-time">${line.ms.toFixed(1)} ms</span>
    ${line.sender ? html`<${Arrows} line=${line} lanes=${lanes} />` : html`<span class="pg-lanes" aria-hidden="true">${lanes.map((name) => html`<span key=${name} class="pg-lane"></span>`)}</span>`}
    <span class="pg-what">
      ${line.sender ? html`<strong>${line.sender} ${line.is_reply ? "answers" : "to"} ${line.to.join(", ")}</strong>${" "}` : null}${line.text}${lost}
    </span>
  </li>`;
}

// What the judge says, what that means, and what it has seen.
export function Finding({ failure, findings, seed = null }) {
  return html`<${Notice} kind="bad">
    <strong>The judge${seed === null ? "" : `, at seed ${seed}`}: ${failure.rule}.</strong> ${findings[failure.rule] ?? ""}
    <span class="pg-detail">${failure.detail}</span>
  <//>`;
}

export function TraceView({ found, findings }) {
  const lanes = lanesOf(found.trace);
  return html`<div class="pg-trace" id="pg-trace" style=${{ "--lanes": lanes.length }}>
    <${Finding} failure=${found.failure} findings=${findings} />
    <h3>The shortest trace</h3>
    <p class="muted">
      Found in ${found.runs.toLocaleString("en")} runs, each with something left out${found.complete ? "; nothing more could be" : ""}. What is left of the plan:
    </p>
    <ul class="pg-plan">${found.plan.map((line) => html`<li key=${line}>${line}</li>`)}</ul>
    ${found.left_off ? html`<p class="muted">The first ${found.left_off} lines are left off.</p>` : null}
    <div class="pg-trace-head" aria-hidden="true">
      <span class="pg-time"></span>
      <span class="pg-lanes">${lanes.map((name) => html`<span key=${name} class="pg-lane-name">${name}</span>`)}</span>
    </div>
    <ol class="pg-lines">${found.trace.map((line, at) => html`<${Line} key=${at} line=${line} lanes=${lanes} />`)}</ol>
    <p class="muted">The whole run, on your machine: <code>${found.command}</code></p>
  </div>`;
}
