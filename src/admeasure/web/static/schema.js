// The schema form: built from what was typed before, validated and kept as it is typed.
import { $, $$, alarm, data, later, make, post, queued } from "./tools.js";

const FIELDS = {
  integer: ["minimum", "maximum", "bins", "edges"],
  number: ["minimum", "maximum", "bins", "edges"],
  date: ["minimum", "maximum", "bins", "edges"],
  string: ["enum"],
  boolean: [],
};
const WORDS = {
  minimum: "Smallest value", maximum: "Largest value", bins: "Bins of equal width", edges: "or edges of bins, with commas",
  enum: "Categories, one a line; or the word private, to have them found for a charge", missing: "Texts that mean missing, one a line (the empty field always does)",
};
const OPEN_UP_TO = 16;

let state, form, base;
let ids = 0;

export function start() {
  state = data("state");
  form = state.form;
  base = `/tables/${state.table}/schema`;
  for (const input of $$("[data-part]")) {
    input.value = form[input.dataset.part][input.dataset.key];
    input.addEventListener("input", () => {
      form[input.dataset.part][input.dataset.key] = input.value;
      save();
    });
  }
  const many = form.columns.length > OPEN_UP_TO;
  $("#columns").append(...form.columns.map((column) => card(column, !many)));
  if (many) {
    $("#filter-field").hidden = false;
    $("#filter").addEventListener("input", filter);
  }
  form.zeros.forEach(addZero);
  $("#add-zero").addEventListener("click", () => {
    const zero = [{ column: form.columns[0].name, text: "" }, { column: (form.columns[1] ?? form.columns[0]).name, text: "" }];
    form.zeros.push(zero);
    addZero(zero).querySelector("select").focus();
  });
  $("#verify").addEventListener("click", verify);
  $("#use-toml").addEventListener("click", useText);
  $("#next").addEventListener("click", (event) => {
    if (event.currentTarget.getAttribute("aria-disabled") === "true") {
      event.preventDefault();
      const first = $$(".problem").find((p) => p.textContent.trim());
      first?.closest("details")?.setAttribute("open", "");
      first?.scrollIntoView({ block: "center" });
    }
  });
  saveNow();
}

function card(column, open) {
  const id = `c${ids++}`;
  const body = make("div", {});
  const summary = make("summary", {}, make("b", { class: "name" }, make("bdi", {}, column.name)), make("span", { class: "soft kind" }), make("span", { class: "soft levels" }));
  const problem = make("p", { class: "problem", id: `${id}-problem`, "aria-live": "polite" });
  const details = make("details", { class: "column", open }, summary, body, problem);
  details.dataset.column = column.name;
  const draw = () => {
    const type = make("select", { id: `${id}-type`, "aria-describedby": problem.id }, make("option", { value: "" }, "choose …"),
      ...Object.keys(FIELDS).map((kind) => make("option", { value: kind }, kind)));
    type.value = column.type;
    type.addEventListener("change", () => {
      column.type = type.value;
      draw();
      $(`#${id}-type`).focus();
      save();
    });
    const grid = make("div", { class: "grid" }, labelled("Type", type));
    for (const key of FIELDS[column.type] ?? []) grid.append(field(column, key, id));
    const checks = make("div", { class: "checks" }, check(column, "use", "use this column", draw), check(column, "other", "anything else counts as “other”"),
      check(column, "has_missing", "missing is a level", draw), ...(FIELDS[column.type]?.includes("minimum") ? [check(column, "clamp", "values outside go to the end bins")] : []));
    body.replaceChildren(...(column.use ? [grid, checks] : [make("div", { class: "checks" }, check(column, "use", "use this column", draw))]));
    if (column.use && column.has_missing) body.append(make("div", { class: "field narrow" }, ...field(column, "missing", id).childNodes));
    details.classList.toggle("unused", !column.use);
    $(".kind", summary).textContent = column.use ? column.type || "no type yet" : "left out: never read";
  };
  draw();
  return details;
}

function labelled(text, input) {
  return make("div", { class: "field" }, make("label", { for: input.id }, text), input);
}

function field(column, key, id) {
  const long = key === "enum" || key === "missing";
  const input = make(long ? "textarea" : "input", { id: `${id}-${key}`, value: column[key], "aria-describedby": `${id}-problem`, spellcheck: false, ...(long ? { rows: key === "enum" ? 4 : 2 } : {}) });
  if (column.type === "date" && key !== "bins") input.placeholder = "2024-12-31";
  input.addEventListener("input", () => {
    column[key] = input.value;
    save();
  });
  return labelled(WORDS[key], input);
}

function check(column, key, words, after) {
  const box = make("input", { type: "checkbox", checked: column[key] });
  box.addEventListener("change", () => {
    column[key] = box.checked;
    after?.();
    save();
  });
  return make("label", {}, box, " " + words);
}

function addZero(zero) {
  const place = make("div", { class: "zero", role: "group", "aria-label": "A combination that cannot occur" });
  const draw = () => {
    const rows = zero.map((condition, i) => {
      const select = make("select", { "aria-label": "Column" }, ...form.columns.filter((c) => c.use).map((c) => make("option", { value: c.name }, c.name)));
      select.value = condition.column;
      select.addEventListener("change", () => { condition.column = select.value; save(); });
      const text = make("input", { value: condition.text, "aria-label": "Values", placeholder: "values, or a range" });
      text.addEventListener("input", () => { condition.text = text.value; save(); });
      const remove = make("button", { type: "button", "aria-label": "Remove this condition" }, "×");
      remove.addEventListener("click", () => {
        zero.splice(i, 1);
        if (zero.length) draw();
        else { form.zeros.splice(form.zeros.indexOf(zero), 1); place.remove(); }
        save();
      });
      return make("div", { class: "condition" }, select, text, remove);
    });
    const more = make("button", { type: "button" }, "and …");
    more.addEventListener("click", () => { zero.push({ column: form.columns[0].name, text: "" }); draw(); });
    place.replaceChildren(...rows, more);
  };
  draw();
  $("#zeros").append(place);
  return place;
}

function filter() {
  const wanted = $("#filter").value.toLowerCase();
  for (const details of $$("details.column")) details.hidden = !details.dataset.column.toLowerCase().includes(wanted);
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
  const said = { privacy: [], table: [], zero: [], "": [] };
  const columns = {};
  for (const { where, text } of found.problems) {
    if (where.startsWith("column:")) (columns[where.slice(7)] ??= []).push(text);
    else (said[where] ?? said[""]).push(text);
  }
  for (const part of ["privacy", "table", "zero"]) $(`#problems-${part}`).textContent = said[part].join("\n");
  $("#unit").setAttribute("aria-invalid", String(!form.privacy.unit.trim()));
  for (const details of $$("details.column")) {
    const lines = columns[details.dataset.column] ?? [];
    $(".problem", details).textContent = lines.join("\n");
    const levels = found.levels?.[details.dataset.column];
    $(".levels", details).textContent = lines.length ? "✗ " + (details.open ? "" : lines[0]) : levels ? `${levels} levels` : "";
  }
  alarm(said[""].join("\n"));
  const used = form.columns.filter((c) => c.use).length;
  $("#column-count").textContent = `${used} of ${form.columns.length} used`;
  const place = $("#schema-state");
  place.className = found.ok ? "fine" : "";
  const cells = found.ok ? (found.cells < 1e6 ? found.cells.toLocaleString("en-GB") : found.cells.toExponential(1)) : "";
  place.textContent = found.ok ? `Valid: ${used} columns, ${cells} cells.` : `${found.problems.length} ${found.problems.length === 1 ? "problem" : "problems"} left.`;
  $("#next").setAttribute("aria-disabled", String(!found.ok));
  $("#verify").disabled = !found.ok;
  if (found.toml) $("#toml").value = found.toml;
}

async function verify() {
  const place = $("#verified");
  place.replaceChildren(make("p", {}, "Reading the table in a process of its own …"));
  $("#verify").disabled = true;
  const found = await post(`${base}/verify`);
  $("#verify").disabled = false;
  if (found.error) place.replaceChildren(make("p", { class: "problem" }, found.error));
  else if (found.ok) place.replaceChildren(make("p", { class: "fine" }, "The table satisfies the schema."));
  else place.replaceChildren(make("p", { class: "problem" }, "The table does not satisfy the schema:"), make("ul", {}, ...found.problems.map((p) => make("li", {}, p))));
}

async function useText() {
  const found = await post(`${base}/text`, { text: $("#toml").value, version: state.version });
  if (found.error) alarm(found.error);
  else location.reload();
}
