// The rules that a visitor may break: each is switched off in the production code, and seeds are run until the judge objects.
import { html, useEffect, useRef, useState } from "../../lib/html.js";
import { Badge, Button, Notice, Section } from "../../lib/ui.js";
import { Stopped } from "./engine.js";
import { Finding, TraceView } from "./trace.js";

const MOST_SEEDS = 400;

const NOT_TRIED = { state: "not tried" };

function Verdict({ result }) {
  if (result.state === "running") return html`<${Badge}>seed ${result.next ?? ""}…<//>`;
  if (result.state === "caught") return html`<${Badge} kind="bad">caught at seed ${result.seed}<//>`;
  if (result.state === "survived") return html`<${Badge} kind="warn">not caught in ${result.runs} runs<//>`;
  return html`<${Badge}>not tried<//>`;
}

export function RulesView({ engine, rules, findings, link }) {
  const [results, setResults] = useState({});
  const [shown, setShown] = useState(null);
  const [busy, setBusy] = useState("");
  const [error, setError] = useState(null);
  const running = useRef(null);
  const stopped = useRef(false);
  useEffect(() => () => running.current?.cancel(), []);

  const note = (mutant, result) => setResults((before) => ({ ...before, [mutant]: result }));

  // The first seed at which the judge objects.
  const chase = async (rule, seed = rule.begin) => {
    note(rule.mutant, { state: "running", next: seed });
    running.current = engine.ask({ do: "seeds", seed, count: MOST_SEEDS, mutant: rule.mutant }, ({ next }) => note(rule.mutant, { state: "running", next }));
    const { failed, runs, stopped: early } = await running.current.answer.catch((problem) => {
      note(rule.mutant, NOT_TRIED);
      throw problem;
    });
    running.current = null;
    const result = failed ? { state: "caught", seed: failed.seed, failure: failed.failure, runs } : early ? NOT_TRIED : { state: "survived", runs };
    note(rule.mutant, result);
    return result;
  };

  const guarded = async (work) => {
    setError(null);
    stopped.current = false;
    try {
      await work();
    } catch (problem) {
      if (!(problem instanceof Stopped)) setError(problem.message);
    }
    setBusy("");
  };

  const breakOne = (rule, seed) =>
    guarded(async () => {
      setBusy(`Running seeds without “${rule.title}”`);
      setShown({ rule });
      const result = await chase(rule, seed);
      if (result.state !== "caught") return;
      history.replaceState(null, "", `#/playground/rules/${rule.mutant}/${result.seed}`);
      setShown({ rule, result });
      setBusy("Looking for the shortest trace");
      const found = await engine.ask({ do: "shrink", seed: result.seed, mutant: rule.mutant }).answer;
      setShown({ rule, result, found });
    });

  const breakAll = () =>
    guarded(async () => {
      setShown(null);
      for (const rule of rules) {
        if (stopped.current) break;
        setBusy(`Running seeds without “${rule.title}”`);
        await chase(rule);
      }
    });

  const stop = () => {
    stopped.current = true;
    if (running.current) running.current.cancel();
    else engine.restart();
  };

  // The result stands below all rules.
  useEffect(() => {
    if (shown) document.getElementById("pg-shown")?.scrollIntoView({ block: "start" });
  }, [shown?.rule, Boolean(shown?.found)]);

  // A link names a rule, and the seed that shows what breaks without it.
  useEffect(() => {
    const rule = rules.find((each) => each.mutant === link[0]);
    if (rule && busy === "") breakOne(rule, /^\d{1,9}$/.test(link[1] ?? "") ? Number(link[1]) : undefined);
  }, [link]);

  const caught = Object.values(results).filter(({ state }) => state === "caught").length;
  return html`
    <${Section} title="Break a rule, and see whether it is noticed">
      <p class="muted">
        Each rule below is one function of the production code. Breaking it replaces that function in this page, and runs seeds until the judge,
        which knows nothing of it, finds clients that were told what cannot be true. A judge that lets a broken rule pass would be no judge.
      </p>
      <div class="actions">
        <${Button} kind="primary" disabled=${busy !== ""} onClick=${breakAll}>Break them all, one after the other<//>
        <${Button} disabled=${busy === ""} onClick=${stop}>Stop<//>
      </div>
      <p role="status" class="pg-status">${busy ? `${busy}…` : caught ? `${caught} of ${rules.length} rules were broken, and the judge noticed each of them.` : "All rules are in force."}</p>
      ${error ? html`<${Notice} kind="bad">${error}<//>` : null}
      <ul class="pg-rules">
        ${rules.map((rule) => {
          const result = results[rule.mutant] ?? NOT_TRIED;
          return html`<li key=${rule.mutant} class="card" aria-current=${shown?.rule === rule ? "true" : null}>
            <h3>${rule.title}</h3>
            <p>${rule.rule}</p>
            <p class="muted"><strong>Without it:</strong> ${rule.without}</p>
            <p class="pg-result"><${Verdict} result=${result} />${result.failure ? html` <span class="pg-rule-name">${result.failure.rule}</span>` : null}</p>
            <div class="actions">
              <${Button} disabled=${busy !== ""} aria-label=${`Break it: ${rule.title}`} onClick=${() => breakOne(rule)}>Break it<//>
              <a class="button" href=${`#/playground/steps/3/1/${rule.mutant}`} aria-label=${`Step through the protocol without it: ${rule.title}`}>By hand</a>
            </div>
          </li>`;
        })}
      </ul>
    <//>
    ${shown
      ? html`<${Section} title=${`Without “${shown.rule.title}”`} id="pg-shown">
          ${shown.found ? html`<${TraceView} found=${shown.found} findings=${findings} />` : shown.result ? html`<${Finding} failure=${shown.result.failure} findings=${findings} seed=${shown.result.seed} />` : html`<p class="muted">Running seeds…</p>`}
        <//>`
      : null}
  `;
}
