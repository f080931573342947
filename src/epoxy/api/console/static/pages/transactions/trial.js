// A small form for one transaction, in the JSON that `epoxy txn` and POST /v2/txn take.
import { html, useState } from "../../lib/html.js";
import { send } from "../../lib/api.js";
import { keyText, ms } from "../../lib/format.js";
import { Busy, Button, ErrorNotice, Field, Notice, Table } from "../../lib/ui.js";

const EXAMPLES = {
  "Move 5 from one number to another": {
    then: [
      { op: "add", key: "console/a", amount: -5 },
      { op: "add", key: "console/b", amount: 5 },
    ],
    reads: ["console/a", "console/b"],
  },
  "Write two keys if a third is absent": {
    compare: [{ key: "console/frozen", absent: true }],
    then: [
      { op: "put", key: "console/name", value: "ada" },
      { op: "put", key: "console/mail", value: "ada@example.org" },
    ],
    else: [{ op: "get", key: "console/frozen" }],
  },
  "Read several keys at one moment": { reads: ["console/a", "console/b", "console/name"] },
};

// A line for each part, as a person would write it.
function shown(document) {
  const parts = Object.entries(document).map(([name, list]) => `  "${name}": [\n${list.map((each) => `    ${JSON.stringify(each)}`).join(",\n")}\n  ]`);
  return `{\n${parts.join(",\n")}\n}`;
}

function valueText(result) {
  if (result.error) return `nothing was done: ${result.error}`;
  if (result.value !== null && result.value !== undefined) return result.value;
  return result.value_base64 ? `bytes, in base64: ${result.value_base64}` : "absent";
}

// What was asked beside what came of it, a row each.
function rowsOf(asked, answer) {
  const done = answer.succeeded ? (asked.then ?? []) : (asked.else ?? []);
  return [
    ...(asked.compare ?? []).map((compare, n) => ({ what: "compared", key: compare.key, result: answer.compares?.[n] })),
    ...(asked.reads ?? []).map((key, n) => ({ what: "read, before it", key, result: answer.reads?.[n] })),
    ...done.map((each, n) => ({ what: each.op === "add" ? `added ${each.amount}` : each.op, key: each.key, result: answer.results?.[n] })),
  ].map((row, id) => ({ ...row, id }));
}

function Outcome({ outcome }) {
  const { asked, answer, tookMs } = outcome;
  const held = answer.succeeded;
  return html`<div aria-live="polite">
    <${Notice} kind=${held ? "good" : "warn"}>
      ${held ? "Done, at one moment, in the same order in every datacenter." : "The conditions did not hold: what stands under “else” was done, and nothing of “then”."}
      ${" "}It took ${ms(tookMs)}, seen from this page.
    <//>
    <${Table}
      caption="What it saw and did"
      columns=${[
        { key: "key", title: "Key", cell: (row) => html`<code>${keyText(row.key)}</code>` },
        { key: "what", title: "Part" },
        { key: "value", title: "Value", cell: (row) => html`<code>${row.result === undefined ? "" : valueText(row.result)}</code>` },
        { key: "version", title: "Version", number: true, cell: (row) => row.result?.version ?? "" },
      ]}
      rows=${rowsOf(asked, answer)}
    />
    <p class="hint">Reads and compares show the values before it, a put or delete the value that it replaced, an add the sum.</p>
  </div>`;
}

export function Trial({ rights, node }) {
  const [text, setText] = useState(shown(Object.values(EXAMPLES)[0]));
  const [state, setState] = useState({ busy: false, error: null, outcome: null });
  const run = async (event) => {
    event.preventDefault();
    let asked;
    try {
      asked = JSON.parse(text);
    } catch (error) {
      setState({ busy: false, outcome: null, error: { message: `Nothing was sent: this is no JSON. ${error.message}`, definite: true } });
      return;
    }
    setState({ busy: true, error: null, outcome: null });
    const began = performance.now();
    try {
      const { body } = await send("POST", "/v2/txn", { json: asked });
      setState({ busy: false, error: null, outcome: { asked, answer: body, tookMs: performance.now() - began } });
    } catch (error) {
      setState({ busy: false, error, outcome: null });
    }
  };
  if (!node) return html`<${Busy} what="Asking the node" />`;
  if (!rights.writes) {
    return html`<${Notice}>${rights.known ? "Your token may not write, so it may run no transactions: that takes the role writer." : "This cluster asks for a token: with the role writer you may run a transaction here."}<//>`;
  }
  return html`<div class="txn-try">
    <form onSubmit=${run}>
      <${Field} id="txn-json" label="Transaction" hint="As epoxy txn takes it: if every compare holds, “then” is done, otherwise “else”.">
        <textarea id="txn-json" aria-describedby="txn-json-hint" spellcheck="false" value=${text} onInput=${(event) => setText(event.target.value)}></textarea>
      <//>
      <div class="actions">
        <button type="submit" class="primary" disabled=${state.busy}>${state.busy ? "Running…" : "Run this transaction"}</button>
      </div>
      <p class="hint">Examples, which replace the text above:</p>
      <div class="actions">
        ${Object.entries(EXAMPLES).map(([title, document]) => html`<${Button} key=${title} kind="quiet" onClick=${() => setText(shown(document))}>${title}<//>`)}
      </div>
    </form>
    <div>
      <${ErrorNotice} error=${state.error} />
      ${state.outcome ? html`<${Outcome} outcome=${state.outcome} />` : state.error ? null : html`<p class="muted">What comes of it is shown here. The keys it names belong to transactions from then on; single writes of them go on to work.</p>`}
    </div>
  </div>`;
}
