// Requests to the node that serves this page, with the visitor's token.

const TOKEN = "epoxy-token";
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5000;

// For an answer. A node says itself within 10 s that an outcome is not known; one that is stopped, or lost with its
// network, says nothing, and no browser gives up on it for minutes.
const ANSWER_MS = 30000;

// For the next bytes of a stream: three of the node's heartbeats.
const SILENCE_MS = 45000;

// Until a visitor who lacks a right is asked about again: another token is tried at once.
export const REFUSED_MS = 15000;

// The visitor's token is not enough for it, or it is served at another address of the node. Neither changes soon.
export function isRefusal(error) {
  return error !== undefined && [401, 403, 421].includes(error.status);
}

// The token lives as long as the tab: a browser that is closed forgets it.
export function token() {
  return sessionStorage.getItem(TOKEN) ?? "";
}

export function setToken(text) {
  if (text) sessionStorage.setItem(TOKEN, text.trim());
  else sessionStorage.removeItem(TOKEN);
  window.dispatchEvent(new Event("epoxy-token"));
}

export class ApiError extends Error {
  // `status` 0: the node did not answer at all, and what was asked for may have been done.
  constructor({ status, code = "", message, definite = false, retryAfterMs = null }) {
    super(message);
    this.status = status;
    this.code = code;
    this.definite = definite;
    this.retryAfterMs = retryAfterMs;
  }
}

function headersWith(more) {
  const headers = new Headers(more);
  if (token()) headers.set("authorization", `Bearer ${token()}`);
  return headers;
}

export function noAnswer() {
  return new ApiError({ status: 0, code: "no_answer", message: "This node does not answer." });
}

// What `work` gives. A connection that breaks off, before the answer or within it, is no answer.
async function answered(work) {
  try {
    return await work();
  } catch (error) {
    if (error.name === "AbortError" || error instanceof ApiError) throw error;
    throw noAnswer();
  }
}

function request(method, path, { body, headers, signal } = {}) {
  return answered(() => fetch(path, { method, body, headers: headersWith(headers), signal, cache: "no-store" }));
}

function within(signal, limitMs) {
  const limit = AbortSignal.timeout(limitMs);
  return signal ? AbortSignal.any([signal, limit]) : limit;
}

// `shown`: the token that was sent. What is told of one that was replaced meanwhile is no news.
async function failure(answer, shown) {
  let problem = {};
  try {
    problem = (await answer.json()).error ?? {};
  } catch {
    // A proxy's page, or a body that broke off: the status has to do.
  }
  if (answer.status === 401 && shown === token()) window.dispatchEvent(new Event("epoxy-unauthorized"));
  return new ApiError({
    status: answer.status,
    code: problem.code,
    message: problem.message ?? `The node answered with status ${answer.status}.`,
    definite: problem.definite ?? answer.status < 500,
    retryAfterMs: problem.retry_after_ms ?? null,
  });
}

export async function getJson(path, { signal } = {}) {
  const shown = token();
  const answer = await request("GET", path, { headers: { accept: "application/json" }, signal: within(signal, ANSWER_MS) });
  if (!answer.ok) throw await failure(answer, shown);
  return await answered(() => answer.json());
}

// `json` is sent as JSON; `body` as it is. Statuses in `expected` are outcomes, not errors: 409 of a name that is taken.
// Gives {status, headers, body}, the body as JSON where it is JSON, else as bytes.
export async function send(method, path, { body, json, headers = {}, expected = [], signal } = {}) {
  const given = json === undefined ? headers : { ...headers, "content-type": "application/json" };
  const shown = token();
  const sent = json === undefined ? body : JSON.stringify(json);
  const answer = await request(method, path, { body: sent, headers: given, signal: within(signal, ANSWER_MS) });
  if (!answer.ok && !expected.includes(answer.status)) throw await failure(answer, shown);
  const isJson = (answer.headers.get("content-type") ?? "").startsWith("application/json");
  return {
    status: answer.status,
    headers: answer.headers,
    body: await answered(async () => (isJson ? await answer.json() : new Uint8Array(await answer.arrayBuffer()))),
  };
}

// Server-sent events with a token, which EventSource cannot send. Connects again by itself, with the last id, until stopped.
// `onEvent({id, event, data})`, `onState("connecting" | "open" | "closed" | "refused", error?)`. Gives a function that stops it.
export function subscribe(path, { onEvent, onState = () => {} }) {
  const ended = new AbortController();
  let lastId = "";
  let pause = FIRST_PAUSE_MS;

  async function follow() {
    onState("connecting");
    const silent = new AbortController();
    const signal = AbortSignal.any([ended.signal, silent.signal]);
    const lost = () => silent.abort(noAnswer());
    let patience = setTimeout(lost, ANSWER_MS);
    const heard = () => {
      clearTimeout(patience);
      patience = setTimeout(lost, SILENCE_MS);
    };
    try {
      await read(signal, heard);
    } finally {
      clearTimeout(patience);
    }
  }

  async function read(signal, heard) {
    const shown = token();
    const headers = { accept: "text/event-stream", ...(lastId ? { "last-event-id": lastId } : {}) };
    const answer = await request("GET", path, { headers, signal });
    if (!answer.ok) throw await failure(answer, shown);
    heard();
    onState("open");
    pause = FIRST_PAUSE_MS;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      heard();
      text += value;
      const blocks = text.split("\n\n");
      text = blocks.pop();
      for (const block of blocks) {
        const event = parsed(block);
        if (event.id) lastId = event.id;
        if (event.data) onEvent(event);
      }
    }
  }

  async function run() {
    while (!ended.signal.aborted) {
      let reason;
      try {
        await follow();
      } catch (error) {
        reason = error;
      }
      if (ended.signal.aborted) return;
      const refused = isRefusal(reason);
      onState(refused ? "refused" : "closed", reason);
      await new Promise((resume) => setTimeout(resume, refused ? REFUSED_MS : pause));
      pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
    }
  }

  run();
  return () => ended.abort();
}

function parsed(block) {
  const event = { id: "", event: "message", data: "" };
  for (const line of block.split("\n")) {
    const [, name, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (name === "data") event.data += event.data ? `\n${value}` : value;
    else if (name === "id" || name === "event") event[name] = value;
  }
  return event;
}
