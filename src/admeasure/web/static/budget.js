// The budget: what it would buy, live, before anything is spent.
import { $, $$, alarm, code, data, later, make, percent, post, queued, small, table, whole } from "./tools.js";

let state;
let shown = {}; // the plan on the page: only that one can be started, and once

function budget() {
  const found = Object.fromEntries($$("[data-key]").map((input) => [input.dataset.key, input.value]));
  const choice = $("#book-choice").value;
  if (choice !== "+") {
    found.dataset = choice.startsWith("=") ? choice.slice(1) : "";
    found.total = "";
  }
  return found;
}

export function start(follow) {
  state = data("state");
  for (const input of $$("[data-key], #book-choice")) input.addEventListener("input", () => { $("#start").disabled = true; fields(); plan(); });
  $("#start").addEventListener("click", async (event) => {
    const asked = budget();
    if ($("#book-choice").value === "+" && !(asked.dataset.trim() && asked.total.trim())) {
      $("#plan-problem").textContent = "A new data set needs a name and a total.";
      return;
    }
    const found = await follow(`/tables/${state.table}/start`, { budget: asked, ...shown }, event.target);
    if (found.status !== 409) return;
    await planNow();
    alarm("");
    $("#plan-state").textContent = found.error; // beside the button, where it is seen
    $("#plan-state").className = "problem";
  });
  fields();
  planNow();
}

function fields() {
  for (const field of $$("[data-new]")) field.hidden = $("#book-choice").value !== "+";
}

const planNow = queued(async () => {
  const asked = budget();
  const found = await post(`/tables/${state.table}/budget/plan`, { budget: asked });
  $("#plan-problem").textContent = found.error ?? "";
  // While the plan on the page is not the one for what is typed, there is nothing to start.
  $("#start").disabled = Boolean(found.error) || JSON.stringify(asked) !== JSON.stringify(budget());
  if (found.error) {
    $("#plan").replaceChildren();
    $("#plan-state").textContent = "This cannot be run.";
    $("#book-left").textContent = "";
    return;
  }
  shown = { shown: found.shown, nonce: found.nonce };
  show(found, asked);
});
const plan = later(planNow);

function duration(seconds) {
  if (seconds < 2) return "a second or two";
  return seconds < 120 ? `${Math.round(seconds)} seconds` : `${Math.round(seconds / 60)} minutes`;
}

function show(found, asked) {
  code(found.code);
  $("#summary").textContent = found.summary;
  $("#start").textContent = `Start the run: spend epsilon ${asked.epsilon}`;
  $("#plan-state").className = "";
  $("#plan-state").textContent = `Nothing is spent yet. Takes about ${duration(found.seconds)} after reading the table.`;
  const left = $("#book-left");
  left.textContent = "";
  left.className = "help";
  if (found.book) {
    left.textContent = found.book.closed ? "This data set is closed: the run would be refused." : `epsilon ${small(found.book.epsilon_left)} is left of ${small(found.book.epsilon)}.`;
    if (!found.book.enough) {
      left.className = "problem";
      left.textContent += " This run asks for more, and would be refused.";
    }
  }
  const error = found.expected === null ? (found.rows ? "depends on what it will choose" : "not known without the number of rows") : small(found.expected);
  const tiles = make("div", { class: "tiles" },
    ...[[error, "expected error by noise alone: mean L1 distance of shares, 0 to 2"], [found.rounds, "rounds"], [`${small(found.megabytes)} MB`, "of memory, about"], [small(found.rho), "rho, which this epsilon allows"], ...(found.delta_share ? [[small(found.delta_share), "of delta, for levels that are found"]] : [])].map(
      ([number, words]) => make("div", { class: "tile" }, make("b", {}, String(number)), words)));
  const items = table([{ text: "what" }, { text: "times", number: true }, { text: "part of the budget", number: true }, { text: "noise, in rows", number: true }],
    found.items.map((i) => [i.what, String(i.times), percent(i.share), i.sigma === null ? "" : small(i.sigma)]));
  const parts = [tiles];
  if (found.others.some((o) => o.expected !== null))
    parts.push(make("h3", {}, "More or less"), make("div", { class: "scroll" }, table([{ text: "epsilon" }, { text: "expected error", number: true }], found.others.map((o) => [small(o.epsilon), small(o.expected)]))));
  parts.push(make("h3", {}, "How it would be split"), make("div", { class: "scroll" }, items));
  if (found.more) parts.push(make("p", { class: "help" }, `and ${whole(found.more)} more lines`));
  parts.push(...found.notes.map((note) => make("p", { class: "help" }, note)));
  $("#plan").replaceChildren(...parts);
}
