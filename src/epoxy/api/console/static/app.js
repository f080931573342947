// The shell: navigation, the page that the address names, light or dark, and the visitor's token.
import { html, render, useEffect, useRef, useState } from "./lib/html.js";
import { setToken, token } from "./lib/api.js";
import { useJson } from "./lib/live.js";
import { Busy, Button, Field, Notice } from "./lib/ui.js";

const PAGES = [
  { name: "world", title: "World" },
  { name: "commits", title: "Commits" },
  { name: "key", title: "Key" },
  { name: "members", title: "Members" },
  { name: "transactions", title: "Transactions" },
  { name: "actors", title: "Actors" },
  { name: "leases", title: "Leases" },
  { name: "elect", title: "Elect" },
  { name: "demo", title: "Demo", demoOnly: true },
  { name: "plan", title: "Planner" },
  { name: "playground", title: "Playground" },
];
const FIRST = "world";
const THEME = "epoxy-theme";
const THEMES = ["auto", "light", "dark"];
const INFO_EVERY_MS = 5000;
const LOAD_AGAIN_MS = 2000;

// #/key/user%2Fada -> {name: "key", args: ["user%2Fada"]}: pages decode what is theirs, because a key may hold any byte.
function place() {
  const [name, ...args] = location.hash.replace(/^#\/?/, "").split("?")[0].split("/");
  return { name: PAGES.some((page) => page.name === name) ? name : FIRST, args };
}

function usePlace() {
  const [found, setFound] = useState(place());
  useEffect(() => {
    const moved = () => setFound(place());
    window.addEventListener("hashchange", moved);
    return () => window.removeEventListener("hashchange", moved);
  }, []);
  return found;
}

// Asked for again until the node has it: a page may be chosen while the node restarts.
function useModule(name) {
  const [loaded, setLoaded] = useState({ name: null, page: null, error: null });
  useEffect(() => {
    let wanted = true;
    let timer = null;
    const failed = (error) => {
      if (!wanted) return;
      setLoaded({ name, page: null, error });
      timer = setTimeout(load, LOAD_AGAIN_MS);
    };
    const load = () => import(`./pages/${name}.js`).then((module) => wanted && setLoaded({ name, page: module.default, error: null }), failed);
    load();
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [name]);
  return loaded.name === name ? loaded : { name, page: null, error: null };
}

function applyTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

function ThemeButton() {
  const [theme, setTheme] = useState(localStorage.getItem(THEME) ?? "auto");
  useEffect(() => {
    applyTheme(theme);
    localStorage.setItem(THEME, theme);
  }, [theme]);
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  return html`<${Button} kind="quiet" aria-label=${`Colours: ${theme}. Change to ${next}`} onClick=${() => setTheme(next)}>
    ${theme === "auto" ? "◐ auto" : theme === "light" ? "○ light" : "● dark"}
  <//>`;
}

function TokenDialog({ open, onClose }) {
  const dialog = useRef(null);
  const [text, setText] = useState("");
  useEffect(() => {
    if (open && !dialog.current.open) dialog.current.showModal();
    if (!open && dialog.current.open) dialog.current.close();
  }, [open]);
  const use = (event) => {
    event.preventDefault();
    setToken(text);
    setText("");
    onClose();
  };
  const forget = () => {
    setToken("");
    setText("");
    onClose();
  };
  return html`<dialog ref=${dialog} aria-labelledby="token-title" onClose=${onClose}>
    <form onSubmit=${use}>
      <h2 id="token-title">Your token</h2>
      <p>This cluster asks its clients for tokens. The console can do what your token may do. The token stays in this tab.</p>
      <${Field} id="token" label="Token" hint="As a file of epoxy auth token create --save holds it.">
        <input id="token" type="password" autocomplete="off" aria-describedby="token-hint" value=${text} onInput=${(event) => setText(event.target.value)} />
      <//>
      <div class="actions">
        <button type="submit" class="primary" disabled=${!text.trim()}>Use this token</button>
        ${token() ? html`<${Button} onClick=${forget}>Forget the token<//>` : null}
        <${Button} onClick=${onClose}>Close<//>
      </div>
    </form>
  </dialog>`;
}

function Navigation({ current, node }) {
  const shown = PAGES.filter((page) => !page.demoOnly || node?.demo);
  return html`<nav aria-label="Pages">
    <ul>
      ${shown.map(
        ({ name, title }) => html`<li key=${name}>
          <a href=${`#/${name}`} aria-current=${name === current ? "page" : null}>${title}</a>
        </li>`,
      )}
    </ul>
  </nav>`;
}

function App() {
  const { name, args } = usePlace();
  const { page: Shown, error } = useModule(name);
  const { data: node, error: silent } = useJson("/v2/console", INFO_EVERY_MS);
  const [asking, setAsking] = useState(false);
  const [refused, setRefused] = useState(false);
  const [hasToken, setHasToken] = useState(Boolean(token()));
  const { data: accepted } = useJson(refused && hasToken ? "/v2/auth/whoami" : null, INFO_EVERY_MS);
  const opened = useRef(name);
  useEffect(() => {
    const unauthorized = () => setRefused(true);
    const changed = () => {
      setRefused(false);
      setHasToken(Boolean(token()));
    };
    window.addEventListener("epoxy-unauthorized", unauthorized);
    window.addEventListener("epoxy-token", changed);
    return () => {
      window.removeEventListener("epoxy-unauthorized", unauthorized);
      window.removeEventListener("epoxy-token", changed);
    };
  }, []);
  useEffect(() => {
    if (accepted) setRefused(false); // A token that was just made reaches a node within seconds.
  }, [accepted]);
  useEffect(() => {
    if (!Shown || opened.current === name) return;
    opened.current = name;
    document.getElementById("page-title")?.focus();
  }, [name, Boolean(Shown)]);
  return html`
    <a class="skip" href="#page-title" onClick=${(event) => { event.preventDefault(); document.getElementById("page-title")?.focus(); }}>To the page</a>
    <header class="top">
      <a class="brand" href="#/world"><img src="/ui/icon.svg" alt="" width="28" height="28" /> Epoxy</a>
      <p class="where">${node ? html`seen from <strong>${node.datacenter || `replica ${node.id}`}</strong>` : null}</p>
      <div class="tools">
        ${node?.auth === "tokens" || hasToken ? html`<${Button} kind="quiet" onClick=${() => setAsking(true)}>${hasToken ? "Token: set" : "Token: none"}<//>` : null}
        <${ThemeButton} />
      </div>
    </header>
    <${Navigation} current=${name} node=${node} />
    <main>
      ${silent && silent.status === 0 ? html`<${Notice} kind="bad">This node does not answer. What is shown may be old; the page goes on by itself when the node is back.<//>` : null}
      ${refused ? html`<${Notice} kind="warn">${hasToken ? "This token is not accepted." : "This cluster asks for a token."} <${Button} onClick=${() => setAsking(true)}>Give a token<//><//>` : null}
      ${error ? html`<${Notice} kind="bad">This page could not be loaded from the node.<//>` : null}
      ${Shown ? html`<${Shown} key=${name} args=${args} node=${node} />` : error ? null : html`<${Busy} />`}
    </main>
    <${TokenDialog} open=${asking} onClose=${() => setAsking(false)} />
  `;
}

applyTheme(localStorage.getItem(THEME) ?? "auto");
render(html`<${App} />`, document.getElementById("app"));
