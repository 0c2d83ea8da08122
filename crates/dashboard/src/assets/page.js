// The script of the page: live updates, keys, selection, and actions that say what they will do and what they did.
"use strict";

const body = document.body;
const prefix = body.dataset.prefix || "";
const mayAct = body.dataset.mayAct === "true";
const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

/* Live updates: one stream, whose parts replace what differs and nothing else. */

let paused = false;
let source = null;
let lastHeard = 0;
let lostAt = null;
const clock = (at) => at.toISOString().slice(11, 19);

function showLive() {
  const mark = $("#live-mark");
  if (!mark) return;
  // The stream goes on without the database, and brings nothing new.
  const isLost = Boolean($("footer .lost"));
  const words = paused ? "paused" : lostAt ? `not live since ${clock(lostAt)}, trying again` : !lastHeard ? "connecting" : isLost ? "database lost, trying again" : "live";
  if (mark.textContent !== words) mark.textContent = words;
  mark.className = paused || !lastHeard ? "" : lostAt || isLost ? "off" : "on";
}

function listen() {
  if (!window.EventSource || !$("#live-mark") || document.hidden) return;
  if (source) source.close();
  const query = new URLSearchParams({ view: body.dataset.view || "none", route: body.dataset.route || "" });
  source = new EventSource(`${prefix}/live?${query}`);
  source.addEventListener("look", (event) => {
    heard();
    if (!paused) take(event.data);
  });
  source.addEventListener("quiet", heard);
  source.onerror = () => {
    lostAt = lostAt || new Date();
    showLive();
    // A browser gives up after an answer that is no stream, for example when the session has ended.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
  };
}

// A browser has six connections to a host for all of its tabs, and keeps a page that was left for half a minute, with its
// stream. So a page that nobody sees gives its stream up: otherwise the seventh one would not load.
function leave() {
  if (source) source.close();
  source = null;
  lastHeard = 0;
  lostAt = null;
}

document.addEventListener("visibilitychange", () => (document.hidden ? leave() : listen()));
addEventListener("pagehide", leave);
addEventListener("pageshow", (event) => event.persisted && listen());

function heard() {
  lastHeard = Date.now();
  lostAt = null;
  showLive();
}

// A stream can hang without an error.
setInterval(() => {
  if (lastHeard && !lostAt && Date.now() - lastHeard > 75000) lostAt = new Date(lastHeard);
  showLive();
}, 1000);

function take(text) {
  const parsed = new DOMParser().parseFromString(text, "text/html");
  for (const part of $$("[data-live]", parsed)) {
    const shown = $(`[data-live="${part.dataset.live}"]`);
    if (shown) morph(shown, part);
  }
  markRow();
}

/* Makes `old` equal to `fresh` in place, so that focus, selection and open details stay. */
function morph(old, fresh) {
  for (const name of fresh.getAttributeNames()) {
    if (old.getAttribute(name) !== fresh.getAttribute(name)) old.setAttribute(name, fresh.getAttribute(name));
  }
  for (const name of old.getAttributeNames()) {
    if (!fresh.hasAttribute(name) && !(name === "open" || (name === "class" && old.matches("tr")))) old.removeAttribute(name);
  }
  const keyed = new Map([...old.children].filter((child) => child.dataset.key).map((child) => [child.dataset.key, child]));
  let at = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const known = child.nodeType === 1 && child.dataset && child.dataset.key ? keyed.get(child.dataset.key) : null;
    if (known) {
      if (known === at) at = at.nextSibling;
      else old.insertBefore(known, at);
      morph(known, child);
    } else if (at && at.nodeType === child.nodeType && at.nodeName === child.nodeName && !(at.dataset && at.dataset.key)) {
      const next = at.nextSibling;
      if (child.nodeType === 1) morph(at, child);
      else if (at.nodeValue !== child.nodeValue) {
        at.nodeValue = child.nodeValue;
        flash(at.parentElement);
      }
      at = next;
    } else {
      old.insertBefore(document.importNode(child, true), at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

// A number that changed fades once.
function flash(element) {
  const cell = element && element.closest("td.number, .value");
  // Ages and rates change with every look: that is no news.
  if (!cell || cell.matches(".calm-figure, [data-label='oldest'], [data-label='age'], [data-label$='/s'], [data-label='running for'], [data-label='last seen'], [data-label='announced until']")) return;
  cell.classList.remove("changed");
  requestAnimationFrame(() => cell.classList.add("changed"));
}

function setPaused(to) {
  paused = to;
  const button = $("#live-pause");
  button.setAttribute("aria-pressed", String(paused));
  button.textContent = paused ? "resume" : "pause";
  showLive();
}

/* Rows: one is here, any number are selected. */

let here = -1;
let lastPicked = -1;
const rows = () => $$("table[data-rows] tbody tr");

function markRow() {
  rows().forEach((row, place) => row.classList.toggle("here", place === here));
}

function move(by) {
  const all = rows();
  if (!all.length) return;
  here = Math.max(0, Math.min(all.length - 1, here + by));
  markRow();
  const link = $("[data-open]", all[here]) || $("a", all[here]);
  if (link) link.focus({ preventScroll: true });
  all[here].scrollIntoView({ block: "nearest" });
}

const picked = () => rows().filter((row) => row.classList.contains("selected"));

function pick(row, on) {
  row.classList.toggle("selected", on);
  const box = $("[data-select]", row);
  if (box) box.checked = on;
}

// A row is an entry, or a group that a filter finds.
const canBePicked = (row) => Boolean(row.dataset.id || row.dataset.filter);
const meant = (row) => ({ filter: JSON.parse(row.dataset.filter) });

// What is picked: entries together by their ids, groups one by one.
function pickedAsked() {
  const chosen = picked();
  const ids = chosen.map((row) => row.dataset.id).filter(Boolean);
  return ids.length ? [{ ids }] : chosen.filter(canBePicked).map(meant);
}

function showActions() {
  const bar = $("#actions");
  const chosen = picked().filter(canBePicked);
  bar.hidden = !chosen.length || !mayAct;
  if (bar.hidden) return;
  $("#actions-count").textContent = `${chosen.length} selected`;
  const allows = { requeue: ["dead"], discard: ["dead"], retry: ["retrying", "pending"], cancel: ["pending", "retrying", "blocked"] };
  for (const button of $$("[data-bulk]", bar)) {
    const of = allows[button.dataset.bulk];
    button.hidden = Boolean(of) && !chosen.some((row) => of.includes(row.dataset.status));
  }
}

/* Actions: a dry run tells what will happen, a question names the count, the answer tells what happened. */

const actor = () => body.dataset.actor || localStorage.getItem("pillarbox-actor") || "";

async function send(path, content) {
  const headers = { "content-type": "application/json", "pillarbox-actor": actor() };
  const response = await fetch(prefix + path, { method: "POST", headers, body: JSON.stringify(content) });
  const answer = await response.json().catch(() => ({ message: `the server answered ${response.status}` }));
  if (!response.ok) throw new Error(answer.message);
  return answer;
}

function toast(text, bad, next, label = "Undo") {
  const place = $("#toast");
  place.textContent = text;
  if (next) {
    const button = Object.assign(document.createElement("button"), { textContent: label });
    button.addEventListener("click", () => guarded(next));
    place.append(" ", button);
  }
  place.classList.toggle("bad", Boolean(bad));
  place.hidden = false;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => (place.hidden = true), bad || next ? 15000 : 8000);
}

function ask({ title, text, more = [], yes, reason }) {
  const dialog = $("#confirm");
  $("#confirm-title").textContent = title;
  $("#confirm-text").textContent = text;
  $("#confirm-more").replaceChildren(...more.map((line) => Object.assign(document.createElement("li"), { textContent: line })));
  $("#confirm-more").hidden = !more.length;
  $("#confirm-yes").textContent = yes;
  $("#confirm-reason-label").hidden = !reason;
  $("#confirm-reason").required = reason === "needed";
  $("#confirm-reason").value = "";
  $("#confirm-name-label").hidden = Boolean(body.dataset.actor);
  $("#confirm-name").value = actor();
  dialog.returnValue = "no";
  dialog.showModal();
  $("#confirm-yes").focus();
  return new Promise((done) => {
    dialog.addEventListener("close", () => {
      const name = $("#confirm-name").value.trim();
      if (name && !body.dataset.actor) localStorage.setItem("pillarbox-actor", name);
      done(dialog.returnValue === "yes" ? { reason: $("#confirm-reason").value.trim() } : null);
    }, { once: true });
  });
}

const words = {
  requeue: ["Requeue", "requeue", "requeued"],
  discard: ["Discard", "discard for good", "discarded"],
  retry: ["Retry now", "retry now", "made due"],
  cancel: ["Cancel", "cancel for good", "cancelled"],
};
const number = (count) => count.toLocaleString("en");
const events = (count) => (count === 1 ? "1 event" : `${number(count)} events`);

// One answer for several: what each of them says, added up.
function together(answers) {
  const sum = (of) => answers.reduce((all, one) => all + of(one), 0);
  return {
    changed: sum((one) => one.changed),
    skipped: sum((one) => one.skipped),
    fenced: sum((one) => one.fenced),
    skips: answers.flatMap((one) => one.skips),
    more: answers.some((one) => one.more),
  };
}

// Changes what is asked for, each with its own count, and tells how far it came if one of them is refused.
async function changeEach(path, asked, would) {
  const did = [];
  for (const [place, what] of asked.entries()) {
    if (!would[place].changed) continue;
    try {
      did.push(await send(path, { ...what, confirm: would[place].changed }));
    } catch (error) {
      if (!did.length) throw error;
      await refresh();
      throw new Error(`${did.map((one) => one.message).join("; ")}. Then it stopped: ${error.message}`);
    }
  }
  return did;
}

async function change(verb, asked, about) {
  const path = `/api/v1/entries/${verb}`;
  const [name, long] = words[verb];
  const each = [];
  for (const what of asked) each.push(await send(path, { ...what, dry_run: true }));
  const would = together(each);
  const skipped = would.skips.slice(0, 5).map((skip) => `${skip.event_id.slice(0, 8)}… is skipped: ${skip.why}`);
  if (!would.changed) {
    toast(would.skipped ? `Nothing to ${long}: ${would.skips[0].why}` : `Nothing to ${long}: no event matches any more`, true);
    return;
  }
  const ends = verb === "discard" || verb === "cancel";
  const cannot = ends ? " They will never be delivered. This cannot be undone." : " A relay may take them at once, so this cannot be undone.";
  const first = would.more ? "the oldest " : "";
  const goes = asked.length === 1 ? "the answer offers to go on with those" : "select the groups again for those";
  const rest = would.more ? ` More may match; ${goes}.` : "";
  const answer = await ask({
    title: `${name} ${first}${events(would.changed)}?`,
    text: `This will ${long} ${first}${events(would.changed)} ${about}.${rest}${cannot}`,
    more: would.skipped ? [`${number(would.skipped)} skipped`, ...skipped] : [],
    yes: `${name} ${number(would.changed)}`,
  });
  if (!answer) return;
  const did = await changeEach(path, asked, each);
  const [one] = did;
  const { changed, fenced } = together(did);
  const lost = fenced ? `, ${number(fenced)} fenced: others changed them at the same moment` : "";
  const said = did.length === 1 ? one.message : `${number(changed)} entries ${words[verb][2]} in ${did.length} groups${lost}`;
  const audited = did.some(({ audit }) => audit.length) ? ` (audited as ${one.actor})` : "";
  const [what] = asked;
  const goOn = asked.length === 1 && one.more && what.filter ? () => change(verb, [{ filter: { ...what.filter, cursor: one.cursor } }], about) : null;
  toast(said + audited, false, goOn, "Go on");
  await refresh();
}

async function pauseRoute(verb, route) {
  const name = verb === "pause" ? "Pause" : "Resume";
  const answer = await ask({
    title: `${name} ${route}?`,
    text: verb === "pause" ? "No relay takes events of this route until it is resumed. Staging goes on, and what is in flight is finished. This can be undone at any time." : "Relays deliver this route again.",
    yes: name,
    reason: "asked",
  });
  if (!answer) return;
  const path = `/api/v1/routes/${encodeURIComponent(route)}`;
  const act = async (what, reason, undo) => {
    const did = await send(`${path}/${what}`, { reason });
    toast(did.message, false, undo);
    await refresh();
  };
  await act(verb, answer.reason, () => act(verb === "pause" ? "resume" : "pause", "undone"));
}

async function interveneIn({ saga, sagaVerb: verb, step }, label) {
  const content = step ? { step } : {};
  const needs = verb === "skip" || verb === "abandon";
  const would = await send(`/api/v1/sagas/${saga}/${verb}`, { ...content, reason: "?", dry_run: true });
  const answer = await ask({ title: `${label}?`, text: `${would.message}.`, yes: label, reason: needs ? "needed" : null });
  if (!answer) return;
  const did = await send(`/api/v1/sagas/${saga}/${verb}`, { ...content, reason: answer.reason });
  toast(did.message);
  await refresh();
}

// The same address again, in place.
async function refresh() {
  const response = await fetch(location.href, { headers: { accept: "text/html" } });
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  if ($("#main", fresh)) $("#main").replaceChildren(...[...$("#main", fresh).childNodes].map((node) => document.importNode(node, true)));
  here = Math.min(here, rows().length - 1);
  markRow();
  showActions();
}

const guarded = (work) => Promise.resolve().then(work).catch((error) => toast(error.message, true));

/* The payload: text only, indented without touching a number. */

function indent(json) {
  let depth = 0, quoted = false, escaped = false, out = "";
  const line = () => "\n" + "  ".repeat(depth);
  for (const c of json) {
    if (quoted) {
      out += c;
      if (escaped) escaped = false;
      else if (c === "\\") escaped = true;
      else if (c === '"') quoted = false;
    } else if (c === '"') { quoted = true; out += c; }
    else if (c === "{" || c === "[") { depth += 1; out += c + line(); }
    else if (c === "}" || c === "]") { depth -= 1; out += line() + c; }
    else if (c === ",") out += c + line();
    else if (c === ":") out += ": ";
    else if (!/\s/.test(c)) out += c;
  }
  return out.replace(/([{[])\s+([}\]])/g, "$1$2");
}

const PAYLOAD_SHOWN_MAX = 262144;

async function showPayload(button) {
  const place = button.closest("article").querySelector("pre.payload");
  if (!place.hidden) {
    place.hidden = true;
    button.textContent = "Show";
    button.setAttribute("aria-expanded", "false");
    return;
  }
  const query = new URLSearchParams({ route: button.dataset.payloadRoute });
  const response = await fetch(`${prefix}/api/v1/entries/${button.dataset.payload}/payload?${query}`);
  if (!response.ok) throw new Error((await response.json()).message);
  const bytes = new Uint8Array(await response.arrayBuffer());
  let text = new TextDecoder().decode(bytes.slice(0, PAYLOAD_SHOWN_MAX));
  try {
    JSON.parse(text);
    text = indent(text);
  } catch { /* It is no JSON, or it was cut: shown as it is. */ }
  // Characters that turn the direction of text are made visible.
  text = text.replace(/[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
  if (bytes.length > PAYLOAD_SHOWN_MAX) text += `\n… ${number(bytes.length - PAYLOAD_SHOWN_MAX)} more bytes`;
  place.textContent = text;
  place.hidden = false;
  button.textContent = "Hide";
  button.setAttribute("aria-expanded", "true");
}

/* What people do. */

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button) {
    const data = button.dataset;
    if (data.verb) {
      const what = data.filter ? { filter: JSON.parse(data.filter) } : { ids: [data.ids] };
      guarded(() => change(data.verb, [what], data.words));
    } else if (data.bulk === "none") { rows().forEach((row) => pick(row, false)); showActions(); }
    else if (data.bulk) guarded(() => change(data.bulk, pickedAsked(), "of the selection"));
    else if (data.routeVerb) guarded(() => pauseRoute(data.routeVerb, data.routeName));
    else if (data.saga) guarded(() => interveneIn(data, button.textContent.trim()));
    else if (data.payload) guarded(() => showPayload(button));
    else if (data.copy !== undefined) guarded(() => navigator.clipboard.writeText(data.copy).then(() => toast("Copied")));
    else if (data.logout !== undefined) guarded(() => fetch(`${prefix}/logout`, { method: "POST" }).then(() => location.assign(`${prefix}/login`)));
    else if (button.id === "live-pause") setPaused(!paused);
    return;
  }
  const box = event.target.closest("[data-select]");
  if (box) {
    const all = rows();
    const at = all.indexOf(box.closest("tr"));
    const on = box.checked;
    const from = event.shiftKey && lastPicked >= 0 ? lastPicked : at;
    for (let place = Math.min(from, at); place <= Math.max(from, at); place += 1) pick(all[place], on);
    lastPicked = at;
    showActions();
  } else if (event.target.closest("[data-select-all]")) {
    $$("tbody tr", event.target.closest("table")).forEach((row) => pick(row, event.target.checked));
    showActions();
  }
});

let leader = 0;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest("input, textarea, select");
  if (event.key === "Escape" && typing) { typing.blur(); return; }
  if (typing || $("dialog[open]")) return;
  const row = rows()[here];
  const led = Date.now() - leader < 1000;
  if (led && event.key === "o") location.assign(`${prefix}/`);
  else if (led && event.key === "d") location.assign(`${prefix}/dead`);
  else if (event.key === "g") leader = Date.now();
  else if (event.key === "/") { event.preventDefault(); $("#search").select(); $("#search").focus(); }
  else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "p") setPaused(!paused);
  else if (event.key === "?") $("#help").showModal();
  else if (event.key === "x" && row && canBePicked(row)) { pick(row, !row.classList.contains("selected")); showActions(); }
  else if (event.key === "Enter" && row && !event.target.closest("a, button, summary")) { const link = $("[data-open]", row); if (link) location.assign(link.href); }
  else if (event.key === "r" && mayAct) {
    const chosen = pickedAsked();
    const button = row && $('[data-verb="requeue"]', row);
    if (chosen.length) guarded(() => change("requeue", chosen, "of the selection"));
    else if (row && row.dataset.id) guarded(() => change("requeue", [{ ids: [row.dataset.id] }], "of this row"));
    else if (button) button.click();
    else { const only = $('article [data-verb="requeue"]'); if (only) only.click(); }
  }
});

showLive();
listen();
