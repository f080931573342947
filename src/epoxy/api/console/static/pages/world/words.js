// What a number means, in words.
const NUMBERS = ["No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine"];

// How many more datacenters may fail before nothing can be decided.
export function mayFail(tolerated) {
  if (tolerated < 0) return "Nothing can be decided now";
  const word = NUMBERS[tolerated] ?? String(tolerated);
  return `${word} more datacenter${tolerated > 1 ? "s" : ""} may fail`;
}

// For the column "May fail".
export function mayFailShort(tolerated) {
  return tolerated < 0 ? "nothing decided" : tolerated === 0 ? "none" : `${tolerated} more`;
}

export function mayFailKind(tolerated) {
  return tolerated < 0 ? "bad" : tolerated === 0 ? "warn" : "good";
}

// The rest of the story: who is away, and what that means for clients.
export function explained(world) {
  if (world.members.length === 1) return `${world.datacenter || "This"} is the only datacenter. Writes go on as long as it does.`;
  const away = world.members.filter((member) => !member.reachable).map((member) => member.datacenter);
  const reach = world.members.length - away.length;
  const names = away.length > 1 ? `${away.slice(0, -1).join(", ")} and ${away.at(-1)} are` : `${away[0]} is`;
  const state = away.length ? `${names} not reachable from ${world.datacenter}.` : `All ${world.members.length} datacenters are within reach of ${world.datacenter}.`;
  if (world.tolerated_failures < 0) return `${state} Writes wait until ${world.slow_quorum} of ${world.replicas} datacenters reach each other again; names that are known here can still be read.`;
  if (world.tolerated_failures === 0 && reach > 1) return `${state} Writes go on; with one more failure they would stop.`;
  return `${state} Writes go on in every one of them, without a leader.`;
}
