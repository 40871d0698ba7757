// The schema form: built from what was typed before, checked and kept as it is typed. What is not
// filled in yet is listed once, when somebody wants to go on; only what is wrong is red.
import { card, KINDS, setRole } from "./column.js";
import { order, zero } from "./rules.js";
import { $, $$, alarm, data, later, make, post, queued } from "./tools.js";

const OPEN_UP_TO = 16;
const LISTED = 12;

let state, form, base;
let last = { ok: false, problems: [] };
let computed = {}; // columns that rules of a schema file compute from others
const cards = new Map();
const names = () => form.columns.filter((c) => c.use && c.name !== form.privacy.unit_column).map((c) => c.name);

export function start() {
  state = data("state");
  form = state.form;
  form.orders ??= [];
  base = `/tables/${state.table}/schema`;
  for (const input of $$("[data-part]")) {
    const value = form[input.dataset.part][input.dataset.key] ?? "";
    if (input.tagName === "SELECT" && ![...input.options].some((o) => o.value === value)) input.append(make("option", { value }, value));
    input.value = value;
    input.addEventListener("input", () => {
      form[input.dataset.part][input.dataset.key] = input.value;
      roles();
      save();
    });
  }
  const many = form.columns.length > OPEN_UP_TO;
  for (const column of form.columns) cards.set(column.name, card(column, !many, save));
  $("#columns").append(...cards.values());
  if (many) forMany();
  $("#zeros").append(...form.zeros.map((conditions) => zero(conditions, form.zeros, names, save)));
  $("#orders").append(...form.orders.map((columns) => order(columns, form.orders, names, save)));
  $("#add-zero").addEventListener("click", () => add("#zeros", form.zeros, firstTwo().map((column) => ({ column, text: "" })), zero));
  $("#add-order").addEventListener("click", () => add("#orders", form.orders, ["", ""], order));
  $("#verify").addEventListener("click", () => (last.ok ? verify() : listTodo()));
  $("#use-toml").addEventListener("click", useText);
  $("#next").addEventListener("click", (event) => {
    if (last.ok) return;
    event.preventDefault();
    listTodo();
  });
  roles();
  saveNow();
}

function firstTwo() {
  const [first = "", second = first] = names();
  return [first, second];
}

function add(place, all, made, draw) {
  all.push(made);
  const shown = draw(made, all, names, save);
  $(place).append(shown);
  $("select", shown).focus();
  save();
}

// The column that tells whose row it is has no kind of values, and needs none.
function roles() {
  const unit = form.privacy.unit_column;
  $("#max-rows-field").hidden = !unit;
  for (const column of form.columns) setRole(cards.get(column.name), column.name === unit ? "tells whose row it is" : computed[column.name] ?? "");
}

function forMany() {
  $("#many").hidden = false;
  const kinds = Object.entries(KINDS).flatMap(([kind, words]) => (kind === "string" ? [[kind, words], ["string found", "categories, found by the run"]] : [[kind, words]]));
  $("#all-kind").append(...kinds.map(([value, words]) => make("option", { value }, words)));
  const shown = () => form.columns.filter((c) => !cards.get(c.name).hidden);
  $("#filter").addEventListener("input", () => {
    const wanted = $("#filter").value.toLowerCase();
    for (const [name, details] of cards) details.hidden = !name.toLowerCase().includes(wanted);
    $("#all-state").textContent = wanted ? `${shown().length} columns are shown.` : "";
  });
  $("#all-kind").addEventListener("change", () => {
    const [kind, found] = $("#all-kind").value.split(" ");
    const made = shown().filter((c) => c.use && !c.type && c.name !== form.privacy.unit_column);
    if (!kind) return;
    for (const column of made) {
      column.type = kind;
      if (found) column.enum = "private";
      cards.get(column.name).redraw();
    }
    $("#all-state").textContent = `${made.length} columns are ${KINDS[kind]} now.`;
    $("#all-kind").value = "";
    save();
  });
}

const saveNow = queued(async () => {
  const found = await post(`${base}/save`, { form, version: state.version });
  if (found.error) {
    $("#schema-state").textContent = found.error;
    $("#schema-state").className = "problem";
    return;
  }
  state.version = found.version;
  show(found);
});
const save = later(saveNow);

function show(found) {
  last = found;
  const said = { privacy: [], table: [], zero: [], "": [] };
  const wrong = {};
  const todo = {};
  for (const { where, text, kind } of found.problems) {
    const name = where.startsWith("column:") ? where.slice(7) : null;
    if (kind === "todo") todo[where] = text;
    else if (name === null) (said[where] ?? said[""]).push(text);
    else (wrong[name] ??= []).push(text);
  }
  for (const part of ["privacy", "table", "zero"]) $(`#problems-${part}`).textContent = said[part].join("\n");
  for (const [name, details] of cards) {
    const lines = wrong[name] ?? [];
    $(".problem", details).textContent = lines.join("\n");
    const levels = found.levels?.[name];
    const open = levels === null ? "found by the run" : levels ? `${levels} levels` : "";
    $(".levels", details).textContent = lines.length ? "✗ " + (details.open ? "" : lines[0]) : todo[`column:${name}`] ? `– ${todo[`column:${name}`].toLowerCase()}` : open;
  }
  alarm(said[""].join("\n"));
  const related = found.relations ?? [];
  $("#relations").hidden = !related.length;
  $("#relations ul").replaceChildren(...related.map(({ text }) => make("li", {}, text)));
  computed = Object.fromEntries(related.filter((r) => r.computed).map((r) => [r.computed, "is computed from other columns"]));
  roles();
  bar(found, Object.keys(todo).length);
}

function bar(found, left) {
  const used = names().length;
  $("#column-count").textContent = `${used} of ${form.columns.length} used`;
  const place = $("#schema-state");
  const wrong = found.problems.length - left;
  place.className = found.ok ? "fine" : wrong ? "problem" : "";
  const short = { notation: "compact", compactDisplay: "long", maximumFractionDigits: 1 };
  const many = found.cells ?? 1e308; // JSON has no infinity
  const cells = many < 1e15 ? many.toLocaleString("en-GB", many < 1e6 ? {} : short) : `more than 10^${Math.floor(Math.log10(many))}`;
  const parts = [wrong ? `${wrong} to correct` : "", left ? `${left} to fill in` : ""].filter(Boolean);
  place.textContent = found.ok ? `Complete: ${used} columns, ${cells} possible rows.` : `${parts.join(", ")}.`;
  if (found.toml) $("#toml").value = found.toml;
  if (!$("#todo").hidden) drawTodo();
}

// Everything that is left, alike things together, each with a way to its place.
function drawTodo() {
  const groups = {};
  for (const { where, text } of last.problems) (groups[text] ??= []).push(where);
  $("#todo").hidden = last.ok;
  $("#todo ul").replaceChildren(...Object.entries(groups).map(([text, places]) => {
    const columns = places.filter((p) => p.startsWith("column:")).map((p) => p.slice(7));
    const of = columns.length ? `: ${columns.slice(0, LISTED).join(", ")}${columns.length > LISTED ? ` and ${columns.length - LISTED} more` : ""}` : "";
    const button = make("button", { type: "button" }, text);
    button.addEventListener("click", () => goTo(places[0]));
    return make("li", {}, button, make("bdi", {}, of));
  }));
}

function listTodo() {
  $("#todo").hidden = false;
  drawTodo();
  $("#todo").focus();
  $("#todo").scrollIntoView({ block: "center" });
}

function goTo(where) {
  const place = $$("[data-place]").find((p) => p.dataset.place === where);
  if (!place) return;
  if (place.tagName === "DETAILS") { place.hidden = false; place.open = true; place.redraw(); }
  place.scrollIntoView({ block: "center" });
  $$("select, input, textarea, button", place).find((e) => e.offsetParent)?.focus();
}

async function verify() {
  const place = $("#verified");
  place.replaceChildren(make("p", {}, "Reading the table in a process of its own …"));
  $("#verify").disabled = true;
  const found = await post(`${base}/verify`);
  $("#verify").disabled = false;
  if (found.error) place.replaceChildren(make("p", { class: "problem" }, found.error));
  else if (found.ok) place.replaceChildren(make("p", { class: "fine" }, "The table is as it is described here."));
  else place.replaceChildren(make("p", { class: "problem" }, "The table is not as it is described here:"), make("ul", {}, ...found.problems.map((p) => make("li", {}, p))));
  place.scrollIntoView({ block: "nearest" });
}

async function useText() {
  const found = await post(`${base}/text`, { text: $("#toml").value, version: state.version });
  if (found.error) alarm(found.error);
  else location.reload();
}
