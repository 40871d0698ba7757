// Small helpers. Text always goes in as text, never as markup.

export const $ = (selector, root = document) => root.querySelector(selector);
export const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

export function data(id) {
  const found = document.getElementById(id);
  return found ? JSON.parse(found.textContent) : null;
}

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key.includes("-") || key === "for" || key === "list" || key === "role") element.setAttribute(key, value);
    else if (key === "class") element.className = value;
    else element[key] = value;
  }
  element.append(...children);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

export function bar(value, low, high, most) {
  const part = (x) => (most > 0 ? Math.min(100, Math.max(0, (100 * x) / most)) : 0);
  const svg = document.createElementNS(SVG, "svg");
  const put = (tag, attributes) => {
    const shape = document.createElementNS(SVG, tag);
    for (const [key, text] of Object.entries(attributes)) shape.setAttribute(key, text);
    svg.append(shape);
  };
  for (const [key, text] of Object.entries({ class: "bar", viewBox: "0 0 100 16", preserveAspectRatio: "none", "aria-hidden": "true" })) svg.setAttribute(key, text);
  put("rect", { class: "c-bar", x: 0, y: 3, width: part(value), height: 10 });
  put("path", { class: "c-whisker", d: `M${part(low)} 8H${part(high)}M${part(low)} 4V12M${part(high)} 4V12` });
  return svg;
}

// Every address begins with the page's own place, so none can lead out of it.
export const at = (path) => document.body.dataset.root + path;

export function go(path) {
  location.href = at(path);
}

export async function post(path, body = {}) {
  let response;
  try {
    response = await fetch(at(path), { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  } catch {
    return { error: "The page's server does not answer. Is `admeasure ui` still running?", status: 0 };
  }
  const found = await response.json().catch(() => ({ error: "The server failed. Its terminal says why." }));
  return response.ok ? found : { error: found.error || "That did not work.", status: response.status };
}

export function later(work, milliseconds = 350) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), milliseconds);
  };
}

// Calls of `work` one after the other; while one is under way only the latest next one is kept.
export function queued(work) {
  let busy = false;
  let again = false;
  return async function call() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      do {
        again = false;
        await work();
      } while (again);
    } finally {
      busy = false;
    }
  };
}

export function alarm(text) {
  const place = $("#alert");
  place.textContent = text || "";
  place.hidden = !text;
}

// The same as a command and in Python; nothing where the form has no meaning, for what was there is of another form.
export function code(found) {
  for (const kind of ["command", "python"]) {
    const place = $(`#code-${kind}`);
    place.textContent = found ? found[kind] : "The form is not complete yet.";
    place.classList.toggle("soft", !found);
  }
}

export const whole = (x) => Math.round(x).toLocaleString("en-GB");
// Numbers that nobody reads to the last digit, and their widest fits a tile: "1.61 trillion".
const LARGE = new Intl.NumberFormat("en", { notation: "compact", compactDisplay: "long", maximumSignificantDigits: 3 });
export const large = (x) => (x < 1e9 ? whole(x) : x < 1e15 ? LARGE.format(x) : x.toPrecision(3));
export const memory = (megabytes) => (megabytes < 1e4 ? `${small(megabytes)} MB` : `${large(megabytes / 1024)} GB`);

export function percent(x) {
  if (x === 0 || x >= 0.9995) return `${Math.round(100 * x)}%`;
  return (100 * x).toFixed(Math.abs(x) >= 0.01 ? 1 : 2) + "%";
}
export function small(x) {
  if (x === null || x === undefined) return "–";
  return Math.abs(x) >= 1000 ? whole(x) : String(Number(x.toPrecision(3)));
}

export function table(heads, rows) {
  const head = make("tr", {}, ...heads.map((h) => make("th", { scope: "col", class: h.number ? "n" : "" }, h.text ?? h)));
  const body = rows.map((row) =>
    make("tr", {}, ...row.map((cell, i) => (cell instanceof Node ? make("td", {}, cell) : make(i ? "td" : "th", { class: heads[i].number ? "n" : "" }, make("bdi", {}, String(cell)))))));
  return make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
}

// What may be wider than the screen: it can be reached and moved with the keyboard.
export function scrolled(label, ...children) {
  return make("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": label }, ...children);
}
