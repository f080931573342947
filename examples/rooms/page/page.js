// A room over one WebSocket, straight to a node of the cluster: of the region that was chosen, or of the next one that answers.
// Lines that were sent and not yet seen in the history are sent again after a reconnect, under the same id: the room keeps each once.

const at = id => document.getElementById(id);
const config = await (await fetch("config.json")).json();
const asked = new URLSearchParams(location.search);
const SHORTEST_MS = 250, LONGEST_MS = 4000, PATIENCE_MS = 20000;

const you = {
  room: asked.get("room") || "lobby",
  name: asked.get("name") || localStorage.getItem("name") || "guest-" + Math.floor(Math.random() * 900 + 100),
  region: config.regions.some(each => each.name === asked.get("region")) ? asked.get("region") : config.regions[0].name,
};

let socket = null, opened = false, timer = 0, tries = 0, misses = 0, via = you.region;
let last = 0, home = "", generation = 0;
const unsent = new Map();

function connect() {
  clearTimeout(timer);
  const order = config.regions.map(each => each.name);
  via = order[(order.indexOf(you.region) + tries) % order.length];
  show("connecting", `Connecting through ${via}`);
  const node = config.regions.find(each => each.name === via).url.replace(/^http/, "ws");
  const query = new URLSearchParams({ "epoxy-pool": config.pool, name: you.name, via, after: last });
  const path = [config.actor, you.room].map(encodeURIComponent).join("/");
  const made = new WebSocket(`${node}/v2/actors/at/${path}/?${query}`, config.token ? ["epoxy", "epoxy.bearer." + config.token] : ["epoxy"]);
  made.onmessage = event => heard(JSON.parse(event.data));
  made.onclose = event => { if (made === socket) again(event); };
  socket = made;
  timer = setTimeout(() => made.close(), PATIENCE_MS);
}

function again(event) {
  clearTimeout(timer);
  socket = null;
  if (event.code === 4003) return show("refused", event.reason || "Refused");
  const unreachable = !opened && event.code === 1006;  // a node that closes with a reason answers: the room is found through it
  tries = opened ? 0 : tries + unreachable;
  misses = opened ? 0 : misses + 1;
  opened = false;
  show("connecting", event.reason ? `Reconnecting: ${event.reason}` : "Reconnecting");
  const pause = Math.min(SHORTEST_MS * 2 ** Math.floor(misses / config.regions.length), LONGEST_MS);
  timer = setTimeout(connect, pause * (0.5 + Math.random() / 2));
}

function enter() {
  const left = socket;
  socket = null;
  left?.close();
  opened = false;
  tries = misses = 0;
  connect();
}

function heard(message) {
  if (message.type === "welcome") welcome(message);
  else if (message.type === "line") add(message.line);
  else if (message.type === "people") people(message);
  else if (message.type === "sorry") { unsent.get(message.id)?.item.remove(); unsent.delete(message.id); note(message.why); }
}

function welcome(message) {
  clearTimeout(timer);
  opened = true;
  if (generation && message.generation !== generation) {
    note(message.home === home ? `The room was started again in ${message.home}` : `The room lives in ${message.home} now; it lived in ${home}`);
  }
  home = message.home;
  generation = message.generation;
  show("open", via === you.region ? `Connected through ${via}` : `Connected through ${via}, as ${you.region} does not answer`);
  at("home").textContent = home;
  at("generation").textContent = `${message.epoch}.${message.count}`;
  at("generation").title = `Home number ${message.epoch}, start number ${message.count} in it`;
  message.lines.forEach(add);
  people(message);
  badges();
  for (const [id, line] of unsent) send(id, line.text);
}

function add(line) {
  if (line.n <= last) return settle(line.id);
  last = line.n;
  settle(line.id);
  show_line(line, line.who === you.name);
}

function settle(id) {
  const waiting = unsent.get(id);
  if (!waiting) return;
  unsent.delete(id);
  clearTimeout(waiting.timer);
  waiting.item.remove();
  at("took").textContent = `${Math.round(performance.now() - waiting.began)} ms`;
}

function say(text) {
  const id = crypto.randomUUID();
  const item = show_line({ who: you.name, text, at: Date.now(), via }, true);
  item.classList.add("unsent");
  unsent.set(id, { text, item, began: performance.now(), timer: 0 });
  send(id, text);
}

function send(id, text) {
  if (socket?.readyState !== WebSocket.OPEN || !generation) return;
  socket.send(JSON.stringify({ say: text, id }));
  const waiting = unsent.get(id);
  clearTimeout(waiting.timer);
  waiting.timer = setTimeout(() => socket?.close(), PATIENCE_MS);
}

function show_line(line, mine) {
  const item = element("li", mine ? "mine" : "");
  const by = element("span", "by");
  by.append(element("b", "", line.who), ` ${new Date(line.at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}${line.via ? " from " + line.via : ""}`);
  item.append(by, element("span", "text", line.text));
  return scrolled(item);
}

function note(text) {
  scrolled(element("li", "note", text));
}

function scrolled(item) {
  const list = at("lines");
  const follow = list.scrollHeight - list.scrollTop - list.clientHeight < 80;
  list.append(item);
  if (follow) list.scrollTop = list.scrollHeight;
  return item;
}

function people({ here, before }) {
  at("count").textContent = here.length;
  at("here").replaceChildren(...here.map(person));
  at("before").replaceChildren(...before.map(person));
  at("before-section").hidden = before.length === 0;
}

function person({ who, via: from }) {
  const item = element("li"), face = element("span", "face", [...who][0]?.toUpperCase() ?? "?");
  face.ariaHidden = "true";
  face.style.setProperty("--hue", [...who].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) % 360, 7));
  item.append(face, element("span", "", who === you.name ? `${who} (you)` : who), element("small", "", from));
  return item;
}

function badges() {
  for (const label of at("regions").querySelectorAll("label")) {
    label.querySelector(".badge").textContent = label.dataset.name === home ? "room" : "";
  }
}

function show(state, text) {
  at("status").dataset.state = state;
  at("status-text").textContent = text;
}

function element(tag, kind = "", text = "") {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  if (text) made.textContent = text;
  return made;
}

function remember() {
  history.replaceState(null, "", "?" + new URLSearchParams(you));
  localStorage.setItem("name", you.name);
  at("title").textContent = you.room;
  document.title = `#${you.room}`;
}

for (const { name } of config.regions) {
  const label = element("label"), choice = element("input");
  Object.assign(choice, { type: "radio", name: "region", value: name, checked: name === you.region });
  label.dataset.name = name;
  label.append(choice, name, element("span", "badge"));
  at("regions").append(label);
}
at("regions").addEventListener("change", event => { you.region = event.target.value; remember(); enter(); });
at("room").value = you.room;
at("name").value = you.name;
at("you").addEventListener("submit", event => {
  event.preventDefault();
  const room = at("room").value.trim(), name = at("name").value.trim();
  if (!room || !name) return;
  if (room !== you.room) { at("lines").replaceChildren(); last = 0; generation = 0; home = ""; unsent.clear(); }
  Object.assign(you, { room, name });
  remember();
  enter();
  at("text").focus();
});
at("say").addEventListener("submit", event => {
  event.preventDefault();
  const text = at("text").value.trim();
  if (text) say(text);
  at("text").value = "";
});
remember();
connect();
