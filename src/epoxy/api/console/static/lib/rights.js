// What the visitor may do, by the roles of the token: for buttons, and for words where there is none. The node decides.
import { token } from "./api.js";
import { useJson } from "./live.js";

const EVERYTHING = { known: true, reads: true, writes: true, calls: true, operates: true };
const NOTHING = { known: false, reads: false, writes: false, calls: false, operates: false };

export function rightsOf(whoami) {
  const has = (role) => whoami.roles.includes(role);
  return { known: true, reads: has("reader") || has("writer"), writes: has("writer"), calls: has("caller"), operates: has("operator") };
}

// `node`: as the shell hands it to pages. `known` false: nothing is known of the visitor, who may have to give a token.
export function useRights(node) {
  const { data, error } = useJson(node?.auth === "tokens" && token() ? "/v2/auth/whoami" : null);
  if (node?.auth === "open") return EVERYTHING;
  return data && token() && error?.status !== 401 ? rightsOf(data) : NOTHING;
}
