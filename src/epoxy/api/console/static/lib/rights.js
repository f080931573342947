// What the visitor may do, by the roles of the token: for buttons, and for words where there is none. The node decides.
import { token } from "./api.js";
import { useJson } from "./live.js";

const EVERYTHING = { known: true, reads: true, writes: true, calls: true, operates: true };
const NOTHING = { known: false, reads: false, writes: false, calls: false, operates: false };

export function rightsOf(whoami) {
  if (whoami === null) return NOTHING;
  if (whoami.auth === "open") return EVERYTHING;
  const has = (role) => whoami.roles.includes(role);
  return { known: true, reads: has("reader") || has("writer"), writes: has("writer"), calls: has("caller"), operates: has("operator") };
}

// `node`: as the shell hands it to pages. A node that asks for tokens is not asked without one: it would only refuse.
export function useRights(node) {
  const asked = node && (node.auth === "open" || token());
  const { data } = useJson(asked ? "/v2/auth/whoami" : null);
  return rightsOf(data);
}
