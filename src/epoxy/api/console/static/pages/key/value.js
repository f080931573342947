// A value as a person can look at it: text where it is text, else hex, and not more than a screen of it.
import { html } from "../../lib/html.js";
import { bytes as size } from "../../lib/format.js";
import { fromBase64, hexOf, SHOWN_BYTES, textOf } from "./bytes.js";

const HEX_BYTES = 256;

function cutText(bytes) {
  // A cut in the middle of a letter makes no text of three bytes at most.
  for (let less = 0; less < 4; less += 1) {
    const text = textOf(bytes.slice(0, SHOWN_BYTES - less));
    if (text !== null) return text;
  }
  return null;
}

// `base64` null: there is no value. `total`: its size, if `base64` is only its beginning.
export function Value({ base64, total = null }) {
  if (base64 === null || base64 === undefined) return html`<span class="muted">no value</span>`;
  const bytes = fromBase64(base64);
  const whole = total ?? bytes.length;
  if (whole === 0) return html`<span class="muted">empty</span>`;
  const text = cutText(bytes);
  const shown = text === null ? Math.min(bytes.length, HEX_BYTES) : Math.min(bytes.length, SHOWN_BYTES);
  const rest = whole > shown ? html`<span class="hint">the first ${size(shown)} of ${size(whole)}</span>` : null;
  if (text === null) return html`<code class="key-value">${hexOf(bytes.slice(0, HEX_BYTES))}</code><span class="hint">${size(whole)} that are no text, as hex</span>${rest}`;
  return html`<code class="key-value">${text}</code>${rest}`;
}
