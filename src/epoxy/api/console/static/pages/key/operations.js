// Reads and writes of one key by form, and their outcomes in words.
import { html, useRef, useState } from "../../lib/html.js";
import { send } from "../../lib/api.js";
import { ms } from "../../lib/format.js";
import { Badge, Button, Confirm, Field } from "../../lib/ui.js";
import { typedBytes } from "./bytes.js";
import { Value } from "./value.js";

const KEPT = 8;

const OPERATIONS = [
  { name: "get", title: "Read", action: "Read it", hint: "What this region knows. A name that is taken is a local read." },
  { name: "sure", title: "Read for certain", action: "Ask a majority", hint: "Linearizable: finds every write that was acknowledged before." },
  { name: "reserve", title: "Reserve", action: "Reserve it for ever", hint: "Takes a free name, for ever: it can be neither changed nor deleted.", value: true, writes: true },
  { name: "put", title: "Put", action: "Write a version", hint: "Writes a value that can be changed later.", value: true, ttl: true, writes: true },
  { name: "cas", title: "Compare and set", action: "Write, if unchanged", hint: "Writes only if the committed version is the one you name; 0: never written.", value: true, version: true, writes: true },
  { name: "delete", title: "Delete", action: "Delete it", hint: "Leaves a tombstone: versions go on from there. Reserved names stay.", writes: true },
];

const PATHS = { fast: "one round trip", slow: "more than one round trip: somebody else wrote it, or a replica was slow", local: "no message left this region" };
const SOURCES = {
  local: "this region knew it",
  cache: "from this region's cache of what others told",
  remote: "another region had it",
  quorum: "a majority was asked",
  legacy: "a value of the first layout",
};

const READING = { accept: "application/json" };

function request(name, path, { body, version, ttl }) {
  switch (name) {
    case "get":
      return ["GET", path, { headers: READING, expected: [404] }];
    case "sure":
      return ["GET", `${path}?read=linearizable`, { headers: READING, expected: [404] }];
    case "reserve":
      return ["PUT", path, { body, headers: READING, expected: [409] }];
    case "put":
      return ["PUT", `${path}?mode=put${ttl ? `&ttl=${ttl}` : ""}`, { body, headers: READING, expected: [409] }];
    case "cas":
      return ["PUT", `${path}?mode=put&if_version=${version}`, { body, headers: READING, expected: [409] }];
    default:
      return ["DELETE", path, { headers: READING, expected: [404, 409] }];
  }
}

// {kind, words, record}: what an answer means.
function outcome(name, { status, headers, body }) {
  const version = headers.get("epoxy-version");
  if (name === "get" || name === "sure") {
    if (status === 404) return { kind: "info", words: version ? `It was deleted, at version ${version}.` : "There is no such key." };
    return { kind: "good", words: `Version ${body.version}${body.mutable ? "" : ", for ever"}.`, record: body };
  }
  if (status === 404) return { kind: "info", words: "There was nothing to delete." };
  if (status === 409) return refused(body);
  if (name === "delete") return { kind: "good", words: `Deleted: its tombstone is version ${body.version}.` };
  if (name === "reserve") {
    const words = body.mine ? "Yours: no other client anywhere was told that it won." : "Reserved before, with this very value.";
    return { kind: body.mine ? "good" : "info", words, record: body };
  }
  return { kind: "good", words: `Written as version ${body.version}.`, record: body };
}

function refused(body) {
  const words = {
    taken: "Not written: the name is taken, for ever.",
    immutable: "Not written: the name is reserved, for ever.",
    version_mismatch: `Not written: the committed version is ${body.committed?.version ?? 0}.`,
    wrong_engine: "Not written: the key belongs to transactions.",
    exists: "Not written: the key has a value.",
  };
  return { kind: "warn", words: words[body.error?.code] ?? body.error?.message ?? "Not written.", record: body.committed };
}

function Latency({ took, floor, cost }) {
  const scale = Math.max(took, floor ?? 0, 1) * 1.05;
  return html`<div class="key-latency">
    <span><strong>${ms(took)}</strong>${floor ? html` <span class="muted">floor ${ms(floor)}</span>` : null}${cost ? html`<span class="hint">${cost}</span>` : null}</span>
    <span class="key-bar" aria-hidden="true">
      <span style=${{ width: `${(100 * took) / scale}%` }}></span>
      ${floor ? html`<i style=${{ left: `${(100 * floor) / scale}%` }}></i>` : null}
    </span>
  </div>`;
}

function Outcomes({ done }) {
  return html`<ol class="key-outcomes" aria-live="polite" aria-label="What came out, the newest first">
    ${done.map(
      (each) => html`<li key=${each.number}>
        <span class="key-what"><strong>${each.title}</strong> <${Badge} kind=${each.kind}>${each.words}<//></span>
        ${each.record?.value_base64 !== undefined && each.record?.value_base64 !== null ? html`<div><${Value} base64=${each.record.value_base64} /></div>` : null}
        <${Latency} took=${each.took} floor=${each.floor} cost=${each.cost} />
      </li>`,
    )}
  </ol>`;
}

// `floor`: of this node, in milliseconds. `version`: what is committed now, as far as the page knows.
export function Operations({ path, floor, version, mayWrite, onDone }) {
  const [name, setName] = useState("get");
  const [text, setText] = useState("");
  const [form, setForm] = useState("text");
  const [expected, setExpected] = useState("");
  const [ttl, setTtl] = useState("");
  const [done, setDone] = useState([]);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const [asking, setAsking] = useState(false);
  const numbers = useRef(0);
  const operation = OPERATIONS.find((each) => each.name === name);
  const forbidden = operation.writes && !mayWrite;

  const perform = async () => {
    setProblem("");
    let given;
    try {
      given = {
        body: operation.value ? typedBytes(text, form) : undefined,
        version: operation.version ? wholeNumber(expected, "The version", 0) : null,
        ttl: operation.ttl && ttl.trim() ? wholeNumber(ttl, "The time to live", 1) * 1000 : null,
      };
    } catch (error) {
      setProblem(error.message);
      return;
    }
    setBusy(true);
    const began = performance.now();
    let found;
    try {
      const answer = await send(...request(name, path, given));
      found = outcome(name, answer);
      found.cost = PATHS[answer.headers.get("epoxy-path")] ?? SOURCES[answer.headers.get("epoxy-source")] ?? "";
      found.local = ["local", "cache"].includes(answer.headers.get("epoxy-path") ?? answer.headers.get("epoxy-source"));
    } catch (error) {
      found = { kind: "bad", words: error.definite ? error.message : `${error.message} It is not known whether it was done.` };
    }
    const took = performance.now() - began;
    numbers.current += 1;
    const entry = { ...found, number: numbers.current, title: operation.title, took, floor: found.local || found.kind === "bad" ? null : floor };
    setDone((before) => [entry, ...before].slice(0, KEPT));
    setBusy(false);
    onDone();
  };

  const submit = (event) => {
    event.preventDefault();
    if (name === "reserve" || name === "delete") setAsking(true);
    else perform();
  };

  return html`<form class="key-form" onSubmit=${submit}>
      <fieldset class="key-choice">
        <legend>What to do</legend>
        ${OPERATIONS.map(
          (each) => html`<label key=${each.name}>
            <input type="radio" name="operation" value=${each.name} checked=${each.name === name} onChange=${() => setName(each.name)} /> ${each.title}
          </label>`,
        )}
      </fieldset>
      <p class="hint" id="operation-hint">${operation.hint}</p>
      ${operation.value
        ? html`<div class="key-fields">
            <${Field} id="key-new-value" label="Value">
              <textarea id="key-new-value" rows="2" spellcheck="false" value=${text} onInput=${(event) => setText(event.target.value)}></textarea>
            <//>
            <${Field} id="key-value-form" label="Written as">
              <select id="key-value-form" value=${form} onChange=${(event) => setForm(event.target.value)}>
                <option value="text">text</option>
                <option value="hex">hex</option>
                <option value="base64">base64</option>
              </select>
            <//>
            ${operation.version
              ? html`<${Field} id="key-version" label="Only if the version is" hint=${version === null ? null : `committed now: ${version}`}>
                  <input id="key-version" type="text" inputmode="numeric" aria-describedby="key-version-hint" value=${expected} onInput=${(event) => setExpected(event.target.value)} />
                <//>`
              : null}
            ${operation.ttl
              ? html`<${Field} id="key-ttl" label="Ends after (seconds)" hint="empty: never">
                  <input id="key-ttl" type="text" inputmode="numeric" aria-describedby="key-ttl-hint" value=${ttl} onInput=${(event) => setTtl(event.target.value)} />
                <//>`
              : null}
          </div>`
        : null}
      ${problem ? html`<p class="key-problem" role="alert">${problem}</p>` : null}
      ${forbidden ? html`<p class="key-problem">Your token may read this key, and not write it.</p>` : null}
      <div class="actions">
        <button type="submit" class=${operation.name === "delete" ? "danger" : "primary"} disabled=${busy || forbidden} aria-describedby="operation-hint">${busy ? "On its way…" : operation.action}</button>
        ${operation.version && version !== null ? html`<${Button} onClick=${() => setExpected(String(version))}>Use version ${version}<//>` : null}
      </div>
      <${Confirm}
        open=${asking}
        title=${name === "delete" ? "Delete this key?" : "Reserve this name for ever?"}
        action=${operation.action}
        kind=${name === "delete" ? "danger" : "primary"}
        onClose=${(confirmed) => {
          setAsking(false);
          if (confirmed) perform();
        }}
      >
        <p>${name === "delete" ? "Its value is gone for all regions; its version goes on." : "A reserved name can never be changed, given back or deleted."}</p>
      <//>
    </form>
    <${Outcomes} done=${done} />`;
}

function wholeNumber(text, what, least) {
  const plain = text.trim();
  if (!/^\d{1,15}$/.test(plain) || Number(plain) < least) throw new Error(`${what} is a whole number from ${least} on.`);
  return Number(plain);
}
