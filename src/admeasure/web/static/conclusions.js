// Conclusions that must hold, stated by a form and checked as they are typed.
import { $, $$, later, make, post, queued } from "./tools.js";

const KINDS = { holds: "good", "does not hold": "poor", "cannot be told": "fair" };
let base, columns;
const statements = [];

export function start(at, known) {
  [base, columns] = [at, known];
  $("#add-statement").addEventListener("click", () => {
    statements.push({ column: columns[0].name, text: "", way: "above", percent: "" });
    draw();
    $$("#statements .condition select").at(-2).focus();
  });
  $("#conclusions-text").addEventListener("input", later(() => check({ text: $("#conclusions-text").value })));
}

function draw() {
  $("#statements").replaceChildren(...statements.map((said, i) => {
    const field = (key, element) => {
      element.value = said[key];
      element.addEventListener("input", () => { said[key] = element.value; checkStatements(); });
      return element;
    };
    const remove = make("button", { type: "button", "aria-label": "Remove this statement" }, "×");
    remove.addEventListener("click", () => { statements.splice(i, 1); draw(); checkStatements(); });
    const way = make("select", { "aria-label": "Above or below" }, make("option", { value: "above" }, "in more than"), make("option", { value: "below" }, "in less than"));
    return make("div", { class: "condition statement", role: "group", "aria-label": `Statement ${i + 1}` },
      field("column", make("select", { "aria-label": "Column" }, ...columns.map((c) => make("option", { value: c.name }, c.name)))),
      field("text", make("input", { "aria-label": "Values", placeholder: "values, or a range", spellcheck: false })), field("way", way),
      field("percent", make("input", { "aria-label": "Percent of the rows", placeholder: "% of the rows", inputMode: "decimal" })), remove);
  }));
}

const checkStatements = later(() => check({ statements }));

let asked;
const checkNow = queued(async () => {
  const found = await post(`${base}/conclusions`, { ...asked, confidence: 0.95 });
  $("#conclusions-problem").textContent = found.error ?? "";
  if (found.toml && asked.statements) $("#conclusions-text").value = found.toml;
  const rows = (found.verdicts ?? []).map((v) => make("tr", {}, make("th", { scope: "row" }, make("bdi", {}, v.name)), make("td", {}, make("span", { class: `badge ${KINDS[v.verdict]}` }, v.verdict)),
    make("td", {}, v.in_release ? "the release agrees" : "the release disagrees"), make("td", {}, `sure up to ${v.sure_words}`)));
  $("#verdicts").replaceChildren(...(rows.length ? [make("table", {}, make("tbody", {}, ...rows))] : []));
});

function check(body) {
  asked = body;
  checkNow();
}
