// Who belongs to the cluster, who was and who is away, and what a change would do before it is done.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { ago, count, duration, ms, rate, time } from "../lib/format.js";
import { useJson } from "../lib/live.js";
import { Badge, Busy, Button, ErrorNotice, Notice, Page, Section, useStyles } from "../lib/ui.js";
import { Change } from "./members/change.js";
import { isDone, leftOf, mayChange, progressOf } from "./members/progress.js";
import { Timeline } from "./members/timeline.js";
import { STATUSES, capital, nameOf, plural, spare } from "./members/words.js";

const QUIET_MS = 2000;
const CHANGE_MS = 500;
const STATUS_MS = 1000;

const EVENTS = {
  away: { kind: "bad", words: () => "does not answer" },
  back: { kind: "good", words: (event) => `answers again, after ${duration(event.away_s)}` },
  restarted: { kind: "info", words: () => "was started again" },
};

// While a change is under way every member is asked how far it is; otherwise only this node, which knows what is in force.
function useMembers(ordered) {
  const [asking, setAsking] = useState(false);
  const follows = asking || (ordered && !ordered.end);
  const found = useJson(follows ? "/v2/members?progress=true" : "/v2/members", follows ? CHANGE_MS : QUIET_MS);
  const last = useRef(null);
  if (found.data) last.current = found.data;
  useEffect(() => {
    if (found.data) setAsking(mayChange(found.data) || found.data.settled === false);
  }, [found.data]);
  return { ...found, data: found.data ?? last.current };
}

// An order until its end: "done", or "changed" if another one was given since.
function useOrder() {
  const [ordered, setOrdered] = useState(null);
  const found = useMembers(ordered);
  const seen = found.data;
  useEffect(() => {
    if (!ordered || ordered.end || !seen) return;
    if (isDone(seen) && seen.wanted.join() === ordered.wanted.join()) setOrdered({ ...ordered, end: "done" });
    else if (seen.settled !== undefined && seen.wanted.join() !== ordered.wanted.join()) setOrdered({ ...ordered, end: "changed" });
  }, [seen, ordered]);
  return { ...found, ordered, setOrdered };
}

function Away({ away, now }) {
  if (away.length === 0) return null;
  return away.map(
    (member) => html`<${Notice} key=${member.id} kind="bad"><strong>${nameOf(member)}</strong> has not answered this node for ${duration(now - member.since)}, since ${time(member.since)}.${member.trouble ? ` The last failure: ${member.trouble}.` : ""}<//>`,
  );
}

function MemberCard({ row, peer, me, away, now, figures }) {
  const status = STATUSES[row.status] ?? { kind: "info", words: row.status, means: "" };
  const isMe = row.id === me?.id;
  const trip = isMe ? "this node" : ms(peer?.rtt_ms);
  const starts = isMe ? me?.start?.starts : peer?.starts;
  const reach = isMe ? html`<${Badge} kind="good">answers<//>` : away ? html`<${Badge} kind="bad">away for ${duration(now - away.since)}<//>` : peer?.reachable ? html`<${Badge} kind="good">answers<//>` : html`<${Badge} kind="warn">not reached<//>`;
  return html`<li class=${`card members-card ${row.status}`}>
    <h3>${nameOf(row)}</h3>
    <p class="members-badges">${reach} <${Badge} kind=${status.kind}>${status.words}<//>${isMe ? html` <${Badge}>serves this page<//>` : null}</p>
    <p class="hint">${capital(status.means || status.words)}.</p>
    <dl class="members-facts">
      <div><dt>Replica</dt><dd>${row.id}</dd></div>
      <div><dt>Round trip</dt><dd>${trip}</dd></div>
      <div><dt>Commit floor</dt><dd>${ms(figures?.floor_ms)}</dd></div>
      <div><dt>Starts</dt><dd>${starts ? count(starts) : "not known"}</dd></div>
      <div class="wide"><dt>Address</dt><dd><code>${(row.url || "not known").replaceAll(",", ", ")}</code></dd></div>
    </dl>
    ${peer?.refused ? html`<${Notice} kind="warn">A process that says it is this member was refused: ${peer.refused}.<//>` : null}
  </li>`;
}

function Figures({ line }) {
  const left = leftOf(line);
  if (!line.total) return line.copied ? html`<p class="members-figures">${count(line.copied)} keys, ${rate(line.rate)}</p>` : null;
  const words = line.copied < line.total ? `${rate(line.rate)}${left === null ? "" : `, ${duration(left)} left`}` : "compared with what other members hold";
  return html`<progress max=${line.total} value=${line.copied} aria-label="Keys copied"></progress>
    <p class="members-figures">${count(line.copied)} of about ${count(line.total)} keys, ${words}</p>`;
}

function Progress({ seen, samples }) {
  const shown = useRef({ seen: null, line: null });
  if (shown.current.seen !== seen) shown.current = { seen, line: progressOf(seen, Date.now(), samples) };
  const names = seen.wanted.map((id) => nameOf(seen.replicas.find((row) => row.id === id) ?? { id })).join(", ");
  return html`<p role="status">${capital(shown.current.line.phase)}. The members will be ${names}.</p><${Figures} line=${shown.current.line} />`;
}

const ENDS = {
  done: "The change is done",
  changed: "Another change was asked for since",
};

function UnderWay({ seen, ordered, onClose }) {
  const samples = useRef([]);
  const title = useRef(null);
  useEffect(() => {
    if (ordered) title.current.focus();
  }, [ordered?.title]);
  const end = ordered?.end;
  return html`<section class=${`members-progress ${end ?? ""}`}>
    <h2 ref=${title} tabindex="-1" aria-live="polite">${ENDS[end] ?? "A change is under way"}</h2>
    ${ordered ? html`<p><strong>${ordered.title}</strong>${ordered.queued && !end ? ": another change is under way, and is finished first" : ""}</p>` : null}
    ${end === "done" ? html`<p>Epoch ${seen.epoch}, ${plural(seen.replicas.length, "member")}.</p>` : html`<${Progress} seen=${seen} samples=${samples.current} />`}
    ${end ? html`<${Button} onClick=${onClose}>Close<//>` : null}
  </section>`;
}

function Events({ events }) {
  if (events.length === 0) return html`<p class="muted">Every member has answered all the time.</p>`;
  return html`<ol class="members-events" aria-label="Who was away, newest first">
    ${events.map((event) => {
      const { kind, words } = EVENTS[event.what];
      return html`<li key=${`${event.at} ${event.id} ${event.what}`}>
        <${Badge} kind=${kind}>${event.what}<//> <strong>${nameOf(event)}</strong> ${words(event)}${" "}
        <span class="muted">${time(event.at)}, ${ago(event.at)}</span>
      </li>`;
    })}
  </ol>`;
}

function headline(members, status) {
  const voting = members.replicas.filter((row) => row.status === "active").length;
  const decide = `${plural(voting, "datacenter")} decide${voting === 1 ? "s" : ""}, in epoch ${members.epoch}`;
  return `${capital(decide)}${status ? `; ${spare(status.tolerated_failures)}` : ""}.`;
}

export default function MembersPage() {
  useStyles("pages/members.css");
  const { data: members, error, ordered, setOrdered } = useOrder();
  const { data: status } = useJson("/v2/status", STATUS_MS);
  const { data: past } = useJson("/v2/members/history", QUIET_MS);
  const { data: world } = useJson("/v2/world", QUIET_MS);
  const { data: who } = useJson("/v2/auth/whoami");
  const changing = members && (ordered || mayChange(members) || members.settled === false);
  const mayOrder = who?.auth === "open" || Boolean(who?.roles?.includes("operator"));
  const kind = !status || status.tolerated_failures > 0 ? "good" : status.tolerated_failures === 0 ? "warn" : "bad";
  return html`<${Page} title="Members" lead="The datacenters that decide together. They can be changed while clients write; every change is a new epoch.">
    <${ErrorNotice} error=${error?.status === 0 ? null : error} />
    ${members ? null : error ? null : html`<${Busy} />`}
    ${members
      ? html`<div>
            <${Notice} kind=${kind}>${headline(members, status)}<//>
            ${past ? html`<${Away} away=${past.away} now=${past.now} />` : null}
          </div>
          ${changing ? html`<${UnderWay} seen=${members} ordered=${ordered} onClose=${() => setOrdered(null)} />` : null}
          <h2 class="visually-hidden">Members now</h2>
          <ul class="cards members-cards">
            ${members.replicas.map((row) => html`<${MemberCard} key=${row.id} row=${row} me=${status} now=${past?.now} peer=${status?.peers.find((peer) => peer.id === row.id)} away=${past?.away.find((each) => each.id === row.id)} figures=${world?.members.find((each) => each.id === row.id)?.figures} />`)}
          </ul>`
      : null}
    ${members
      ? html`<${Section} title="Change the members">
          ${who && !mayOrder ? html`<${Notice}>You may look at what a change would do. To order one, your token needs the role operator.<//>` : null}
          <${Change} members=${members} mayOrder=${mayOrder} cluster=${status?.cluster ?? ""} onOrdered=${setOrdered} />
        <//>`
      : null}
    ${past ? html`<${Section} title="Epochs"><${Timeline} past=${past} /><//>` : null}
    ${past ? html`<${Section} title="Who was away"><p class="hint">As this node saw it since ${time(past.started)}.</p><${Events} events=${past.events} /><//>` : null}
  <//>`;
}
