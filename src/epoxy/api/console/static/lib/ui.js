// What the pages are made of.
import { html, useEffect, useRef } from "./html.js";

const TITLE = "Epoxy";
const STYLE_AGAIN_MS = 2000;

// A page with its heading, which gets the focus when the page is opened by a link of the navigation.
export function Page({ title, lead, children }) {
  useEffect(() => {
    document.title = `${title} · ${TITLE}`;
  }, [title]);
  return html`<article class="page">
    <header class="page-head">
      <h1 id="page-title" tabindex="-1">${title}</h1>
      ${lead ? html`<p class="lead">${lead}</p>` : null}
    </header>
    ${children}
  </article>`;
}

export function Section({ title, children, ...rest }) {
  return html`<section ...${rest}><h2>${title}</h2>${children}</section>`;
}

export function Card({ title, children, ...rest }) {
  return html`<div class="card" ...${rest}>${title ? html`<h3>${title}</h3>` : null}${children}</div>`;
}

// `items`: {label, value, unit, hint}.
export function Stats({ items }) {
  return html`<dl class="stats">
    ${items.map(
      ({ label, value, unit, hint }) => html`<div key=${label}>
        <dt>${label}</dt>
        <dd>${value}${unit ? html` <span class="unit">${unit}</span>` : null}${hint ? html`<span class="hint">${hint}</span>` : null}</dd>
      </div>`,
    )}
  </dl>`;
}

// `columns`: {key, title, number?, cell?(row)}; `rows` have an `id` or are told apart by their place.
export function Table({ caption, columns, rows, empty = "There is nothing to show." }) {
  return html`<div class="table-wrap" role="region" aria-label=${caption} tabindex="0">
    <table>
      <caption>${caption}</caption>
      <thead><tr>${columns.map((column) => html`<th key=${column.key} scope="col" class=${column.number ? "number" : ""}>${column.title}</th>`)}</tr></thead>
      <tbody>
        ${rows.length === 0 ? html`<tr><td colspan=${columns.length} class="muted">${empty}</td></tr>` : null}
        ${rows.map(
          (row, place) => html`<tr key=${row.id ?? place} class=${row.className ?? ""}>
            ${columns.map((column, n) => {
              const content = column.cell ? column.cell(row) : row[column.key];
              const name = column.number ? "number" : "";
              return n === 0
                ? html`<th key=${column.key} scope="row" class=${name}>${content}</th>`
                : html`<td key=${column.key} class=${name}>${content}</td>`;
            })}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

// `kind`: info, good, warn or bad. Said aloud by screen readers when it appears; a bad one at once.
export function Notice({ kind = "info", children }) {
  return html`<div class=${`notice ${kind}`} role=${kind === "bad" ? "alert" : "status"}>${children}</div>`;
}

export function ErrorNotice({ error }) {
  if (!error) return null;
  const unknown = error.definite === false && error.status !== 0 ? " It is not known whether it was done." : "";
  return html`<${Notice} kind="bad">${error.message}${unknown}<//>`;
}

export function Busy({ what = "Loading" }) {
  return html`<p class="muted" role="status">${what}…</p>`;
}

// `children`: one input, whose id is `id`.
export function Field({ id, label, hint, children }) {
  return html`<div class="field">
    <label for=${id}>${label}</label>
    ${children}
    ${hint ? html`<p class="hint" id=${`${id}-hint`}>${hint}</p>` : null}
  </div>`;
}

export function Button({ kind = "", children, ...rest }) {
  return html`<button type="button" class=${kind} ...${rest}>${children}</button>`;
}

export function Badge({ kind = "info", children }) {
  return html`<span class=${`badge ${kind}`}>${children}</span>`;
}

// A style sheet of one page, below /ui. It stays once loaded: its rules name the page's own classes.
export function useStyles(name) {
  useEffect(() => {
    const address = `/ui/${name}`;
    const load = () => {
      if (document.querySelector(`link[href="${address}"]`)) return;
      const link = document.createElement("link");
      link.rel = "stylesheet";
      link.href = address;
      link.addEventListener("error", () => {
        link.remove();
        setTimeout(load, STYLE_AGAIN_MS);
      });
      document.head.append(link);
    };
    load();
  }, [name]);
}

// A question before something is done. `open`, `onClose(confirmed)`.
export function Confirm({ open, title, action, kind = "danger", children, onClose }) {
  const dialog = useRef(null);
  useEffect(() => {
    if (open && !dialog.current.open) dialog.current.showModal();
    if (!open && dialog.current.open) dialog.current.close();
  }, [open]);
  return html`<dialog ref=${dialog} aria-labelledby="confirm-title" onCancel=${(event) => { event.preventDefault(); onClose(false); }}>
    ${open
      ? html`<h2 id="confirm-title">${title}</h2>
          <div>${children}</div>
          <div class="actions">
            <${Button} kind=${kind} onClick=${() => onClose(true)}>${action}<//>
            <${Button} onClick=${() => onClose(false)}>Cancel<//>
          </div>`
      : null}
  </dialog>`;
}
