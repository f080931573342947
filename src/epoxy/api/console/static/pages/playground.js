// The protocol itself in the page: step through it by hand, break a rule, or run many seeds.
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { getJson } from "../lib/api.js";
import { Button, Notice, Page, useStyles } from "../lib/ui.js";
import { useEngine } from "./playground/engine.js";
import { RulesView } from "./playground/rules.js";
import { SeedsView } from "./playground/seeds.js";
import { StepsView } from "./playground/steps.js";

const VIEWS = [
  { name: "steps", title: "Step by step", view: StepsView },
  { name: "rules", title: "Break a rule", view: RulesView },
  { name: "seeds", title: "Many runs", view: SeedsView },
];

const LOOK_AGAIN_MS = 3000;
const MOST_RETRIES = 3;

// A link that was cut in the middle of an escape is taken as it is.
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function Tabs({ current }) {
  return html`<nav class="pg-tabs" aria-label="Parts of the playground">
    ${VIEWS.map(({ name, title }) => html`<a key=${name} href=${`#/playground/${name}`} aria-current=${name === current ? "true" : null}>${title}</a>`)}
  </nav>`;
}

// After a failure the node is asked whether it is there: a page that was opened while it restarted goes on by itself.
function useRetries(engine, stage) {
  const retries = useRef(0);
  useEffect(() => {
    if (stage === "ready") retries.current = 0;
    if (stage !== "failed" || retries.current >= MOST_RETRIES) return undefined;
    const ended = new AbortController();
    const look = async () => {
      if (document.visibilityState === "hidden") return;
      await getJson("/v2/console", { signal: ended.signal });
      if (ended.signal.aborted) return;
      retries.current += 1;
      engine.restart();
    };
    const timer = setInterval(() => look().catch(() => {}), LOOK_AGAIN_MS);
    return () => {
      clearInterval(timer);
      ended.abort();
    };
  }, [stage]);
}

function Stage({ stage, error, onRetry }) {
  if (stage === "ready") return html`<p class="visually-hidden" role="status" id="pg-ready">Python is ready.</p>`;
  if (stage === "failed") {
    return html`<${Notice} kind="bad">The playground could not be started: ${error}. It needs this node, and a browser with WebAssembly and module workers. <${Button} onClick=${onRetry}>Try again<//><//>`;
  }
  return html`<div class="pg-loading" role="status">
    <span class="pg-spinner" aria-hidden="true"></span>
    Loading ${stage} into this page: some 8 MB from this node, once. Nothing is asked of any other host.
  </div>`;
}

export default function PlaygroundPage({ args }) {
  useStyles("pages/playground.css");
  const { engine, stage, error } = useEngine();
  useRetries(engine, stage);
  const [known, setKnown] = useState(null);
  useEffect(() => {
    if (stage === "ready" && !known) engine.ask({ do: "known" }).answer.then(setKnown, () => {});
  }, [stage]);
  const current = VIEWS.find((view) => view.name === args[0]) ?? VIEWS[0];
  const link = useMemo(() => args.slice(1).map(decoded), [args]);
  return html`<${Page}
    title="Playground"
    lead="The code of this node's replicas, its simulator and its judge run here, in your browser. Nothing that you do touches the cluster."
  >
    <${Tabs} current=${current.name} />
    <${Stage} stage=${stage} error=${error} onRetry=${() => engine.restart()} />
    ${known && stage !== "failed" ? html`<${current.view} key=${current.name} engine=${engine} ...${known} link=${link} />` : null}
  <//>`;
}
