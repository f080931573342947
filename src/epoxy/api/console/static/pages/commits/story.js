// What a sample of a commit says: its kind, its steps in words, and the bars of its timeline.

// `shape` and `colour` belong together: nothing is told by colour alone.
export const KINDS = {
  fast: { title: "fast", words: "one round trip", mark: "●", badge: "good" },
  slow: { title: "slow", words: "more than one round trip", mark: "◆", badge: "warn" },
  carried: { title: "carried", words: "handed to the replica that folds the writes of its key", mark: "■", badge: "info" },
  local: { title: "local", words: "answered without a message", mark: "○", badge: "info" },
  none: { title: "not decided", words: "its outcome is not known, or it was refused", mark: "✕", badge: "bad" },
};

export function kindOf(sample) {
  if (sample.carried_to !== null) return "carried";
  return sample.path in KINDS ? sample.path : "none";
}

export const MESSAGES = {
  vote: { title: "asks for a vote", shape: "circle" },
  promise: { title: "asks for a promise", shape: "diamond" },
  carry: { title: "hands the write over", shape: "square" },
  commit: { title: "tells the commit", shape: "ring" },
};

const ANSWERS = {
  AcceptOk: "votes for it",
  PrepareOk: "promises",
  CarryOk: "takes it",
  AlreadyCommitted: "knows a decision",
  HigherBallot: "has voted for another",
  Behind: "missed a version, and is sent it",
  Failed: "does not answer",
};

export function answerWords(message) {
  if (message.kind === "commit") return "no answer is needed";
  if (message.heard_ms === null) return "no answer in a second";
  return ANSWERS[message.answer] ?? message.answer;
}

// The last moment of a timeline, in milliseconds.
export function lasts(sample) {
  const times = sample.messages.flatMap(({ sent_ms: sent, heard_ms: heard }) => [sent, heard ?? sent]);
  return Math.max(sample.answered_ms, sample.floor_ms ?? 0, 0.1, ...times);
}

// Each step with its time, in order, an answer before what follows from it; `name`: of a replica's datacenter.
export function steps(sample, name) {
  const own = [
    { at: 0, words: "the write begins" },
    { at: sample.voted_ms, words: `the vote of ${name(sample.home)} is on its disk, and the others are asked` },
    { at: sample.decided_ms, words: "the quorum is complete: it is decided" },
    { at: sample.told_ms, words: "the commit is on the disk, and the others are told" },
    { at: sample.answered_ms, words: "the client is answered" },
  ].filter(({ at }) => at !== null);
  const heard = sample.messages
    .filter((message) => message.kind !== "commit" && message.heard_ms !== null)
    .map((message) => ({ at: message.heard_ms, words: `${name(message.to)} ${answerWords(message)}` }));
  return [...heard, ...own].sort((one, other) => one.at - other.at);
}
