// One key: what each replica holds, what that means, its history, and forms to read and write it.
import { html, useEffect, useLayoutEffect, useState } from "../lib/html.js";
import { useJson } from "../lib/live.js";
import { count, keyHref, keyText } from "../lib/format.js";
import { Badge, Busy, Button, ErrorNotice, Field, Notice, Page, Section, Table, useStyles } from "../lib/ui.js";
import { keyProblem, percentDecoded, percentEncoded, textOf } from "./key/bytes.js";
import { Operations } from "./key/operations.js";
import { Replicas } from "./key/replicas.js";
import { Value } from "./key/value.js";

const LOOK_MS = 2000;
const STATUS_MS = 5000;
const LISTED = 25;
const TYPED = new TextEncoder();
const MARKS = { good: "✓", info: "·", warn: "!", bad: "✕" };
const MARK_WORDS = { good: "good", info: "to know", warn: "slow or under way", bad: "broken" };

// As text, if what a field shows of it is all of it.
function typeable(bytes, encoded) {
  const text = textOf(bytes);
  return text === keyText(encoded) ? text : null;
}

function Chooser({ encoded }) {
  const bytes = percentDecoded(encoded);
  const readable = typeable(bytes, encoded);
  const [text, setText] = useState(readable ?? encoded);
  const [escaped, setEscaped] = useState(readable === null);
  const [problem, setProblem] = useState("");
  // Before the browser draws: a visitor who types at once must not lose it.
  useLayoutEffect(() => {
    setText(readable ?? encoded);
    setEscaped(readable === null);
    setProblem("");
  }, [encoded]);
  const open = (event) => {
    event.preventDefault();
    const wanted = escaped ? percentDecoded(text) : TYPED.encode(text);
    const wrong = keyProblem(wanted);
    setProblem(wrong ?? "");
    if (!wrong) location.hash = `#/key/${percentEncoded(wanted)}`;
  };
  return html`<form class="key-chooser" role="search" onSubmit=${open}>
    <${Field} id="key-name" label="Key" hint="1 to 1,024 bytes">
      <input id="key-name" type="text" autocomplete="off" autocapitalize="off" spellcheck="false" aria-describedby="key-name-hint" value=${text} onInput=${(event) => setText(event.target.value)} />
    <//>
    <label class="key-escaped"><input type="checkbox" checked=${escaped} onChange=${(event) => setEscaped(event.target.checked)} /> percent-encoded</label>
    <button type="submit" class="primary">Look at it</button>
    ${problem ? html`<p class="key-problem" role="alert">${problem}</p>` : null}
  </form>`;
}

function Listing() {
  const [prefix, setPrefix] = useState("");
  const { data, error } = useJson(`/v2/kv?limit=${LISTED}&prefix=${percentEncoded(TYPED.encode(prefix))}`, STATUS_MS);
  return html`<${Section} title="Keys">
    <${Field} id="key-prefix" label="Keys that begin with">
      <input id="key-prefix" type="search" autocomplete="off" spellcheck="false" placeholder="anything" value=${prefix} onInput=${(event) => setPrefix(event.target.value)} />
    <//>
    <${ErrorNotice} error=${error && error.status !== 401 ? error : null} />
    ${data
      ? html`<${Table}
          caption=${data.next ? `The first ${LISTED} that this region has` : "All that this region has"}
          empty="This region has no such key. The form above makes one."
          columns=${[
            { key: "key", title: "Key", cell: (row) => html`<a class="key-link" href=${keyHref(row.key)}>${keyText(row.key)}</a>` },
            { key: "value", title: "Value", cell: (row) => html`<div class="key-short"><${Value} base64=${row.value_base64} /></div>` },
            { key: "version", title: "Version", number: true, cell: (row) => count(row.version) },
            { key: "kind", title: "Kind", cell: (row) => (row.engine ? html`<${Badge}>of transactions<//>` : row.mutable ? "changes" : html`<${Badge} kind="good">for ever<//>`) },
          ]}
          rows=${data.keys.map((row) => ({ ...row, id: row.key }))}
        />`
      : error
        ? null
        : html`<${Busy} />`}
  <//>`;
}

function Meaning({ explanation }) {
  return html`<ul class="key-meaning" aria-live="polite">
    ${explanation.map(
      ({ kind, text }) => html`<li key=${text} class=${kind}><span class="key-mark" aria-hidden="true">${MARKS[kind]}</span><span class="visually-hidden">${MARK_WORDS[kind]}: </span>${text}</li>`,
    )}
  </ul>`;
}

function History({ path, version }) {
  const { data, error, again } = useJson(path, 0);
  useEffect(() => {
    if (version !== null) again();
  }, [version]);
  return html`<${Section} title="History">
    <${ErrorNotice} error=${error} />
    ${data
      ? html`<${Table}
            caption="Its versions, the newest first, as this region learned them"
            empty="The changelog of this region has no version of it."
            columns=${[
              { key: "version", title: "Version", cell: (row) => (row.first_version === row.version ? row.version : `${row.first_version} to ${row.version}`) },
              { key: "value", title: "Value", cell: (row) => (row.deleted ? html`<${Badge} kind="warn">deleted<//>` : html`<${Value} base64=${row.value_base64} total=${row.size} />`) },
              { key: "writer", title: "Written in", cell: (row) => row.writer },
              { key: "kind", title: "Kind", cell: (row) => (row.mutable ? (row.ttl || row.session ? "ends" : "changes") : html`<${Badge} kind="good">for ever<//>`) },
            ]}
            rows=${data.changes.map((row) => ({ ...row, id: row.cursor }))}
          />
          <p class="muted">
            ${data.complete ? `${count(data.looked_at)} rows of the changelog were looked through.` : `Only the newest ${count(data.looked_at)} rows of the changelog were looked through.`}
            ${" "}It does not keep versions for ever.
          </p>`
      : error
        ? null
        : html`<${Busy} />`}
    <div class="actions"><${Button} onClick=${again}>Look again<//></div>
  <//>`;
}

// The newest version that any replica has; 0: none has one; null: not known.
function newestVersion(views) {
  const held = views.filter((view) => view.held !== null);
  return held.length ? Math.max(...held.map((view) => view.held.committed?.version ?? 0)) : null;
}

function may(who, role) {
  return who === null || who.auth === "open" || who.roles.includes(role);
}

function Found({ encoded, node }) {
  const { data, error, again } = useJson(`/v2/inspect/${encoded}`, LOOK_MS);
  const { data: status } = useJson("/v2/status", STATUS_MS);
  const { data: who } = useJson("/v2/auth/whoami", 0);
  const version = data ? newestVersion(data.replicas) : null;
  return html`
    <${Section} title="What it means">
      <${ErrorNotice} error=${error} />
      ${data ? html`<${Meaning} explanation=${data.explanation} />` : error ? null : html`<${Busy} what="Asking every replica" />`}
    <//>
    <${Section} title="Try it">
      <${Operations} key=${encoded} path=${`/v2/kv/${encoded}`} floor=${status?.floor_ms ?? null} version=${version} mayWrite=${may(who, "writer")} onDone=${again} />
    <//>
    ${data ? html`<${Section} title="At each replica"><${Replicas} views=${data.replicas} here=${node?.id ?? null} /><//>` : null}
    <${History} key=${`history ${encoded}`} path=${`/v2/history/${encoded}`} version=${version} />
  `;
}

export default function KeyPage({ args, node }) {
  useStyles("pages/key.css");
  const bytes = percentDecoded(args.join("/"));
  const encoded = percentEncoded(bytes);
  const problem = bytes.length ? keyProblem(bytes) : null;
  const name = keyText(encoded.replaceAll("%2F", "/"));
  return html`<${Page} title=${bytes.length ? `Key ${name.length > 60 ? `${name.slice(0, 60)}…` : name}` : "Key"} lead="What every replica holds for one key, what that means, and why it is slow or stuck.">
    <${Section} title="Which key"><${Chooser} encoded=${encoded} /><//>
    ${problem ? html`<${Notice} kind="bad">${problem}<//>` : bytes.length ? html`<${Found} key=${encoded} encoded=${encoded} node=${node} />` : html`<${Listing} />`}
  <//>`;
}
