// The workload builder, with a preview of what it would take.
import { $, $$, code, data, large, later, make, memory, post, queued, scrolled, table, whole } from "./tools.js";

let state, given, base;

export function start() {
  state = data("state");
  given = data("given");
  base = `/tables/${state.table}/workload`;
  $(`input[name=kind][value=${given.kind}]`).checked = true;
  readRule(given.rule);
  for (const input of $$("input[name=kind]")) input.addEventListener("change", () => { given.kind = input.value; parts(); save(); });
  for (const input of $$("#rule-part input, #rule-part select")) input.addEventListener("input", () => { given.rule = rule(); parts(); save(); });
  $("#entry-kind").addEventListener("change", parts);
  $("#column-filter").addEventListener("input", () => {
    const wanted = $("#column-filter").value.toLowerCase();
    for (const label of $$("#boxes label")) label.hidden = !label.textContent.toLowerCase().includes(wanted);
  });
  $("#add-entry").addEventListener("click", addEntry);
  $("#next").addEventListener("click", (event) => { if ($("#next").getAttribute("aria-disabled") === "true") event.preventDefault(); });
  drawEntries();
  parts();
  saveNow();
}

function readRule(text) {
  const forms = [
    [/^all-(\d+)way$/, "all", ["k"]], [/^target:(.+):(\d+)way$/, "target", ["target", "k"]],
    [/^random:(\d+):(\d+)way:seed=(\d+)$/, "random", ["many", "k", "seed"]], [/^skewed:(\d+):(\d+)way:seed=(\d+)$/, "skewed", ["many", "k", "seed"]],
    [/^threshold:(\d+)of(\d+):(\d+):seed=(\d+)$/, "threshold", ["r", "k", "many", "seed"]],
  ];
  for (const [pattern, kind, fields] of forms) {
    const match = pattern.exec(text);
    if (!match) continue;
    $("#rule-kind").value = kind;
    fields.forEach((name, i) => { $(`#${name}`).value = match[i + 1]; });
    return;
  }
  $("#rule-kind").value = text ? "text" : "all";
  if (!text) given.rule = rule();
}

function rule() {
  const value = (id) => $(`#${id}`).value;
  switch ($("#rule-kind").value) {
    case "all": return `all-${value("k")}way`;
    case "target": return `target:${value("target")}:${value("k")}way`;
    case "random": return `random:${value("many")}:${value("k")}way:seed=${value("seed")}`;
    case "skewed": return `skewed:${value("many")}:${value("k")}way:seed=${value("seed")}`;
    case "threshold": return `threshold:${value("r")}of${value("k")}:${value("many")}:seed=${value("seed")}`;
    default: return value("rule");
  }
}

function parts() {
  $("#rule-part").hidden = given.kind !== "rule";
  $("#list-part").hidden = given.kind !== "list";
  for (const field of $$("[data-for]")) field.hidden = !field.dataset.for.split(" ").includes($("#rule-kind").value);
  $("#at-least-field").hidden = $("#entry-kind").value !== "threshold";
}

function addEntry() {
  const chosen = $$("#boxes input:checked");
  if (!chosen.length) {
    $("#workload-problem").textContent = "Tick at least one column first.";
    return;
  }
  const kind = $("#entry-kind").value;
  given.entries.push({ kind, columns: chosen.map((box) => box.value), at_least: kind === "threshold" ? $("#at-least").value : "", weight: $("#weight").value || "1" });
  for (const box of chosen) box.checked = false;
  drawEntries();
  save();
}

function drawEntries() {
  $("#entries").replaceChildren(...given.entries.map((entry, i) => {
    const remove = make("button", { type: "button", "aria-label": `Remove ${entry.columns.join(", ")}` }, "×");
    remove.addEventListener("click", () => { given.entries.splice(i, 1); drawEntries(); save(); });
    const prefix = entry.kind === "threshold" ? `at least ${entry.at_least} of ` : "";
    return make("li", {}, prefix, make("bdi", {}, entry.columns.join(" × ")), entry.weight !== "1" ? ` (weight ${entry.weight})` : "", remove);
  }));
}

const saveNow = queued(async () => {
  const found = await post(`${base}/save`, { workload: given, version: state.version });
  $("#workload-problem").textContent = found.error ?? "";
  $("#next").setAttribute("aria-disabled", String(Boolean(found.error)));
  if (found.error) {
    $("#preview").replaceChildren();
    code(null);
    $("#saved").textContent = "Not kept yet.";
    return;
  }
  state.version = found.version;
  $("#saved").textContent = `Kept: ${whole(found.queries)} queries.`;
  show(found);
});
const save = later(saveNow);

function show(found) {
  code(found.code);
  $("#toml").textContent = found.toml ?? "";
  const largest = table([{ text: "largest tables" }, { text: "cells", number: true }], found.largest.map((l) => [l.columns.join(" × "), whole(l.cells)]));
  const tiles = make("div", { class: "tiles" },
    ...[[large(found.marginals), "tables of counts"], [large(found.cells), "cells in all"], [memory(found.megabytes), `to hold ${found.looked_at ? "those looked at" : "them once"}`]].map(
      ([number, words]) => make("div", { class: "tile" }, make("b", {}, number), words)));
  const parts = [tiles, scrolled("Largest tables", largest)];
  if (found.looked_at) parts.push(make("p", { class: "help" }, found.looked_at));
  if (found.unnamed.length) parts.push(make("p", { class: "help" }, `Never asked about: ${found.unnamed.slice(0, 20).join(", ")}${found.unnamed.length > 20 ? ", …" : ""}. The release will say little of ${found.unnamed.length === 1 ? "it" : "them"}.`));
  $("#preview").replaceChildren(...parts);
}
