// Data that stays fresh while it is looked at: asked again and again, and not while the tab is hidden.
import { useCallback, useEffect, useRef, useState } from "./html.js";
import { getJson, isRefusal, noAnswer, REFUSED_MS, subscribe } from "./api.js";

// A node that has not answered for so long is said not to, while the page goes on waiting for it.
const LATE_MS = 4000;

// Until a node that did not answer, or not now, is asked again by a page that needs one answer alone.
const ONCE_MORE_MS = 3000;

// Runs `start` while the tab is visible; what it returns is called when the tab is hidden, and at the end.
export function useWhileVisible(start, dependencies) {
  useEffect(() => {
    let stop = null;
    const look = () => {
      if (document.visibilityState === "visible" && stop === null) stop = start() ?? (() => {});
      else if (document.visibilityState === "hidden" && stop !== null) {
        stop();
        stop = null;
      }
    };
    look();
    document.addEventListener("visibilitychange", look);
    return () => {
      document.removeEventListener("visibilitychange", look);
      stop?.();
    };
  }, dependencies);
}

function isPassing({ status }) {
  return status === 0 || status === 429 || status === 503;
}

// {data, error, at, again}. After an error the last data stay, so that a page does not go blank while a node restarts.
// `path` null: nothing is asked. `everyMs` 0: until there is an answer.
export function useJson(path, everyMs = 0) {
  const [found, setFound] = useState({ data: null, error: null, at: null });
  const [turn, setTurn] = useState(0);
  const again = useCallback(() => setTurn((n) => n + 1), []);
  const asked = useRef(path);
  useEffect(() => {
    if (asked.current !== path) {
      asked.current = path;
      setFound({ data: null, error: null, at: null });
    }
  }, [path]);
  useWhileVisible(() => {
    if (path === null) return undefined;
    const ended = new AbortController();
    let timer = null;
    const ask = async () => {
      let pauseMs = everyMs;
      const late = setTimeout(() => !ended.signal.aborted && setFound((before) => ({ ...before, error: noAnswer() })), LATE_MS);
      try {
        const data = await getJson(path, { signal: ended.signal });
        if (!ended.signal.aborted) setFound({ data, error: null, at: Date.now() });
      } catch (error) {
        if (ended.signal.aborted) return;
        setFound((before) => ({ ...before, error }));
        if (everyMs && isRefusal(error)) pauseMs = Math.max(everyMs, REFUSED_MS);
        else if (!everyMs && isPassing(error)) pauseMs = ONCE_MORE_MS;
      } finally {
        clearTimeout(late);
      }
      clearTimeout(timer);
      if (pauseMs && !ended.signal.aborted) timer = setTimeout(ask, pauseMs);
    };
    const newToken = () => {
      clearTimeout(timer);
      ask();
    };
    window.addEventListener("epoxy-token", newToken);
    ask();
    return () => {
      ended.abort();
      clearTimeout(timer);
      window.removeEventListener("epoxy-token", newToken);
    };
  }, [path, everyMs, turn]);
  return { ...found, again };
}

// The state of the stream: "connecting", "open", "closed" or "refused". `onEvent` may change from one drawing to the next.
export function useEvents(path, onEvent) {
  const [state, setState] = useState("connecting");
  const latest = useRef(onEvent);
  latest.current = onEvent;
  useWhileVisible(() => {
    if (path === null) {
      setState("connecting"); // Until there is one again.
      return undefined;
    }
    let stop = subscribe(path, { onEvent: (event) => latest.current(event), onState: setState });
    const newToken = () => {
      stop();
      stop = subscribe(path, { onEvent: (event) => latest.current(event), onState: setState });
    };
    window.addEventListener("epoxy-token", newToken);
    return () => {
      stop();
      window.removeEventListener("epoxy-token", newToken);
    };
  }, [path]);
  return state;
}
