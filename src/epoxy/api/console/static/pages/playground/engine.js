// The page's end of the worker: requests with their answers, and a new worker when the old one is stopped in its work.
import { useEffect, useRef, useState } from "../../lib/html.js";

const WORKER = "/ui/playground/worker.js";

export class Stopped extends Error {}

export class Engine {
  constructor(onStage) {
    this._onStage = onStage;
    this._waiting = new Map();
    this._numbers = 0;
    this._start();
  }

  _start() {
    this._worker = new Worker(WORKER, { type: "module" });
    this._worker.onmessage = ({ data }) => this._heard(data);
    this._worker.onerror = (event) => {
      event.preventDefault();
      this._onStage({ stage: "failed", error: event.message || "its script could not be loaded from this node" });
    };
    this._onStage({ stage: "Python" });
  }

  _heard({ id, stage, error, ok, progress }) {
    if (stage) {
      this._onStage({ stage, error });
      return;
    }
    const waiting = this._waiting.get(id);
    if (!waiting) return;
    if (progress) {
      waiting.onProgress?.(progress);
      return;
    }
    this._waiting.delete(id);
    if (error) waiting.reject(new Error(error));
    else waiting.resolve(ok);
  }

  // {answer: a promise, cancel: stops a run of seeds, which then is answered with what it has}.
  ask(request, onProgress) {
    const id = ++this._numbers;
    const answer = new Promise((resolve, reject) => this._waiting.set(id, { resolve, reject, onProgress }));
    this._worker.postMessage({ id, ...request });
    return { answer, cancel: () => this._worker.postMessage({ do: "cancel", of: id }) };
  }

  // For work that cannot be interrupted. Python is loaded again.
  restart() {
    this.end();
    this._start();
  }

  end() {
    this._worker.terminate();
    for (const { reject } of this._waiting.values()) reject(new Stopped());
    this._waiting.clear();
  }
}

// {engine, stage, error}. The worker lives as long as the page is looked at.
export function useEngine() {
  const [state, setState] = useState({ stage: "Python", error: null });
  const engine = useRef(null);
  if (engine.current === null) engine.current = new Engine(setState);
  useEffect(() => () => engine.current.end(), []);
  return { engine: engine.current, ...state };
}
