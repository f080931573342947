// Keys and values are bytes; addresses, forms and screens have text. Everything that turns one into the other.

export const MAX_KEY_BYTES = 1024;
export const SHOWN_BYTES = 4096;

const UTF8 = new TextEncoder();
const STRICT = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

// Percent-encoded text as bytes. A % that begins no byte is itself.
export function percentDecoded(text) {
  const found = [];
  for (let at = 0; at < text.length; ) {
    const hex = /^%([0-9a-fA-F]{2})/.exec(text.slice(at, at + 3));
    if (hex) {
      found.push(parseInt(hex[1], 16));
      at += 3;
    } else {
      const letter = String.fromCodePoint(text.codePointAt(at));
      found.push(...UTF8.encode(letter));
      at += letter.length;
    }
  }
  return new Uint8Array(found);
}

// Everything but letters, digits and -._~ is escaped, slashes too: the browser must not take a key apart.
export function percentEncoded(bytes) {
  let text = "";
  for (const byte of bytes) {
    const letter = String.fromCharCode(byte);
    text += /[A-Za-z0-9\-._~]/.test(letter) ? letter : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return text;
}

// What is wrong with a key, in words; null: nothing is.
export function keyProblem(bytes) {
  if (bytes.length === 0) return "A key has at least one byte.";
  if (bytes.length > MAX_KEY_BYTES) return `A key has at most ${MAX_KEY_BYTES} bytes; this one has ${bytes.length}.`;
  if (bytes[0] === 0xff) return "Keys that begin with the byte ff are the cluster's own.";
  const text = textOf(bytes);
  if (text === "." || text === "..") return "Browsers cannot ask for a key that is only dots: epoxy inspect can.";
  return null;
}

// As text, if it is text that a person can read; otherwise null.
export function textOf(bytes) {
  try {
    const text = STRICT.decode(bytes);
    // eslint-disable-next-line no-control-regex
    return /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/.test(text) ? null : text;
  } catch {
    return null;
  }
}

export function hexOf(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

export function fromBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

// What a visitor typed, in the form they chose. Throws Error with words for them.
export function typedBytes(text, form) {
  if (form === "text") return UTF8.encode(text);
  if (form === "hex") {
    const digits = text.replace(/\s+/g, "");
    if (!/^([0-9a-fA-F]{2})*$/.test(digits)) throw new Error("Hex is pairs of the digits 0 to 9 and a to f.");
    return Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  }
  try {
    return fromBase64(text.replace(/\s+/g, ""));
  } catch {
    throw new Error("This is no base64.");
  }
}
