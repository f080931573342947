// Compiles only if the generated types say what a node takes and answers.
import type { components, operations } from "./epoxy";

type Txn = components["schemas"]["TxnJson"];
type Executed = operations["transact"]["responses"][200]["content"]["application/json"];
type Refused = operations["putKey"]["responses"][429]["content"]["application/json"];

export const transfer: Txn = {
  compare: [{ key: "frozen/a", absent: true, one_of: [], one_of_base64: [] }],
  then: [{ op: "add", key: "acct/a", amount: -5 }, { op: "put", key: "log", value: "-5" }],
  else: [],
  reads: ["acct/a"],
};

// @ts-expect-error: an amount is a number
export const wrong: Txn = { compare: [], then: [{ op: "add", key: "acct/a", amount: "5" }], else: [], reads: [] };

export function values(executed: Executed): (string | null)[] {
  return executed.succeeded ? executed.reads.map((read) => read.value) : [];
}

export function mayHaveHappened(refused: Refused): boolean {
  return !refused.error.definite && refused.error.retry_after_ms === undefined;
}
