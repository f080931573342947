// Two regions reserve one name at the same moment.
import { html, useState } from "../../lib/html.js";
import { ms } from "../../lib/format.js";
import { Badge, Field } from "../../lib/ui.js";

const OUTCOMES = {
  won: { kind: "good", words: () => "won" },
  taken: { kind: "info", words: (racer) => `was told that ${racer.value} has it` },
  refused: { kind: "warn", words: (racer) => `did not take part: ${racer.message}` },
  unknown: { kind: "bad", words: (racer) => `does not know its outcome: ${racer.message}` },
};
const PATHS = { fast: "one round trip", slow: "more than one round trip", local: "known here already" };

function Lane({ racer, scale }) {
  const { kind, words } = OUTCOMES[racer.outcome];
  const took = racer.ended_ms - racer.began_ms;
  return html`<li>
    <span class="demo-lane-words"><strong>${racer.region}</strong> <${Badge} kind=${kind}>${words(racer)}<//>
      <span class="muted">after ${ms(took)}${racer.path ? `, ${PATHS[racer.path] ?? racer.path}` : ""}${racer.floor_ms ? `; its floor is ${ms(racer.floor_ms)}` : ""}</span>
    </span>
    <span class="demo-lane" aria-hidden="true">
      <span class=${kind} style=${{ left: `${(100 * racer.began_ms) / scale}%`, width: `${Math.max(0.5, (100 * took) / scale)}%` }}></span>
      ${racer.floor_ms ? html`<i style=${{ left: `${(100 * (racer.began_ms + racer.floor_ms)) / scale}%` }}></i>` : null}
    </span>
  </li>`;
}

function Told({ race }) {
  const scale = 1.04 * Math.max(1, ...race.racers.map((racer) => Math.max(racer.ended_ms, racer.began_ms + (racer.floor_ms ?? 0))));
  return html`<div class="demo-race">
    <p>${race.winner ? html`<strong>${race.winner}</strong> has <a href=${`#/key/${encodeURIComponent(race.key)}`}>${race.key}</a>, in the whole world and for ever.` : html`It is not known who has ${race.key}: neither region told a winner.`}</p>
    <ol class="demo-lanes">${race.racers.map((racer) => html`<${Lane} key=${racer.region} racer=${racer} scale=${scale} />`)}</ol>
  </div>`;
}

export function Race({ names, races, busy, give }) {
  const [one, setOne] = useState("");
  const [other, setOther] = useState("");
  const [name, setName] = useState("");
  const first = names.includes(one) ? one : names[0];
  const second = names.includes(other) && other !== first ? other : names.find((each) => each !== first);
  const start = (event) => {
    event.preventDefault();
    give({ verb: "race", region: first, others: [second], name: name.trim() }, `${first} and ${second} race`);
  };
  return html`<p>Both ask for the same name at the same moment. Exactly one gets it, wherever it is; the other one is told who has it. The line is the floor: no fresh name commits sooner. In a race each of the two has voted for itself, so the winner may need a vote from farther away.</p>
    <form class="demo-form" onSubmit=${start}>
      <${Field} id="race-one" label="One region">
        <select id="race-one" value=${first} onChange=${(event) => setOne(event.target.value)}>${names.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select>
      <//>
      <${Field} id="race-other" label="And another">
        <select id="race-other" value=${second} onChange=${(event) => setOther(event.target.value)}>${names.filter((each) => each !== first).map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select>
      <//>
      <${Field} id="race-name" label="For the name">
        <input id="race-name" type="text" autocomplete="off" spellcheck="false" placeholder="a fresh one" value=${name} onInput=${(event) => setName(event.target.value)} />
      <//>
      <button type="submit" class="primary" disabled=${Boolean(busy)}>Race</button>
    </form>
    <div aria-live="polite">${races.map((race) => html`<${Told} key=${race.key + race.racers[0].ended_ms} race=${race} />`)}</div>`;
}
