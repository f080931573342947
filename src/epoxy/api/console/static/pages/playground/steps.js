// One small cluster, one message at a time. All that is shown comes from the worker; the page holds no rule of the protocol.
import { html, useEffect, useRef, useState } from "../../lib/html.js";
import { Button, Field, Notice, Section } from "../../lib/ui.js";
import { Stopped } from "./engine.js";
import { Board } from "./board.js";
import { Finding } from "./trace.js";

const NO_RULE = "-";
const SIZES = [3, 5];

// #/playground/steps/3/1/-/q1r:ada.d1 : replicas, seed, broken rule, steps.
function ofLink([n, seed, mutant, steps], rules) {
  return {
    n: SIZES.includes(Number(n)) ? Number(n) : 3,
    seed: /^\d{1,9}$/.test(seed ?? "") ? Number(seed) : 1,
    mutant: rules.some((rule) => rule.mutant === mutant) ? mutant : null,
    steps: steps ? steps.split(".") : [],
  };
}

function linkOf({ n, seed, mutant, steps }) {
  return `#/playground/steps/${n}/${seed}/${mutant ?? NO_RULE}${steps.length ? `/${steps.join(".")}` : ""}`;
}

function Told({ told }) {
  if (told.length === 0) return html`<p class="muted">No step yet.</p>`;
  return html`<div class="pg-history" role="region" aria-label="Steps so far, the newest first" tabindex="0">
    <ol class="pg-told" reversed>
      ${[...told].reverse().map(
        ({ words }, at) => html`<li key=${told.length - at} class=${at === 0 ? "newest" : ""}>
          ${words.map((sentence) => html`<span key=${sentence}>${sentence} </span>`)}
        </li>`,
      )}
    </ol>
  </div>`;
}

function Stories({ stories, onOpen }) {
  return html`<details class="pg-stories">
    <summary>Stories to begin with</summary>
    <ul>
      ${stories.map(
        (story) => html`<li key=${story.title}>
          <button type="button" class="pg-link" onClick=${() => onOpen(story)}>${story.title}</button>
          <span class="muted">${story.text}</span>
        </li>`,
      )}
    </ul>
  </details>`;
}

export function StepsView({ engine, rules, stories, findings, link }) {
  const [view, setView] = useState(null);
  const [error, setError] = useState(null);
  const [story, setStory] = useState(null);
  const [copied, setCopied] = useState(false);
  const busy = useRef(false);
  const messages = useRef(null);

  // One step at a time: a second press of the same button is not a second step.
  const ask = async (request) => {
    if (busy.current) return;
    busy.current = true;
    setError(null);
    setCopied(false);
    try {
      const found = await engine.ask(request).answer;
      history.replaceState(null, "", linkOf(found));
      setView(found);
    } catch (problem) {
      if (!(problem instanceof Stopped)) setError(problem.message);
    }
    busy.current = false;
  };
  const open = ({ n, seed, mutant, steps }) => ask({ do: "open", n, seed, mutant, steps });
  const begin = (settings) => {
    setStory(null);
    return open({ ...view, ...settings, steps: [] });
  };
  const tell = (chosen) => {
    setStory(chosen);
    return open(chosen);
  };
  const step = (text) => ask({ do: "step", step: text });

  // A link that is opened, or pasted while the page is open.
  useEffect(() => {
    setStory(null);
    open(ofLink(link, rules));
  }, [link]);

  // The button that was pressed is gone with its message: the keyboard goes on with the next one.
  useEffect(() => {
    if (view && (document.activeElement === document.body || document.activeElement === null)) {
      (messages.current?.querySelector("button.pg-deliver") ?? document.getElementById("pg-next"))?.focus();
    }
  }, [view]);

  const copy = async () => {
    await navigator.clipboard.writeText(location.href);
    setCopied(true);
  };

  if (!view) return error ? html`<${Notice} kind="bad">${error}<//>` : html`<p class="muted" role="status">Setting the table…</p>`;
  const rule = rules.find((each) => each.mutant === view.mutant);
  const newest = view.told[view.told.length - 1];
  return html`
    <${Section} title="Step by step">
      <p class="muted">
        ${view.n} replicas decide on one key. ${view.fast} votes in the fast round decide it at once, the proposer's own included; if clients collide, a majority
        of ${view.slow} decides in a classic round. Messages arrive when you deliver them, and no timer rings unless you let time pass.
      </p>
      <div class="pg-form">
        <${Field} id="pg-size" label="Replicas">
          <select id="pg-size" value=${view.n} onChange=${(event) => begin({ n: Number(event.target.value) })}>
            ${SIZES.map((n) => html`<option key=${n} value=${n}>${n}</option>`)}
          </select>
        <//>
        <${Field} id="pg-rule" label="Rule to break">
          <select id="pg-rule" value=${view.mutant ?? NO_RULE} onChange=${(event) => begin({ mutant: event.target.value === NO_RULE ? null : event.target.value })}>
            <option value=${NO_RULE}>none: the protocol as it is</option>
            ${rules.map((each) => html`<option key=${each.mutant} value=${each.mutant}>${each.title}</option>`)}
          </select>
        <//>
      </div>
      ${rule ? html`<${Notice} kind="warn"><strong>This rule is broken here:</strong> ${rule.rule} <em>${rule.without}</em><//>` : null}
      <${Stories} stories=${stories} onOpen=${tell} />
      ${story ? html`<${Notice}><strong>${story.title}.</strong> ${story.text}<//>` : null}
      <div class="actions" role="group" aria-label="Steps">
        <${Button} id="pg-next" kind="primary" disabled=${view.failure || !view.messages.length} onClick=${() => step(`d${view.messages[0].number}`)}>Deliver the oldest<//>
        <${Button} disabled=${view.failure || !view.messages.length} onClick=${() => ask({ do: "play on" })}>Deliver all<//>
        <${Button} disabled=${view.failure} onClick=${() => step("t")}>Let time pass<//>
        <${Button} disabled=${!view.steps.length} onClick=${() => ask({ do: "back" })}>Step back<//>
        <${Button} disabled=${!view.steps.length} onClick=${() => begin({})}>Begin anew<//>
        ${navigator.clipboard ? html`<${Button} onClick=${copy}>${copied ? "Copied" : "Copy link"}<//>` : null}
        <span class="pg-clock">${view.ms.toFixed(1)} ms of virtual time</span>
      </div>
      <p class="pg-newest" aria-live="polite">${newest ? newest.words.join(" ") : "Nothing has happened yet. Let two clients ask for the same name, at different replicas, and deliver the messages in any order."}</p>
    <//>
    ${error ? html`<${Notice} kind="bad">${error}<//>` : null}
    ${view.failure ? html`<${Finding} failure=${view.failure} findings=${findings} />` : null}
    <${Board} view=${view} step=${step} messages=${messages} />
    <${Section} title="What happened"><${Told} told=${view.told} /><//>
  `;
}
