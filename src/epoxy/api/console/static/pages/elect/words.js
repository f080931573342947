// What agents say, in words, and one picture of each cluster out of what several of them say.
import { bytes, count, duration } from "../../lib/format.js";

const SILENT_MS = 3000;

const STATES = {
  open: { kind: "good", words: "takes writes", means: "The primary: its server is open, for as long as a majority of agents answers it." },
  ready: { kind: "warn", words: "fenced", means: "It hears no primary. Its server is closed for writes, and it may vote." },
  down: { kind: "bad", words: "server is down", means: "Its server is gone, so it certainly takes no writes." },
  fresh: { kind: "warn", words: "new", means: "It has no record yet: it neither votes nor counts." },
  unknown: { kind: "warn", words: "never heard", means: "Its agent has not been heard." },
};
const FOLLOWS = { kind: "info", words: "replica", means: "It follows the primary, and would vote if that fell silent." };
const BETWEEN = { kind: "warn", words: "changing", means: "Between two roles: it is elected, or being closed." };

// Agents by cluster. `best`: what the agent with the newest epoch says, the primary's own before others'.
export function clustersOf(agents) {
  const found = new Map();
  for (const agent of agents.filter(({ status }) => status)) {
    const name = agent.status.cluster;
    if (!found.has(name)) found.set(name, { name, agents: [] });
    found.get(name).agents.push(agent);
  }
  const silent = agents.filter(({ status }) => !status);
  if (silent.length) {
    // Whose agents they are is not known when they are silent: with one cluster it is plain.
    const [only] = found.values();
    if (found.size === 1) only.agents.push(...silent);
    else found.set("", { name: "Agents that do not answer", agents: silent });
  }
  return [...found.values()].map((cluster) => {
    const statuses = cluster.agents.filter(({ status }) => status).map(({ status }) => status);
    const rank = (status) => [status.leader_epoch, status.primary !== null, status.primary === status.node];
    const best = statuses.sort((one, other) => compare(rank(other), rank(one)))[0] ?? null;
    return { ...cluster, best, primaries: [...new Set(statuses.map(({ primary }) => primary).filter(Boolean))] };
  });
}

function compare(one, other) {
  const place = one.findIndex((value, n) => value !== other[n]);
  return place < 0 ? 0 : Number(one[place]) - Number(other[place]);
}

// What a heartbeat said counts for a while only: one that was primary and is silent says so no more.
export function stateOf(node, best) {
  if (node.seen_ms !== null && node.seen_ms > SILENT_MS) {
    return { kind: "bad", words: `silent for ${duration(node.seen_ms / 1000)}`, means: "No heartbeat comes from its agent. Its lease, if it had one, is over: a watchdog beside the agent closes its server." };
  }
  if (node.state === "open" && node.id !== best.primary) return { kind: "warn", words: "was primary", means: "Another one is elected, or none is any more: its lease is over." };
  if (node.state === "busy") return best.primary && node.id !== best.primary && node.role === "replica" ? FOLLOWS : BETWEEN;
  return STATES[node.state] ?? { kind: "info", words: node.state, means: "" };
}

// Whether clients may write to it, and until when.
export function serverState(node, best, own) {
  if (node.state === "unknown" || node.seen_ms === null) return "not known";
  if (node.state === "down") return "no server";
  if (node.state !== "open") return "closed for writes";
  if (node.id !== best.primary || node.seen_ms > SILENT_MS) return "its lease is over";
  return own ? `open, lease ${(own.lease_ms / 1000).toFixed(1)} s` : "open";
}

// Whom its own agent voted for in its newest epoch.
export function voteOf(own) {
  if (!own) return "not known";
  if (own.voted_for) return `${own.voted_for}, in epoch ${own.epoch}`;
  return own.epoch <= 1 ? "none: no election yet" : `none in epoch ${own.epoch}`;
}

// How far its copy is, beside the primary's.
export function dataOf(node, best) {
  if (node.seen_ms === null) return "not known";
  const primary = best.nodes.find(({ id }) => id === best.primary);
  if (!primary || primary.id === node.id) return `offset ${count(node.offset)}`;
  if (node.history !== primary.history) return `of epoch ${node.history}, not ${primary.history}`;
  const behind = primary.offset - node.offset;
  return behind > 0 ? `${bytes(behind)} behind` : "up to date";
}
