// Python in WebAssembly, with this node's own sources. It takes requests as epoxy_sim/playground/commands.py knows them,
// one after the other, and nothing from outside this node.
import { loadPyodide } from "/ui/vendor/pyodide/314.0.7/pyodide.mjs";

const HOME = "/ui/vendor/pyodide/314.0.7/";
const SOURCES = "/ui/playground/epoxy.zip";
const BREATH_MS = 60;

// No packages: everything that is imported is in the archive.
const NO_PACKAGES = JSON.stringify({
  info: { abi_version: "2026_0", arch: "wasm32", platform: "emscripten_5_0_3", python: "3.14.2", version: "314.0.7" },
  packages: {},
});

const START = `
import sys
sys.path.insert(0, "/epoxy.zip")
from epoxy_sim.playground import standins
standins.install()
from epoxy_sim.playground.commands import Playground
Playground().answer
`;

const cancelled = new Set();

// Of a Python exception, the line that says what is wrong.
const words = (error) => String(error?.message ?? error).trim().split("\n").pop();

const breathe = () => new Promise((resolve) => setTimeout(resolve, 0));

async function start() {
  postMessage({ stage: "Python" });
  const sources = fetch(SOURCES);
  const python = await loadPyodide({ indexURL: HOME, lockFileContents: NO_PACKAGES, packageBaseUrl: HOME });
  postMessage({ stage: "the simulator" });
  const given = await sources;
  if (!given.ok) throw new Error((await given.json()).error.message);
  python.FS.writeFile("/epoxy.zip", new Uint8Array(await given.arrayBuffer()));
  const answer = python.runPython(START);
  return (request) => JSON.parse(answer(JSON.stringify(request)));
}

// Seeds from `seed` on, until one fails, the count is reached or the page does not want more.
async function runSeeds(id, ask, { seed, count, ...choices }) {
  const sum = { runs: 0, skipped: 0, messages: 0, operations: 0, virtual_ms: 0, next: seed, failed: null, stopped: false };
  let last = performance.now();
  while (sum.next < seed + count && sum.failed === null) {
    const { ok, error } = ask({ ...choices, do: "run", seed: sum.next });
    if (error) return { error };
    sum.next += 1;
    if (ok.skipped) sum.skipped += 1;
    else {
      sum.runs += 1;
      for (const name of ["messages", "operations", "virtual_ms"]) sum[name] += ok[name];
      if (ok.failure) sum.failed = ok;
    }
    if (performance.now() - last > BREATH_MS) {
      postMessage({ id, progress: { ...sum } });
      await breathe();
      last = performance.now();
      if (cancelled.delete(id)) {
        sum.stopped = true;
        break;
      }
    }
  }
  return { ok: sum };
}

const started = start();
started.then(
  () => postMessage({ stage: "ready" }),
  (error) => postMessage({ stage: "failed", error: words(error) }),
);

let turn = started;
onmessage = ({ data: { id, ...request } }) => {
  if (request.do === "cancel") {
    cancelled.add(request.of);
    return;
  }
  turn = turn.then(async () => {
    const ask = await started;
    try {
      const answer = request.do === "seeds" ? await runSeeds(id, ask, request) : ask(request);
      postMessage({ id, ...answer });
    } catch (error) {
      postMessage({ id, error: `the program failed: ${words(error)}` });
    }
  });
};
