// What pages do by themselves: readouts of charts, filter, copying, refresh. All else works without.
"use strict";

// --- charts: what is under the pointer, read from the lines as they are drawn

const WIDTH = 1000, HEIGHT = 1600, BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
const STEPPED = new Set(["request", "target", "lower", "upper", "limit"]);
let shown = null; // the chart that shows another time than now

function amountText(resource, value) {
  if (resource === "cpu" && Math.round(value) < 1000) {
    return `${Math.round(value)}${Math.round(value) ? "m" : ""}`;
  }
  let unit = 0, number = resource === "cpu" ? value / 1000 : value;
  while (resource !== "cpu" && number >= 1023.5 && unit < BINARY.length - 1) [number, unit] = [number / 1024, unit + 1];
  return `${number < 1000 ? Number(number.toPrecision(3)) : Math.round(number)}${BINARY[unit]}`;
}

function heightAt(path, x) {
  const numbers = path.getAttribute("d").replace(/V[^M]*/g, " ").match(/\d+/g).map(Number);
  const points = numbers.flatMap((value, place) => (place % 2 ? [] : [[value, numbers[place + 1]]]));
  if (STEPPED.has(path.classList[0])) {
    const before = points.filter(([at]) => at <= x);
    return before.length ? before.at(-1)[1] : null;
  }
  const nearest = points.reduce((one, two) => (Math.abs(two[0] - x) < Math.abs(one[0] - x) ? two : one));
  return Math.abs(nearest[0] - x) <= 10 ? nearest[1] : null;
}

function readOut(plot, share) {
  if (shown && shown !== plot) readNow();
  shown = plot;
  const { resource, top, start, end } = plot.dataset, figure = plot.closest("figure");
  plot.dataset.share = share;
  const tell = (cell, text) => {
    cell.dataset.now ??= cell.textContent;
    cell.textContent = text;
  };
  for (const path of plot.querySelectorAll("path:not(.before)")) {
    const cell = figure.querySelector(`[data-of="${path.classList[0]}"]`);
    const y = cell && heightAt(path, share * WIDTH);
    if (cell) tell(cell, y === null ? "–" : amountText(resource, (1 - y / HEIGHT) * Number(top)));
  }
  const at = new Date((Number(start) + share * (end - start)) * 1000);
  tell(figure.querySelector(".at"), `${at.toISOString().slice(0, 16).replace("T", " ")} UTC`);
  let cursor = plot.querySelector(".cursor");
  if (!cursor) {
    cursor = plot.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "line"));
    for (const [name, value] of [["class", "cursor"], ["y1", 20], ["y2", 180]]) cursor.setAttribute(name, value);
  }
  for (const name of ["x1", "x2"]) cursor.setAttribute(name, `${share * 100}%`);
}

function readNow() {
  if (!shown) return;
  shown.querySelector(".cursor")?.remove();
  for (const cell of shown.closest("figure").querySelectorAll("[data-now]")) {
    cell.textContent = cell.dataset.now;
    delete cell.dataset.now;
  }
  shown = null;
}

document.addEventListener("pointermove", (event) => {
  const plot = event.target.closest?.("svg.plot");
  if (!plot) return readNow();
  const box = plot.getBoundingClientRect();
  readOut(plot, Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1));
});

document.addEventListener("keydown", (event) => {
  const plot = document.activeElement?.closest?.("svg.plot");
  const step = { ArrowLeft: -0.01, ArrowRight: 0.01 }[event.key];
  if (plot && step) {
    event.preventDefault();
    const from = shown === plot ? Number(plot.dataset.share) : 1;
    readOut(plot, Math.min(Math.max(from + step * (event.shiftKey ? 10 : 1), 0), 1));
  } else if (event.key === "Escape") readNow();
});
document.addEventListener("focusout", readNow);

// --- parts of the page that are fetched again: each has the attribute data-live and an id

let latest = 0;

async function load(url) {
  const turn = ++latest;
  const answer = await fetch(url, { headers: { accept: "text/html" }, cache: "no-store" }).catch(() => null);
  if (!answer) return document.body.classList.add("is-stale");
  if (answer.redirected && new URL(answer.url).pathname !== new URL(url, location).pathname) return location.reload();
  const other = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (turn !== latest) return;
  if ([401, 403, 404].includes(answer.status)) return location.reload(); // which says why
  document.body.classList.toggle("is-stale", !answer.ok);
  if (!answer.ok) return;
  for (const part of document.querySelectorAll("[data-live]")) {
    const fresh = other.getElementById(part.id);
    if (!fresh || part.contains(shown) || fresh.outerHTML === part.outerHTML) continue;
    const focus = document.activeElement, place = reached(part).indexOf(focus);
    for (const open of part.querySelectorAll("details[id][open]")) {
      fresh.querySelector(`details[id="${CSS.escape(open.id)}"]`)?.setAttribute("open", "");
    }
    part.replaceWith(fresh);
    unhide(fresh);
    if (place < 0) continue;
    const all = reached(fresh), same = all.find((one) => one.href && one.href === focus.href);
    (same ?? all[place])?.focus({ preventScroll: true });
  }
}

const reached = (part) => [...part.querySelectorAll("a, button:not([hidden]), summary, [tabindex]")];

const seconds = Number(document.body.dataset.refresh ?? 0);
if (seconds) setInterval(() => {
  if (document.visibilityState === "visible" && !document.getSelection()?.toString()) load(location.href);
}, seconds * 1000);

// --- the filter is used while one types

let typing = 0;
document.addEventListener("input", (event) => {
  const form = event.target.form;
  if (!form?.matches("form.filter")) return;
  clearTimeout(typing);
  typing = setTimeout(() => {
    const words = [...new FormData(form)].filter(([, value]) => value);
    const url = `${form.getAttribute("action")}?${new URLSearchParams(words)}`.replace(/\?$/, "");
    history.replaceState(null, "", url);
    load(url);
  }, 200);
});

// --- copying

function unhide(part) { for (const one of part.querySelectorAll("button[data-copy]")) one.hidden = false; }
unhide(document);

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("button[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.dataset.label ??= button.textContent;
    button.textContent = "copied";
    setTimeout(() => { button.textContent = button.dataset.label; }, 1500);
  } catch { // not allowed here: what is selected can be copied by hand
    document.getSelection().selectAllChildren(source);
  }
});
