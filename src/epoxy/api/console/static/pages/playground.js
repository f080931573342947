// The protocol itself in the page: step through it by hand, break a rule, or run many seeds.
import { html, useEffect, useState } from "../lib/html.js";
import { Notice, Page, useStyles } from "../lib/ui.js";
import { useEngine } from "./playground/engine.js";
import { RulesView } from "./playground/rules.js";
import { SeedsView } from "./playground/seeds.js";
import { StepsView } from "./playground/steps.js";

const VIEWS = [
  { name: "steps", title: "Step by step", view: StepsView },
  { name: "rules", title: "Break a rule", view: RulesView },
  { name: "seeds", title: "Many runs", view: SeedsView },
];

function Tabs({ current }) {
  return html`<nav class="pg-tabs" aria-label="Parts of the playground">
    ${VIEWS.map(({ name, title }) => html`<a key=${name} href=${`#/playground/${name}`} aria-current=${name === current ? "true" : null}>${title}</a>`)}
  </nav>`;
}

function Stage({ stage, error }) {
  if (stage === "ready") return html`<p class="visually-hidden" role="status" id="pg-ready">Python is ready.</p>`;
  if (stage === "failed") {
    return html`<${Notice} kind="bad">The playground could not be started: ${error}. It needs a browser with WebAssembly and module workers.<//>`;
  }
  return html`<div class="pg-loading" role="status">
    <span class="pg-spinner" aria-hidden="true"></span>
    Loading ${stage} into this page: some 8 MB from this node, once. Nothing is asked of any other host.
  </div>`;
}

export default function PlaygroundPage({ args }) {
  useStyles("pages/playground.css");
  const { engine, stage, error } = useEngine();
  const [known, setKnown] = useState(null);
  useEffect(() => {
    if (stage === "ready" && !known) engine.ask({ do: "known" }).answer.then(setKnown, () => {});
  }, [stage]);
  const [name, ...rest] = args;
  const current = VIEWS.find((view) => view.name === name) ?? VIEWS[0];
  const link = rest.map(decodeURIComponent);
  return html`<${Page}
    title="Playground"
    lead="The code of this node's replicas, its simulator and its judge run here, in your browser. Nothing that you do touches the cluster."
  >
    <${Tabs} current=${current.name} />
    <${Stage} stage=${stage} error=${error} />
    ${known && stage !== "failed" ? html`<${current.view} key=${current.name} engine=${engine} ...${known} link=${link} />` : null}
  <//>`;
}
