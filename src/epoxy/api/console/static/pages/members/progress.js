// How far a change of members is: the rules of `epoxy members` (cli/members_progress.py), which a test compares.

const WINDOW_MS = 10000;
const COMING = ["joining", "learning"];

// {phase, copied, total, rate}: `phase` in words; while keys are copied, how many of how many. `total` 0: not counted yet.
export function progressOf(seen, nowMs, samples) {
  const learners = seen.replicas.filter((row) => row.status === "learning");
  const waits = seen.waiting ? `: ${seen.waiting}` : "";
  const nothing = { copied: 0, total: 0, rate: 0 };
  if (seen.joint) return { ...nothing, phase: `epoch ${seen.epoch}, old and new decide together${waits}` };
  if (seen.settled) return { ...nothing, phase: `epoch ${seen.epoch}, done` };
  if (learners.length === 0) return { ...nothing, phase: `epoch ${seen.epoch}${waits}` };
  const copied = learners.reduce((sum, row) => sum + (row.progress?.copied ?? 0), 0);
  const voting = seen.replicas.filter((row) => !COMING.includes(row.status) && row.progress);
  const total = learners.length * Math.max(0, ...voting.map((row) => row.progress.keys));
  return {
    phase: `epoch ${seen.epoch}, ${learners.map((row) => row.datacenter || String(row.id)).join(" and ")} copying`,
    copied: total ? Math.min(copied, total) : copied,
    total,
    rate: rateOf(nowMs, copied, samples),
  };
}

// Keys a second over the last ten: the first pages are small, and load comes and goes.
function rateOf(nowMs, copied, samples) {
  samples.push([nowMs, copied]);
  while (nowMs - samples[0][0] > WINDOW_MS) samples.shift();
  const [thenMs, before] = samples[0];
  return nowMs > thenMs ? (1000 * (copied - before)) / (nowMs - thenMs) : 0;
}

// Seconds; null: not known yet.
export function leftOf({ copied, total, rate }) {
  const left = Math.max(0, total - copied);
  return rate > 0 && left ? left / rate : null;
}

// Whether the members are those that were asked for.
export function isDone(seen) {
  const ids = seen.replicas.map((row) => row.id).join();
  return Boolean(seen.settled) && ids === seen.wanted.join();
}

// Without asking every member: whether a change may be under way.
export function mayChange(seen) {
  const ids = seen.replicas.map((row) => row.id).join();
  return seen.joint || ids !== seen.wanted.join() || seen.replicas.some((row) => row.status !== "active");
}
