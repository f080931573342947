// The choice as it stands in the address, so that a link shows another person the same plan.

export const NOTHING = { regions: null, down: [], policy: "optimal", add: null, rtt: "" };

// A longer text is not put into the address: chat programs and mail cut long links.
export const LONGEST_TEXT = 4000;

// `regions` null: nothing is said, and the node's own choice is taken; []: none is chosen.
export function readAddress() {
  const query = new URLSearchParams(location.hash.split("?")[1] ?? "");
  const names = (name) => (query.get(name) ?? "").split(",").filter(Boolean);
  return {
    regions: query.has("regions") ? names("regions") : null,
    down: names("down"),
    policy: query.get("policy") === "fast-paxos" ? "fast-paxos" : "optimal",
    add: /^[12]$/.test(query.get("add") ?? "") ? Number(query.get("add")) : null,
    rtt: query.get("rtt") ?? "",
  };
}

export function addressOf({ regions, down, policy, add, rtt }) {
  const parts = [];
  const say = (name, text) => parts.push(`${name}=${encodeURIComponent(text).replaceAll("%2C", ",")}`);
  if (regions !== null) say("regions", regions.join(","));
  if (down.length) say("down", down.join(","));
  if (policy !== "optimal") say("policy", policy);
  if (add !== null) say("add", add);
  if (rtt && rtt.length <= LONGEST_TEXT) say("rtt", rtt);
  return parts.length ? `#/plan?${parts.join("&")}` : "#/plan";
}
