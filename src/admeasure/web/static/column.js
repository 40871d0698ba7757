// One column of the schema form: which fields it has depends on what kind of values it holds.
import { $, data, make } from "./tools.js";

const { labels, kinds } = data("words") ?? { labels: {}, kinds: {} };
export const KINDS = kinds;
const FOUND = "private"; // what is written where a run is to find bins or categories
const ORDERED = ["integer", "number", "date"];
const NUMBERS = [["", "", "1234.5"], ["", ",", "1,234.5"], [",", "", "1234,5"], [",", ".", "1.234,5"], [",", " ", "1 234,5"], ["", " ", "1 234.5"], ["", "'", "1'234.5"]];
const DAYS = [["", "2024-12-31"], ["%d.%m.%Y", "31.12.2024"], ["%d/%m/%Y", "31/12/2024"], ["%m/%d/%Y", "12/31/2024"], ["%d.%m.%y", "31.12.24"], ["%m/%d/%y", "12/31/24"], ["%Y%m%d", "20241231"]];
const TIMES = [["", "", "13:45, a time of the day in minutes", "%H:%M"], ["", "", "13:45:00, likewise", "%H:%M:%S"], ["", "", "1:45 PM, likewise", "%I:%M %p"]];
const COST = "found by the run, for a part of the budget";

let ids = 0;

// The card of a column; `changed` is called after every change. Its fields are made when it is first
// opened, so that a table of a hundred columns is there at once.
export function card(column, open, changed) {
  const id = `c${ids++}`;
  const body = make("div", {});
  const summary = make("summary", {}, make("b", { class: "name" }, make("bdi", {}, column.name)), make("span", { class: "soft kind" }), make("span", { class: "soft levels" }));
  const problem = make("p", { class: "problem", id: `${id}-problem`, "aria-live": "polite" });
  const details = make("details", { class: "column", open }, summary, body, problem);
  const fields = new Fields(column, id, body, () => { describe(details, column); changed(); });
  details.dataset.column = column.name;
  details.dataset.place = `column:${column.name}`;
  details.redraw = () => {
    describe(details, column);
    if (!details.open && !details.drawn) return;
    details.drawn = true;
    if (details.role_) body.replaceChildren(make("p", { class: "help" }, `It ${details.role_}. Nothing else of it is read or released.`));
    else fields.draw();
  };
  details.addEventListener("toggle", () => { if (details.open && !details.drawn) details.redraw(); });
  details.redraw();
  return details;
}

function describe(details, column) {
  const role = details.role_; // what the column is besides, as "tells whose row it is"
  details.classList.toggle("unused", !column.use && !role);
  $(".kind", details).textContent = role || (column.use ? kinds[column.type] ?? "" : "left out: never read");
}

export function setRole(details, role) {
  if ((details.role_ ?? "") === role) return;
  details.role_ = role;
  details.redraw();
}

class Fields {
  constructor(column, id, body, changed) {
    Object.assign(this, { column, id, body, changed });
    this.listed = column.enum === FOUND ? "" : column.enum;
  }

  draw() {
    const { column, body } = this;
    if (!column.use) {
      body.replaceChildren(make("div", { class: "checks" }, this.check("use", "use this column", true)));
      return;
    }
    const parts = { string: () => this.categories(), boolean: () => this.truths(), date: () => this.ordered(), number: () => this.ordered(), integer: () => this.ordered() };
    const checks = [this.check("use", "use this column", true)];
    if (column.type) {
      checks.push(this.check("has_missing", "can be missing", true));
      if (!(column.type === "string" && column.enum === FOUND)) checks.push(this.check("other", labels.other.toLowerCase()));
    }
    if (ORDERED.includes(column.type)) checks.push(this.check("clamp", labels.clamp.toLowerCase()));
    if (["integer", "number"].includes(column.type) && this.grouping() === FOUND) checks.push(this.check("log", "finer near zero, as for amounts of money"));
    if (column.type === "string" && column.enum !== FOUND) checks.push(this.check("strip", labels.strip.toLowerCase()), this.check("ignore_case", labels.ignore_case.toLowerCase()));
    body.replaceChildren(make("div", { class: "grid" }, this.kind(), ...(parts[column.type]?.() ?? [])), make("div", { class: "checks" }, ...checks));
    if (column.has_missing) body.append(this.field("missing", "Texts that mean missing, one a line (an empty field always does)", { rows: 2 }));
  }

  again(focus) {
    this.draw();
    this.changed();
    $(`#${this.id}-${focus}`)?.focus();
  }

  kind() {
    return this.select("type", labels.type, [["", "choose …"], ...Object.entries(kinds)], this.column.type, (value) => { [this.column.type, this.column.format] = [value, ""]; });
  }

  grouping() {
    const { bins, edges, type } = this.column;
    if (this.by) return this.by;
    if (edges.trim()) return "edges";
    if (bins.trim() === FOUND || (!bins.trim() && type === "number")) return FOUND;
    return bins.trim() ? "equal" : "each";
  }

  ordered() {
    const { column } = this;
    const ways = [[FOUND, COST], ["equal", "of equal width"], ["edges", "between edges"]];
    if (column.type !== "number") ways.unshift(["each", "each value by itself, or found without bounds"]);
    const by = this.grouping();
    const bounds = by === "edges" && !column.minimum && !column.maximum ? [] : [this.field("minimum", labels.minimum), this.field("maximum", labels.maximum)];
    const found = [...bounds,
      this.select("by", labels.bins, ways, by, (value) => {
        this.by = value;
        if (value !== "edges") column.edges = "";
        column.bins = value === FOUND ? FOUND : value === "equal" && column.bins !== FOUND ? column.bins : "";
      })];
    if (by === "equal") found.push(this.field("bins", "How many bins", { inputMode: "numeric" }));
    if (by === "edges") found.push(this.field("edges", "Edges, with commas"));
    found.push(...(column.type === "date" ? this.days() : [this.numbers()]));
    return found;
  }

  numbers() {
    const { column } = this;
    const [decimal, thousands, format] = [column.decimal ?? "", column.thousands ?? "", column.format ?? ""];
    const is = ([d, t, , f = ""]) => d === decimal && t === thousands && f === format;
    const known = column.type === "integer" ? [...NUMBERS, ...TIMES] : NUMBERS;
    const ways = known.some(is) ? known : [...known, [decimal, thousands, "as the schema file says", format]];
    const at = ways.findIndex(is);
    return this.select("decimal", labels.decimal, ways.map(([, , shown], i) => [String(i), shown]), String(at), (value) => { [column.decimal, column.thousands, , column.format = ""] = ways[Number(value)]; });
  }

  days() {
    const { column } = this;
    const own = this.own || !DAYS.some(([format]) => format === (column.format ?? ""));
    const way = this.select("format-by", labels.format, [...DAYS, ["own", "in another way …"]], own ? "own" : column.format ?? "", (value) => {
      this.own = value === "own";
      if (!this.own) column.format = value;
    });
    return own ? [way, this.field("format", "Pattern, as %d-%b-%Y")] : [way];
  }

  categories() {
    const { column } = this;
    const found = column.enum.trim() === FOUND;
    const way = this.select("enum-by", labels.enum, [["listed", "listed here"], [FOUND, COST]], found ? FOUND : "listed", (value) => { column.enum = value === FOUND ? FOUND : this.listed; });
    return found ? [way] : [way, this.field("enum", "One a line", { rows: 4 }, (text) => { this.listed = text; })];
  }

  truths() {
    return [this.field("true_values", `${labels.true_values}, one a line (else true, 1)`, { rows: 2 }), this.field("false_values", `${labels.false_values}, one a line (else false, 0)`, { rows: 2 })];
  }

  select(key, words, options, value, set) {
    const input = make("select", { id: `${this.id}-${key}`, "aria-describedby": `${this.id}-problem` }, ...options.map(([name, shown]) => make("option", { value: name }, shown)));
    input.value = value;
    input.addEventListener("change", () => { set(input.value); this.again(key); });
    return labelled(words, input);
  }

  field(key, words, more = {}, also) {
    const { column } = this;
    const input = make(more.rows ? "textarea" : "input", { id: `${this.id}-${key}`, value: column[key] ?? "", "aria-describedby": `${this.id}-problem`, spellcheck: false, ...more });
    if (column.type === "date" && ["minimum", "maximum", "edges"].includes(key)) input.placeholder = "2024-12-31";
    input.addEventListener("input", () => {
      column[key] = input.value;
      also?.(input.value);
      this.changed();
    });
    return labelled(words, input);
  }

  check(key, words, redraw) {
    const box = make("input", { type: "checkbox", id: `${this.id}-${key}`, checked: Boolean(this.column[key]) });
    box.addEventListener("change", () => {
      this.column[key] = box.checked;
      if (redraw) this.again(key);
      else this.changed();
    });
    return make("label", {}, box, " " + words);
  }
}

function labelled(text, input) {
  return make("div", { class: "field" }, make("label", { for: input.id }, text), input);
}
