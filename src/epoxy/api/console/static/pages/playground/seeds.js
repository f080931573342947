// Many runs of the simulator, one for each seed, with everything that can go wrong drawn from it.
import { html, useEffect, useRef, useState } from "../../lib/html.js";
import { Button, Field, Notice, Section, Stats } from "../../lib/ui.js";
import { count } from "../../lib/format.js";
import { Stopped } from "./engine.js";
import { TraceView } from "./trace.js";

const WORKLOADS = [
  { name: "per-key", title: "names: races for fresh keys" },
  { name: "mutable", title: "values: overwrites, counters, deletes" },
  { name: "hot", title: "hot keys: many clients on one key" },
];
const MOST_SEEDS = 5000;

const number = (text, fallback, most) => {
  const found = Number.parseInt(text, 10);
  return Number.isInteger(found) && found >= 0 && found <= most ? found : fallback;
};

export function SeedsView({ engine, findings, link }) {
  const [workload, setWorkload] = useState("per-key");
  const [first, setFirst] = useState(0);
  const [wanted, setWanted] = useState(100);
  const [sum, setSum] = useState(null);
  const [state, setState] = useState("idle");
  const [error, setError] = useState(null);
  const [shortest, setShortest] = useState(null);
  const running = useRef(null);
  const began = useRef(0);
  useEffect(() => () => running.current?.cancel(), []);
  useEffect(() => {
    if (WORKLOADS.some((each) => each.name === link[0])) setWorkload(link[0]);
    if (link[1]) setFirst(number(link[1], 0, 1_000_000_000));
    if (link[2]) setWanted(number(link[2], 100, MOST_SEEDS));
  }, [link]);

  const run = async (event) => {
    event.preventDefault();
    history.replaceState(null, "", `#/playground/seeds/${workload}/${first}/${wanted}`);
    setState("running");
    setError(null);
    setShortest(null);
    setSum(null);
    began.current = performance.now();
    try {
      running.current = engine.ask({ do: "seeds", seed: first, count: wanted, workload }, setSum);
      const found = await running.current.answer;
      setSum({ ...found, seconds: (performance.now() - began.current) / 1000 });
      if (found.failed) setShortest(await engine.ask({ do: "shrink", seed: found.failed.seed, workload }).answer);
    } catch (problem) {
      if (!(problem instanceof Stopped)) setError(problem.message);
    }
    running.current = null;
    setState("idle");
  };

  const tried = sum ? sum.runs + sum.skipped : 0;
  return html`<${Section} title="Run many seeds">
    <p class="muted">
      A seed draws a cluster, clients, and what breaks when: lost, late and repeated messages, partitions, crashes, full and lying disks, clocks that run wrong.
      Afterwards the judge compares what clients were told with what may be true. The same seed is the same run as <code>epoxy sim</code> has on your machine.
      One seed of five needs files and threads, and is left to the command line.
    </p>
    <form class="pg-form" onSubmit=${run}>
      <${Field} id="pg-workload" label="Clients">
        <select id="pg-workload" value=${workload} onChange=${(event) => setWorkload(event.target.value)}>
          ${WORKLOADS.map((each) => html`<option key=${each.name} value=${each.name}>${each.title}</option>`)}
        </select>
      <//>
      <${Field} id="pg-first" label="First seed">
        <input id="pg-first" type="number" min="0" max="1000000000" required value=${first} onInput=${(event) => setFirst(number(event.target.value, 0, 1_000_000_000))} />
      <//>
      <${Field} id="pg-count" label="Seeds">
        <input id="pg-count" type="number" min="1" max=${MOST_SEEDS} required value=${wanted} onInput=${(event) => setWanted(number(event.target.value, 100, MOST_SEEDS))} />
      <//>
      <div class="actions">
        <button type="submit" class="primary" disabled=${state !== "idle"}>Run</button>
        <${Button} disabled=${state !== "running"} onClick=${() => running.current?.cancel()}>Stop<//>
      </div>
    </form>
    ${error ? html`<${Notice} kind="bad">${error}<//>` : null}
    ${sum
      ? html`<progress class="pg-progress" max=${wanted} value=${tried} aria-label="Seeds tried">${tried} of ${wanted}</progress>
          <${Stats}
            items=${[
              { label: "runs", value: count(sum.runs), hint: sum.skipped ? `${sum.skipped} left to the command line` : null },
              { label: "messages", value: count(sum.messages) },
              { label: "requests of clients", value: count(sum.operations) },
              { label: "virtual time", value: (sum.virtual_ms / 60000).toFixed(1), unit: "minutes" },
              ...(sum.seconds ? [{ label: "took", value: sum.seconds.toFixed(1), unit: "s" }] : []),
            ]}
          />`
      : null}
    <div role="status">
      ${sum && state === "idle" && !sum.failed ? html`<p class="pg-verdict"><strong>Held:</strong> in ${count(sum.runs)} runs the judge found nothing${sum.stopped ? ", until you stopped it" : ""}.</p>` : null}
      ${sum?.failed ? html`<p class="pg-verdict"><strong>Violated at seed ${sum.failed.seed}:</strong> ${sum.failed.failure.rule}.</p>` : null}
    </div>
    ${shortest ? html`<${TraceView} found=${shortest} findings=${findings} />` : null}
  <//>`;
}
