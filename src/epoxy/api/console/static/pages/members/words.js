// What the states of members are called.

export const STATUSES = {
  joining: { kind: "info", words: "joins", means: "listed, and waited for: it has not answered yet" },
  learning: { kind: "info", words: "copies", means: "copies what the others hold, and does not vote yet" },
  active: { kind: "good", words: "votes", means: "decides together with the others" },
  leaving: { kind: "warn", words: "leaves", means: "votes until the others have copied what only it has" },
};

const NUMBERS = ["no", "one", "two", "three", "four", "five"];

export function numberWord(number) {
  return NUMBERS[number] ?? String(number);
}

export function plural(number, word) {
  return `${numberWord(number)} ${word}${number === 1 ? "" : "s"}`;
}

// How many more datacenters may fail.
export function spare(number) {
  if (number < 0) return "nothing can be decided now: too few are within reach";
  return number === 0 ? "no more datacenter may fail" : `${numberWord(number)} more datacenter${number === 1 ? "" : "s"} may fail`;
}

export function capital(words) {
  return words[0].toUpperCase() + words.slice(1);
}

export function nameOf(row) {
  return row.datacenter || `replica ${row.id}`;
}
