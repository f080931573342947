// The planner: what writes and reads would cost in a choice of regions, before there is a cluster.
import { html, useEffect, useState } from "../lib/html.js";
import { ms } from "../lib/format.js";
import { Badge, Busy, Button, ErrorNotice, Notice, Page, Section, Stats, Table, useStyles } from "../lib/ui.js";
import { NOTHING, addressOf, readAddress } from "./plan/address.js";
import { Bars, worstOf } from "./plan/chart.js";
import { OwnRoundTrips, Presets, Regions } from "./plan/choice.js";
import { RegionMap } from "./plan/map.js";
import { PLACES } from "./plan/places.js";
import { usePlan } from "./plan/question.js";

const FAILURES = ["None fails", "One fails", "Two fail"];

// The question in the address, and a function that changes it.
function useAddress() {
  const [question, setQuestion] = useState(readAddress());
  useEffect(() => {
    const moved = () => location.hash.startsWith("#/plan") && setQuestion(readAddress());
    window.addEventListener("hashchange", moved);
    return () => window.removeEventListener("hashchange", moved);
  }, []);
  const change = (part) => {
    const next = { ...question, ...part };
    history.replaceState(null, "", addressOf(next));
    setQuestion(next);
  };
  return [question, change];
}

// Names that are not broken at their hyphens.
function Names({ names, between = ", " }) {
  return names.map((name, n) => html`<span key=${name}>${n ? between : ""}<span class="plan-name">${name}</span></span>`);
}

function cost(value) {
  return value === null ? html`<span class="muted">unavailable</span>` : ms(value);
}

function effect(row, failures) {
  if (row.down) return "";
  const found = worstOf(row, failures);
  if (found.commit_ms === null) return html`<span class="muted">unavailable</span>`;
  const path = found.path === "slow" ? ", two round trips" : "";
  return html`${ms(found.commit_ms)}${path}<span class="hint">without <${Names} names=${found.down} between=" and " /></span>`;
}

function headline(report) {
  const down = report.regions.filter((row) => row.down).map((row) => row.region);
  const without = down.length ? `Without ${down.join(" and ")}: ` : "";
  if (!report.available) return `${without}nothing can be decided. ${report.slow_quorum} of ${report.replicas} regions must be up.`;
  const spare = report.tolerated_failures;
  const more = down.length ? " more" : "";
  const may = spare === 0 ? `no${more} region may fail` : `${spare}${more} region${spare === 1 ? "" : "s"} may fail`;
  const fresh = report.regions.some((row) => row.path === "fast")
    ? `A fresh key commits in one round trip, with ${report.fast_quorum} of ${report.replicas} regions.`
    : `Too few are up for one round trip: writes take two, with ${report.slow_quorum} of ${report.replicas} regions.`;
  const words = `${without}${may}, ${spare ? "and writes go on" : "or writes stop"}. ${fresh}`;
  return words[0].toUpperCase() + words.slice(1);
}

function Summary({ report }) {
  const kind = !report.available ? "bad" : report.tolerated_failures ? "good" : "warn";
  const [best] = report.leaders;
  const items = [];
  if (report.mean_ms !== null) items.push({ label: "mean commit floor", value: ms(report.mean_ms), hint: "over the regions" });
  if (report.worst_ms !== null) items.push({ label: "worst commit floor", value: ms(report.worst_ms), hint: report.regions.find((row) => row.commit_ms === report.worst_ms)?.region });
  if (best && report.replicas > 1) items.push({ label: "through the best leader", value: ms(best.mean_ms), hint: `mean, leader in ${best.leader}` });
  items.push({ label: "may fail", value: report.tolerated_failures, hint: `${report.tolerated_fast_failures} with one round trip still` });
  return html`<${Notice} kind=${kind}>${headline(report)}<//><${Stats} items=${items} />`;
}

function Failing({ rows, down, failures, onDown, onFailures }) {
  return html`<div class="plan-failing">
    <fieldset>
      <legend>Failures, the worst for each region</legend>
      <div class="plan-choices">
        ${FAILURES.map(
          (title, number) => html`<label key=${title}><input type="radio" name="plan-failures" checked=${failures === number} onChange=${() => onFailures(number)} /> ${title}</label>`,
        )}
      </div>
    </fieldset>
    <fieldset>
      <legend>Or take regions down yourself</legend>
      <div class="plan-choices">
        ${rows.map(
          ({ region }) => html`<button type="button" key=${region} aria-pressed=${down.includes(region)} onClick=${() => onDown(region)}>
            <span aria-hidden="true">${down.includes(region) ? "✕" : "●"}</span> ${region}
          </button>`,
        )}
      </div>
    </fieldset>
  </div>`;
}

function floorColumns(report) {
  const [best] = report.leaders;
  return [
    { key: "region", title: "Region", cell: (row) => html`<span class="plan-name">${row.region}</span> ${row.down ? html`<${Badge} kind="bad">down<//>` : null}` },
    { key: "commit", title: "Commit floor", number: true, cell: (row) => (row.down ? "" : html`${cost(row.commit_ms)}${row.path === "slow" ? html`<span class="hint">two round trips</span>` : null}`) },
    { key: "waits", title: "Waits for", cell: (row) => html`<${Names} names=${row.waits_for} />` },
    { key: "slow", title: "Contended key", number: true, cell: (row) => (row.down ? "" : cost(row.slow_path_ms)) },
    { key: "read", title: "Linearizable read", number: true, cell: (row) => (row.down ? "" : cost(row.read_ms)) },
    { key: "leader", title: best ? `Leader in ${best.leader}` : "Leader", number: true, cell: (row) => (row.down ? "" : cost(row.leader_ms)) },
    { key: "one", title: "If one more fails", cell: (row) => effect(row, 1) },
    { key: "two", title: "If two more fail", cell: (row) => effect(row, 2) },
  ];
}

function ToAdd({ report, chosen, add, onAdd, onCount }) {
  if (report.known.length <= chosen.length) return null;
  const left = report.known.length - chosen.length;
  const wanted = add ?? Math.min(1 + (chosen.length % 2), left);
  const columns = [
    { key: "regions", title: "Add", cell: ({ regions }) => html`<${Names} names=${regions} />` },
    { key: "mean", title: "Mean floor then", number: true, cell: (row) => ms(row.mean_ms) },
    { key: "worst", title: "Worst", number: true, cell: (row) => ms(row.worst_ms) },
    { key: "before", title: "Mean of yours", number: true, cell: (row) => ms(row.before_mean_ms) },
    { key: "may", title: "May fail", number: true, cell: (row) => row.tolerated_failures },
    { key: "button", title: html`<span class="visually-hidden">Button</span>`, cell: ({ regions }) => html`<${Button} onClick=${() => onAdd(regions)}>Add <span class="visually-hidden">${regions.join(" and ")}</span><//>` },
  ];
  return html`<${Section} title="Best regions to add">
    <p>
      <label>Add <select value=${wanted} onChange=${(event) => onCount(Number(event.target.value))}>
        ${[1, 2].filter((number) => number <= left).map((number) => html`<option key=${number} value=${number}>${number === 1 ? "one region" : "two regions"}</option>`)}
      </select></label>
      <span class="muted"> An even number tolerates no more failures than the odd one below it.</span>
    </p>
    <${Table} caption="By the mean commit floor of all regions with them" columns=${columns} rows=${report.additions.map((row) => ({ ...row, id: row.regions.join() }))} />
  <//>`;
}

function Leaders({ report }) {
  const columns = [
    { key: "leader", title: "Leader in", cell: (row) => html`<span class="plan-name">${row.leader}</span>` },
    { key: "mean", title: "Mean", number: true, cell: (row) => ms(row.mean_ms) },
    { key: "worst", title: "Worst", number: true, cell: (row) => ms(row.worst_ms) },
    { key: "above", title: "Times Epoxy’s mean", number: true, cell: (row) => (report.mean_ms ? `${(row.mean_ms / report.mean_ms).toFixed(2)}×` : "") },
  ];
  return html`<${Section} title="If there were a leader">
    <p class="muted">In a system with a leader a write goes from the client’s region to the leader’s, and from there to its nearest majority.</p>
    <${Table} caption="A write through a leader, over all regions, the best leader first" columns=${columns} rows=${report.leaders.map((row) => ({ ...row, id: row.leader }))} />
  <//>`;
}

export default function PlanPage() {
  useStyles("pages/plan.css");
  const [question, change] = useAddress();
  const [failures, setFailures] = useState(0);
  const { report, error } = usePlan(question);
  const isEmpty = question.regions !== null && question.regions.length === 0;
  const chosen = question.regions ?? report?.regions.map((row) => row.region) ?? [];
  const inOrder = (names) => report.known.filter((name) => names.includes(name));
  const choose = (names) => change({ regions: inOrder(names), down: question.down.filter((name) => names.includes(name)), add: null });
  const toggle = (name) => choose(chosen.includes(name) ? chosen.filter((each) => each !== name) : [...chosen, name]);
  const takeDown = (name) => {
    setFailures(0);
    change({ regions: chosen, down: question.down.includes(name) ? question.down.filter((each) => each !== name) : [...question.down, name] });
  };
  const onMap = report !== null && report.known.every((name) => PLACES[name]);
  const rows = isEmpty || !report ? [] : report.regions;
  return html`<${Page} title="Planner" lead="Choose regions and see what writes and reads would cost there, before there is a cluster. Figures are round trips: disks and processors come on top, a few milliseconds.">
    ${error ? html`<${ErrorNotice} error=${error} />` : null}
    ${error && error.status === 400 ? html`<p><${Button} onClick=${() => change(NOTHING)}>Begin anew<//></p>` : null}
    ${report === null && !error ? html`<${Busy} what="Computing" />` : null}
    ${report === null
      ? null
      : html`<${Section} title="Your choice">
            ${onMap ? html`<${RegionMap} known=${report.known} rows=${rows} onToggle=${toggle} />` : null}
            <${Regions} known=${report.known} chosen=${chosen} onToggle=${toggle} />
            <${Presets} choices=${report.choices} onChoose=${choose} />
            <p>
              <label>Quorum sizes <select value=${question.policy} onChange=${(event) => change({ policy: event.target.value })}>
                <option value="optimal">optimal (the default)</option>
                <option value="fast-paxos">fast-paxos (larger)</option>
              </select></label>
            </p>
            <${OwnRoundTrips}
              rtt=${question.rtt}
              policy=${question.policy}
              onUse=${(rtt) => change({ ...NOTHING, policy: question.policy, rtt })}
              onBack=${() => change({ ...NOTHING, policy: question.policy })}
            />
          <//>
          ${isEmpty
            ? html`<${Notice}>Choose at least one region.<//>`
            : html`<${Section} title="What it costs">
                  <${Summary} report=${report} />
                  ${rows.length > 1 ? html`<${Failing} rows=${rows} down=${question.down} failures=${failures} onDown=${takeDown} onFailures=${setFailures} />` : null}
                  <${Bars} rows=${rows} failures=${rows.length > 1 ? failures : 0} leader=${report.leaders[0]?.leader} />
                  <${Table} caption="Floors of each region" columns=${floorColumns(report)} rows=${rows.map((row) => ({ ...row, id: row.region }))} />
                <//>
                <${ToAdd} report=${report} chosen=${chosen} add=${question.add} onAdd=${(names) => choose([...chosen, ...names])} onCount=${(add) => change({ regions: chosen, add })} />
                ${report.leaders.length > 1 ? html`<${Leaders} report=${report} />` : null}`}`}
  <//>`;
}
