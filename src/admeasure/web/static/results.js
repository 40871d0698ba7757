// A finished run: questions as they are typed, tables, rows.
import { start as conclusions } from "./conclusions.js";
import { $, $$, at, bar, data, later, make, percent, post, queued, small, whole } from "./tools.js";

const KINDS = { supported: "its columns were measured together", certified: "its error was bought with the release", unsupported: "bounded by what was measured instead", trivial: "nothing is known beyond the number of rows" };
let base, columns;
const conditions = [];

export function start() {
  const given = data("given");
  columns = given.columns;
  base = `/tables/${data("state").table}/runs/${given.run}`;
  $("#add-condition").addEventListener("click", () => { conditions.push({ column: columns[0].name, text: "" }); drawConditions(true); });
  $("#at-least").addEventListener("change", askNow);
  conditions.push({ column: columns[0].name, text: "" });
  drawConditions(false);
  for (const select of $$(".axis")) select.addEventListener("change", marginal);
  conclusions(base, columns);
  $("#internal").addEventListener("click", internal);
  $("#sample")?.addEventListener("submit", () => { $("#sample-state").textContent = "The rows are drawn, and searched for what agrees best with the release; the download begins when they are there."; });
  if ($("#rows-shown")) {
    $("#more-rows").addEventListener("click", rows);
    rows();
  }
}

function hint(name) {
  const column = columns.find((c) => c.name === name);
  const shown = column.labels.slice(0, 12).join(", ") + (column.levels > 12 ? ", …" : "");
  return `${column.kind}: ${shown}`;
}

function drawConditions(focusLast) {
  const rows = conditions.map((condition, i) => {
    const help = make("p", { class: "help", id: `condition-${i}` }, hint(condition.column));
    const select = make("select", { "aria-label": "Column" }, ...columns.map((c) => make("option", { value: c.name }, c.name)));
    select.value = condition.column;
    const text = make("input", { value: condition.text, "aria-label": "Values", "aria-describedby": help.id, list: `values-${i}`, autocomplete: "off", spellcheck: false });
    const values = make("datalist", { id: `values-${i}` });
    const suggest = () => {
      const column = columns.find((c) => c.name === condition.column);
      const known = column.type === "string" || column.type === "boolean" ? column.labels : [];
      values.replaceChildren(...known.map((label) => make("option", { value: label === "missing" || label === "other" ? `(${label})` : label })));
      help.textContent = hint(condition.column);
    };
    select.addEventListener("change", () => { condition.column = select.value; suggest(); ask(); });
    text.addEventListener("input", () => { condition.text = text.value; ask(); });
    const remove = make("button", { type: "button", "aria-label": "Remove this condition" }, "×");
    remove.addEventListener("click", () => {
      conditions.splice(i, 1);
      if (!conditions.length) conditions.push({ column: columns[0].name, text: "" });
      drawConditions(false);
      ask();
    });
    suggest();
    return make("div", { class: "condition" }, select, text, remove, values, help);
  });
  $("#conditions").replaceChildren(...rows);
  const chosen = $("#at-least").value;
  $("#at-least").replaceChildren(make("option", { value: "0" }, "all of them"), ...conditions.map((_, i) => make("option", { value: String(i + 1) }, `at least ${i + 1} of ${conditions.length}`)));
  $("#at-least").value = Number(chosen) <= conditions.length ? chosen : "0";
  if (focusLast) $$("#conditions select").at(-1).focus();
}

const askNow = queued(async () => {
  const at_least = Number($("#at-least").value);
  const found = await post(`${base}/ask`, { conditions, at_least, confidence: 0.95 });
  const place = $("#answer");
  place.className = found.error ? "problem" : "answer";
  if (found.error || found.empty) {
    place.textContent = found.error ?? "";
    return;
  }
  place.replaceChildren(make("b", {}, `${whole(found.value)} rows`), ` (${percent(found.share)}), between ${whole(found.low)} and ${whole(found.high)} with 95% confidence. `,
    make("span", { class: "soft" }, `${found.kind}: ${KINDS[found.kind]}.`));
  $("#query-toml").textContent = found.toml;
});
const ask = later(askNow, 250);

async function marginal() {
  const chosen = [...new Set($$(".axis").map((s) => s.value).filter(Boolean))];
  if (!chosen.length) return;
  const found = await post(`${base}/marginal`, { columns: chosen, confidence: 0.95 });
  $("#marginal-problem").textContent = found.error ?? "";
  if (found.error) {
    $("#marginal").replaceChildren();
    return;
  }
  const most = Math.max(...found.cells.map((c) => c.high), 0);
  const head = make("tr", {}, ...found.columns.map((c) => make("th", {}, make("bdi", {}, c))), make("td", {}), make("th", { class: "n" }, "rows"), make("th", { class: "n" }, "interval"));
  const rows = found.cells.map((cell) => make("tr", {}, ...cell.labels.map((l) => make("th", {}, make("bdi", {}, l))), make("td", { class: "draw" }, bar(cell.value, cell.low, cell.high, most)),
    make("td", { class: "n" }, whole(cell.value)), make("td", { class: "n soft" }, `${whole(cell.low)} – ${whole(cell.high)}`)));
  $("#marginal").replaceChildren(make("p", { class: "help" }, `All cells together are within ${small(found.bound)} of the truth (L1 distance of shares, 95%; ${found.kind}).`),
    make("table", { class: "levels" }, make("thead", {}, head), make("tbody", {}, ...rows)));
}

// Synthetic rows to look at. They are nobody's.
async function rows() {
  $("#more-rows").disabled = true;
  const found = await post(`${base}/rows`);
  $("#more-rows").disabled = false;
  if (found.error) {
    $("#rows-shown").textContent = found.error;
    return;
  }
  const head = make("tr", {}, ...found.columns.map((c) => make("th", { scope: "col" }, make("bdi", {}, c))));
  const body = found.rows.map((row) => make("tr", {}, ...row.map((text) => make("td", {}, make("bdi", {}, text)))));
  $("#rows-shown").replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
}

// Real against synthetic: only by this button, in a frame that says what it is.
async function internal() {
  $("#internal").disabled = true;
  $("#internal-state").textContent = "Reading the table …";
  const found = await post(`${base}/internal/make`);
  $("#internal").disabled = false;
  $("#internal-state").replaceChildren(found.error ?? make("a", { href: at(found.next) }, "Download it (NOT PRIVATE)"));
  if (found.error) return;
  const frame = make("iframe", { title: "Real against synthetic: NOT PRIVATE", src: `${at(found.shown)}#histograms` });
  frame.sandbox = "allow-same-origin";
  $("#internal-shown").replaceChildren(make("p", { class: "stamp" }, "NOT PRIVATE: for the holder of the table alone"), frame);
}
