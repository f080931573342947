// Replicas as columns, with their clients above them and the messages in flight as arrows between them.
import { html, useState } from "../../lib/html.js";
import { Badge, Button } from "../../lib/ui.js";

const QUESTIONS = [
  { code: "r", title: "reserve", value: true },
  { code: "p", title: "put", value: true },
  { code: "a", title: "add 1" },
  { code: "x", title: "delete" },
  { code: "g", title: "read here" },
  { code: "l", title: "read with a quorum" },
];
const NAMES = ["ada", "bob", "cy", "dee", "eve"];
const MOST_LETTERS = 12;

function Client({ replica, at, step, blocked }) {
  const [question, setQuestion] = useState("r");
  const [value, setValue] = useState(NAMES[at]);
  const { value: hasValue } = QUESTIONS.find(({ code }) => code === question);
  const ask = (event) => {
    event.preventDefault();
    step(`q${at + 1}${question}${hasValue ? `:${value}` : ""}`);
  };
  return html`<div class="pg-client">
    <p class="pg-who">Client at ${replica.name}</p>
    ${replica.waits
      ? html`<p><span class="pg-dot" aria-hidden="true"></span>waits for: ${replica.waits}</p>`
      : html`<form onSubmit=${ask}>
          <select aria-label=${`What the client at ${replica.name} asks for`} value=${question} onChange=${(event) => setQuestion(event.target.value)}>
            ${QUESTIONS.map(({ code, title }) => html`<option key=${code} value=${code}>${title}</option>`)}
          </select>
          ${hasValue ? html`<input type="text" aria-label=${`Value of the client at ${replica.name}`} required pattern="[A-Za-z0-9_\\-]+" maxlength=${MOST_LETTERS} value=${value} onInput=${(event) => setValue(event.target.value)} />` : null}
          <button type="submit" disabled=${blocked} aria-label=${`Ask at ${replica.name}`}>Ask</button>
        </form>`}
    ${replica.told ? html`<p class="pg-answer">told: ${replica.told}</p>` : null}
  </div>`;
}

function Replica({ replica, at, step, blocked }) {
  const field = (name, title, none) => html`<div class=${replica.changed.includes(name) ? "pg-changed" : ""}>
    <dt>${title}</dt>
    <dd class=${replica[name] ? "" : "muted"}>${replica[name] ?? none}</dd>
  </div>`;
  return html`<section class=${`pg-replica ${replica.up ? "" : "pg-down"}`} aria-label=${`Replica ${replica.name}`}>
    <${Client} replica=${replica} at=${at} step=${step} blocked=${blocked} />
    <div class="pg-state">
      <h3><span class="pg-letter" aria-hidden="true">${replica.name}</span><span class="visually-hidden">Replica ${replica.name}</span>
        ${replica.up ? (replica.votes ? html`<${Badge} kind="good">up<//>` : html`<${Badge} kind="warn">not admitted yet<//>`) : html`<${Badge} kind="bad">down<//>`}
      </h3>
      <dl>${field("committed", "Committed", "nothing")}${field("promised", "Promise", "none")}${field("vote", "Vote", "none")}</dl>
      <${Button} disabled=${blocked} aria-label=${`${replica.up ? "Crash" : "Start"} ${replica.name}`} onClick=${() => step(`${replica.up ? "c" : "r"}${at + 1}`)}>${replica.up ? "Crash" : "Start again"}<//>
    </div>
  </section>`;
}

const place = (name) => name.charCodeAt(0) - "A".charCodeAt(0);

function Message({ message, step, blocked }) {
  const from = place(message.from);
  const to = place(message.to);
  const act = (code) => () => step(`${code}${message.number}`);
  const named = (verb) => `${verb} message ${message.number}, ${message.from} to ${message.to}: ${message.title}`;
  return html`<li class=${`pg-message ${message.tone}`} style=${{ "--from": Math.min(from, to), "--span": Math.abs(to - from), "--to": to }}>
    <span class=${`pg-flight ${to > from ? "right" : "left"}`} aria-hidden="true"></span>
    <div class=${`pg-card ${to > from ? "right" : "left"}`}>
      <p class="pg-way"><strong>${message.from} → ${message.to}</strong> <span class="muted">${message.kind} · ${message.number}</span></p>
      <p class="pg-title">${message.title}</p>
      ${message.detail ? html`<p class="muted pg-small">${message.detail}</p>` : null}
      <div class="pg-acts">
        <button type="button" class="pg-deliver" disabled=${blocked} aria-label=${named("Deliver")} onClick=${act("d")}>Deliver</button>
        <button type="button" class="quiet" disabled=${blocked} aria-label=${named("Drop")} onClick=${act("x")}>Drop</button>
        <button type="button" class="quiet" disabled=${blocked} aria-label=${named("Deliver and repeat")} title="Deliver it, and keep a copy in the network" onClick=${act("u")}>Repeat</button>
      </div>
    </div>
  </li>`;
}

export function Board({ view, step, messages }) {
  const blocked = Boolean(view.failure);
  return html`<div class="pg-board" style=${{ "--n": view.n }}>
    <div class="pg-replicas">
      ${view.replicas.map((replica, at) => html`<${Replica} key=${replica.name} replica=${replica} at=${at} step=${step} blocked=${blocked} />`)}
    </div>
    <h3 class="pg-flying">${view.messages.length ? `In flight: ${view.messages.length}` : "No message is in flight"}</h3>
    <ol class="pg-messages" ref=${messages}>
      ${view.messages.map((message) => html`<${Message} key=${message.number} message=${message} step=${step} blocked=${blocked} />`)}
    </ol>
  </div>`;
}
