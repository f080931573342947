// Asks the node for the plan of a choice: a GET for the table of AWS regions, a POST for the visitor's own round trips.
import { useState } from "../../lib/html.js";
import { getJson, send } from "../../lib/api.js";
import { useWhileVisible } from "../../lib/live.js";

const AGAIN_MS = 2000;

export async function ask({ regions, down, policy, add, rtt }, signal) {
  if (!rtt) {
    const query = new URLSearchParams({ policy });
    if (regions !== null) query.set("regions", regions.join(","));
    if (down.length) query.set("down", down.join(","));
    if (add !== null) query.set("add", add);
    return await getJson(`/v2/plan?${query}`, { signal });
  }
  const json = { round_trips: rtt, down, policy };
  if (regions !== null) json.regions = regions;
  if (add !== null) json.add = add;
  return (await send("POST", "/v2/plan", { json, signal })).body;
}

// {report, error}. The last report stays while the next one is on its way. A node that does not answer is asked again.
export function usePlan(question) {
  const [found, setFound] = useState({ report: null, error: null });
  const isEmpty = question.regions !== null && question.regions.length === 0;
  useWhileVisible(() => {
    const ended = new AbortController();
    let timer = null;
    const look = async () => {
      // Without a choice there is no plan, but its list of regions is wanted to choose from.
      const asked = isEmpty ? { ...question, regions: null, down: [], add: null } : question;
      try {
        const report = await ask(asked, ended.signal);
        if (!ended.signal.aborted) setFound({ report, error: null });
      } catch (error) {
        if (ended.signal.aborted) return;
        setFound((before) => ({ ...before, error }));
        if (error.status === 0) timer = setTimeout(look, AGAIN_MS);
      }
    };
    look();
    return () => {
      ended.abort();
      clearTimeout(timer);
    };
  }, [JSON.stringify(question)]);
  return found;
}
