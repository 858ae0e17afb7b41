// What the pages do by themselves: follow changes, tell ages, and walk the map by arrow keys. They work without it too.

const live = document.getElementById("live");
document.documentElement.dataset.script = "on";

function say(text, kind) {
  if (live.textContent !== text) live.textContent = text;
  live.dataset.kind = kind;
}

// --- Replacing what changed, without taking away what somebody holds.

function replace(id, html) {
  const old = document.getElementById(id);
  if (!old) return;
  const active = document.activeElement;
  const held = old.contains(active);
  if (held && active.matches("input, select, textarea")) return;
  if (old.contains(pressed)) return void postponed.set(id, html);
  const template = document.createElement("template");
  template.innerHTML = html;
  const fresh = template.content.firstElementChild;
  if (!fresh) return;
  const open = [...old.querySelectorAll("details")].map((one) => one.open);
  const current = old.querySelector('[tabindex="0"]')?.getAttribute("href");
  const focused = held && noteFocus(active);
  old.replaceWith(fresh);
  fresh.querySelectorAll("details").forEach((one, place) => { one.open = open[place] ?? one.open; });
  if (focused) focusAgain(focused, fresh);
  prepareMaps(fresh, current);
  tellAges(fresh);
}

// A button that is pressed on one element and let go on another makes no click, so what is under it stays meanwhile.
let pressed = null;
const postponed = new Map();

function letGo() {
  pressed = null;
  const waiting = [...postponed];
  postponed.clear();
  for (const [id, html] of waiting) replace(id, html);
}

document.addEventListener("pointerdown", (event) => { pressed = event.target; });
for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, () => setTimeout(letGo));

// Whoever has the focus has it again on what is alike: in the same row, and there at the same place among those alike.

function noteFocus(active) {
  const row = active.parentElement.closest("[id]");
  return { active, row: row.id, place: findAlike(row, active).indexOf(active) };
}

function focusAgain({ active, row, place }, fresh) {
  const alike = findAlike(document.getElementById(row) ?? fresh, active);
  (alike[place] ?? alike[0])?.focus();
}

function findAlike(within, one) {
  const tell = (other) => other.dataset.copy ?? other.getAttribute("href") ?? other.getAttribute("name");
  return [...within.querySelectorAll(one.localName)].filter((other) => tell(other) === tell(one));
}

function findLink(within, href) {
  return [...within.querySelectorAll("a")].find((link) => link.getAttribute("href") === href);
}

// --- The stream. A page that nobody looks at does not listen: browsers allow few connections to one site.

let source = null;
let state = live?.dataset.state ?? "";
let isOver = false;

function follow() {
  if (!live?.dataset.stream || source || isOver) return;
  const url = new URL(live.dataset.stream, location.href);
  url.searchParams.set("state", state);
  source = new EventSource(url);
  source.addEventListener("open", () => say("live", "on"));
  source.addEventListener("change", (event) => {
    state = event.lastEventId;
    for (const [id, html] of Object.entries(JSON.parse(event.data))) replace(id, html);
    document.documentElement.dataset.changes = Number(document.documentElement.dataset.changes ?? 0) + 1;
  });
  source.addEventListener("trouble", (event) => {
    const { why } = JSON.parse(event.data);
    if (why) say(`not live now: ${why}`, "off");
    else say("live", "on");
  });
  source.addEventListener("reload", () => location.reload());
  source.addEventListener("over", (event) => {
    const { why } = JSON.parse(event.data);
    leave();
    if (why === "closing") return void setTimeout(follow, 2000);
    isOver = true;
    say(`no longer live: ${why}`, "off");
  });
  source.addEventListener("error", () => {
    if (source?.readyState !== EventSource.CLOSED) return say("connection lost, trying again", "off");
    leave();
    setTimeout(follow, 10000);
    say("not live: the scheduler does not answer, or your session is over; reload the page", "off");
  });
}

function leave() {
  source?.close();
  source = null;
}

document.addEventListener("visibilitychange", () => (document.hidden ? leave() : follow()));

// --- Filters act at once: the page that their form asks for is fetched, and what differs is replaced.

const PATIENCE_MS = 250;
let typing = 0;
let asking = null;

function ask(form) {
  const url = new URL(form.action);
  url.search = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  asking?.abort();
  asking = new AbortController();
  show(url, asking.signal).catch((error) => error.name === "AbortError" || location.assign(url));
}

async function show(url, signal) {
  const reply = await fetch(url, { signal, redirect: "manual" });
  if (!reply.ok) return location.assign(url);
  const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
  for (const region of fresh.querySelectorAll("main > [id]")) replace(region.id, region.outerHTML);
  history.replaceState(null, "", url);
  const { stream, state: shown } = fresh.getElementById("live").dataset;
  leave();
  if (!stream) return;
  live.dataset.stream = stream;
  state = shown;
  isOver = false;
  follow();
}

function askSoon(event) {
  const form = event.target.closest?.("form[data-at-once]");
  if (!form || (event.type === "input" && "whole" in event.target.dataset)) return;
  clearTimeout(typing);
  typing = setTimeout(ask, event.type === "input" ? PATIENCE_MS : 0, form);
}

// Whoever leaves for another page does not want what was asked for this one.
window.addEventListener("beforeunload", () => {
  clearTimeout(typing);
  asking?.abort();
});
document.addEventListener("input", askSoon);
document.addEventListener("change", askSoon);
document.addEventListener("submit", (event) => {
  if (!event.target.matches("form[data-at-once]")) return;
  event.preventDefault();
  clearTimeout(typing);
  ask(event.target);
});

// --- Copying what is too long to type.

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});

// --- Times are told as ages too.

const STEPS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

function tellAges(within) {
  for (const time of within.querySelectorAll("time[datetime]")) {
    const seconds = Math.max(0, (Date.now() - Date.parse(time.dateTime)) / 1000);
    const [size, unit] = STEPS.find(([length]) => seconds >= length) ?? [1, "s"];
    time.title = time.dateTime;
    time.textContent = `${Math.floor(seconds / size)} ${unit} ago`;
  }
}

// --- The map: one stop for the Tab key, arrows within.

function prepareMaps(within, href) {
  const maps = within.matches?.("[data-roving]") ? [within] : within.querySelectorAll("[data-roving]");
  for (const map of maps) {
    const links = [...map.querySelectorAll("a")];
    const current = (href && findLink(map, href)) || links[0];
    for (const link of links) link.tabIndex = link === current ? 0 : -1;
  }
  const own = within.closest?.("[data-roving]");
  if (own && own !== within) {
    for (const link of within.querySelectorAll("a")) link.tabIndex = link.getAttribute("href") === href ? 0 : -1;
  }
}

function findNeighbour(links, at, key) {
  if (key === "ArrowRight") return links[at + 1];
  if (key === "ArrowLeft") return links[at - 1];
  if (key === "Home") return links[0];
  if (key === "End") return links[links.length - 1];
  const here = links[at].getBoundingClientRect();
  const down = key === "ArrowDown";
  const beyond = links
    .map((link) => [link, link.getBoundingClientRect()])
    .filter(([, box]) => (down ? box.top > here.bottom - 1 : box.bottom < here.top + 1));
  beyond.sort(([, one], [, other]) =>
    Math.abs(one.top - here.top) - Math.abs(other.top - here.top) || Math.abs(one.left - here.left) - Math.abs(other.left - here.left));
  return beyond[0]?.[0];
}

document.addEventListener("keydown", (event) => {
  const map = event.target.closest?.("[data-roving]");
  if (!map || event.ctrlKey || event.metaKey || event.altKey) return;
  if (!["ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)) return;
  event.preventDefault();
  const links = [...map.querySelectorAll("a")];
  const next = findNeighbour(links, links.indexOf(event.target), event.key);
  if (!next) return;
  event.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
});

prepareMaps(document);
tellAges(document);
setInterval(() => tellAges(document), 10000);
follow();
