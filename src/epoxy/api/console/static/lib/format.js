// Numbers and names for people.

export function ms(value) {
  if (value === null || value === undefined) return "not known";
  if (value >= 10000) return `${(value / 1000).toFixed(1)} s`;
  if (value >= 100) return `${Math.round(value)} ms`;
  if (value >= 10) return `${value.toFixed(1)} ms`;
  return `${value.toFixed(2)} ms`;
}

export function count(value) {
  return value === null || value === undefined ? "not known" : Math.round(value).toLocaleString("en");
}

export function rate(value) {
  if (value === null || value === undefined) return "not known";
  return `${value >= 10 ? Math.round(value).toLocaleString("en") : value.toFixed(1)}/s`;
}

export function bytes(value) {
  if (value === null || value === undefined) return "not known";
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit ? value.toFixed(1) : value} ${units[unit]}`;
}

export function share(value) {
  return value === null || value === undefined ? "not known" : `${(100 * value).toFixed(value < 0.995 && value > 0 ? 1 : 0)} %`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "not known";
  if (seconds < 60) return `${Math.max(0, seconds).toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

// `seconds`: since 1970.
export function ago(seconds) {
  return `${duration(Math.max(0, Date.now() / 1000 - seconds))} ago`;
}

export function time(seconds) {
  return new Date(1000 * seconds).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
}

// Percent-encoded text; what is no UTF-8 stays percent-encoded.
export function decoded(encoded) {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}

// What is not seen on a screen, or turns the writing around: two keys would look the same, or have nothing to click.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u00a0\u034f\u115f\u1160\u2000-\u200a\u3164\uffa0]|^ | $| (?= )/gu;

// A percent-encoded key as it is shown: text, with everything unseen percent-encoded.
export function keyText(encoded) {
  return decoded(encoded).replace(UNSEEN, encodeURIComponent);
}

// The address of a key's page. A slash of the key is none of the address.
export function keyHref(encoded) {
  return `#/key/${encoded.replaceAll("/", "%2F")}`;
}
