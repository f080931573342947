// Where pages of actors are: #/actors, and #/actors/KIND/NAME with the namespace behind it, if it is not the default one.

export const DEFAULT = "default";

export function actorHref({ namespace, name, key }) {
  const words = [name, key, ...(namespace === DEFAULT ? [] : [namespace])];
  return `#/actors/${words.map(encodeURIComponent).join("/")}`;
}

export function actorQuery({ namespace, name, key }) {
  return `namespace=${encodeURIComponent(namespace)}&name=${encodeURIComponent(name)}&key=${encodeURIComponent(key)}`;
}

// A generation counts starts, within homes: the upper part is the home's number, the lower the start.
export function generationText(generation) {
  const starts = 2 ** 32;
  return `start ${generation % starts} in home ${Math.floor(generation / starts) + 1}`;
}

export const STATES = {
  pending: { kind: "warn", words: "waits for a worker with room, or for its next start after a failure" },
  starting: { kind: "info", words: "its worker was asked to start it" },
  running: { kind: "good", words: "runs" },
  moving: { kind: "info", words: "is being stopped, so that another worker can start it" },
  asleep: { kind: "info", words: "on no worker until it is needed; it costs nothing meanwhile" },
  destroyed: { kind: "bad", words: "ended for ever; a new one may have the name" },
};
