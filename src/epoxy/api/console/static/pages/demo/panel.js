// The demo's panel: it carries out orders, at an address of its own, so that it answers also when this page's node is down.
import { useCallback, useEffect, useRef, useState } from "../../lib/html.js";
import { ApiError, getJson } from "../../lib/api.js";
import { useWhileVisible } from "../../lib/live.js";

const LOOK_MS = 1000;
const LEARN_MS = 3000;

async function ask({ url, token }, method, path, body, signal) {
  let answer, told;
  try {
    answer = await fetch(url + path, {
      method,
      signal,
      cache: "no-store",
      headers: { authorization: `Bearer ${token}`, ...(body ? { "content-type": "application/json" } : {}) },
      body: body ? JSON.stringify(body) : undefined,
    });
    told = await answer.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError({ status: 0, code: "no_answer", message: "The demo does not answer: it has ended, or is busy." });
  }
  if (answer.ok || answer.status === 409) return told;
  throw new ApiError({ status: answer.status, code: told.error?.code, message: told.error?.message ?? `status ${answer.status}`, definite: true });
}

// {demo, error, give, busy, told}. `give(order, words)` carries out one order; `told`: what the last one did, in lines.
export function useDemo() {
  const [key, setKey] = useState(null);
  const [demo, setDemo] = useState(null);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState("");
  const [told, setTold] = useState(null);
  const [races, setRaces] = useState([]);
  const giving = useRef(false);

  useEffect(() => {
    if (key) return undefined;
    let wanted = true;
    let timer = null;
    const failed = (problem) => {
      if (!wanted) return;
      setError(problem);
      if (problem.status !== 401 && problem.status !== 403) timer = setTimeout(learn, LEARN_MS);
    };
    const learn = () => {
      clearTimeout(timer);
      return getJson("/v2/console/demo").then((found) => wanted && setKey(found), failed);
    };
    learn();
    window.addEventListener("epoxy-token", learn);
    return () => {
      wanted = false;
      clearTimeout(timer);
      window.removeEventListener("epoxy-token", learn);
    };
  }, [key]);

  useWhileVisible(() => {
    if (!key) return undefined;
    const ended = new AbortController();
    let timer = null;
    const look = async () => {
      try {
        const seen = await ask(key, "GET", "/v1/demo", null, ended.signal);
        if (!ended.signal.aborted) {
          setDemo(seen);
          setError(null);
        }
      } catch (problem) {
        if (ended.signal.aborted) return;
        setError(problem);
        if (problem.status === 401) {
          timer = setTimeout(() => setKey(null), LEARN_MS); // The demo was started again, and has another token.
          return;
        }
      }
      if (!ended.signal.aborted) timer = setTimeout(look, LOOK_MS);
    };
    look();
    return () => {
      ended.abort();
      clearTimeout(timer);
    };
  }, [key]);

  const give = useCallback(
    async (order, words) => {
      if (giving.current) return;
      giving.current = true;
      setBusy(words);
      try {
        const reply = await ask(key, "POST", "/v1/orders", order);
        setDemo((before) => ({ ...before, ...reply.demo }));
        setTold({ done: reply.done, lines: reply.lines });
        if (reply.race) setRaces((before) => [reply.race, ...before].slice(0, 5));
      } catch (problem) {
        setTold({ done: false, lines: [problem.message] });
      }
      giving.current = false;
      setBusy("");
    },
    [key],
  );
  return { demo, error, give, busy, told, races };
}
