// What the visitor chooses: regions, quorum sizes, and whose round trips.
import { html, useEffect, useState } from "../../lib/html.js";
import { Button, ErrorNotice, Field, Notice } from "../../lib/ui.js";
import { LONGEST_TEXT } from "./address.js";
import { PLACES } from "./places.js";
import { ask } from "./question.js";

const EXAMPLE = `from,to,rtt_ms
oslo,lima,190.5
oslo,perth,310
lima,perth,280
`;
const LONGEST_FILE = 64 * 1024;

export function Regions({ known, chosen, onToggle }) {
  return html`<fieldset class="plan-regions">
    <legend>Regions</legend>
    <ul>
      ${known.map(
        (name) => html`<li key=${name}>
          <label>
            <input type="checkbox" checked=${chosen.includes(name)} onChange=${() => onToggle(name)} />
            <span>${name}${PLACES[name] ? html` <span class="muted">${PLACES[name].title}</span>` : null}</span>
          </label>
        </li>`,
      )}
    </ul>
  </fieldset>`;
}

export function Presets({ choices, onChoose }) {
  return html`<div class="actions plan-presets">
    ${choices.map((choice) => html`<${Button} key=${choice.length} onClick=${() => onChoose(choice)}>${choice.length} of the demo<//>`)}
    <${Button} onClick=${() => onChoose([])}>None<//>
  </div>`;
}

export function OwnRoundTrips({ rtt, policy, onUse, onBack }) {
  const [text, setText] = useState(rtt);
  const [error, setError] = useState(null);
  const [openAtFirst] = useState(Boolean(rtt));
  useEffect(() => setText(rtt), [rtt]);
  const tryIt = async () => {
    try {
      await ask({ regions: null, down: [], policy, add: null, rtt: text });
      setError(null);
      onUse(text);
    } catch (problem) {
      setError(problem);
    }
  };
  const open = async (event) => {
    const [file] = event.target.files;
    event.target.value = "";
    if (!file) return;
    if (file.size > LONGEST_FILE) {
      setError(new Error(`${file.name} has more than ${LONGEST_FILE / 1024} KiB: too much for a table of round trips.`));
      return;
    }
    setText(await file.text());
    setError(null);
  };
  return html`<details class="plan-own" open=${openAtFirst}>
    <summary>${rtt ? "Your own round trips are used" : "Use your own round trips"}</summary>
    <${Field}
      id="plan-rtt"
      label="Round trips in milliseconds, CSV or JSON"
      hint="Lines of from,to,rtt_ms; or a table with the regions in its first line and column; or JSON. One direction is enough, at most 15 regions. The node computes with them and keeps nothing."
    >
      <textarea id="plan-rtt" rows="7" spellcheck="false" aria-describedby="plan-rtt-hint" value=${text} onInput=${(event) => setText(event.target.value)}></textarea>
    <//>
    <${Field} id="plan-file" label="Or open a file">
      <input id="plan-file" type="file" accept=".csv,.json,.txt,text/csv,application/json" onChange=${open} />
    <//>
    <${ErrorNotice} error=${error} />
    ${rtt.length > LONGEST_TEXT ? html`<${Notice} kind="warn">These round trips are too long for a link: another person needs the file.<//>` : null}
    <div class="actions">
      <${Button} kind="primary" disabled=${!text.trim()} onClick=${tryIt}>Use these round trips<//>
      <${Button} onClick=${() => { setText(EXAMPLE); setError(null); }}>Fill in an example<//>
      ${rtt ? html`<${Button} onClick=${() => { setError(null); onBack(); }}>Back to AWS regions<//>` : null}
    </div>
  </details>`;
}
