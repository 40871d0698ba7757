// The budget: what it means and what it would buy, live, before anything is spent.
import { $, $$, alarm, code, data, later, make, memory, percent, post, queued, scrolled, small, table, whole } from "./tools.js";

let state;
let shown = {}; // the plan on the page: only that one can be started, and once
let planned = null; // what was asked for in that plan

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
  for (const input of $$("[data-key], #book-choice")) input.addEventListener("input", () => { fields(); plan(); });
  $("#start").addEventListener("click", async (event) => {
    const asked = budget();
    const left = missing(asked);
    if (left.length) {
      say(`Still to be filled in: ${left.map(([, words]) => words).join(", ")}.`);
      $(left[0][0]).focus();
      return;
    }
    if (JSON.stringify(asked) !== planned) { // only what is on the page can be started
      await planNow();
      say("This is the plan for what you have typed. Look at it, then start.");
      return;
    }
    const found = await follow(`/tables/${state.table}/start`, { budget: asked, ...shown }, event.target);
    if (found.status !== 409) return;
    await planNow();
    alarm("");
    say(found.error, "problem"); // beside the button, where it is seen
  });
  fields();
  planNow();
}

function missing(asked) {
  const found = [];
  if (!asked.epsilon.trim()) found.push(["#epsilon", "epsilon"]);
  if ($("#book-choice").value === "+") {
    if (!asked.dataset.trim()) found.push(["#dataset", "the name of the data set"]);
    if (!asked.total.trim()) found.push(["#total", "the total epsilon of the data set"]);
  }
  return found;
}

function say(text, kind = "") {
  $("#plan-state").textContent = text;
  $("#plan-state").className = kind;
}

function fields() {
  const choice = $("#book-choice").value;
  for (const field of $$("[data-new]")) field.hidden = choice !== "+";
  meaning();
  const left = $("#book-left");
  const [epsilon, total] = [Number($("#epsilon").value), Number($("#total").value)];
  left.className = choice ? "help" : "warning";
  left.textContent = choice ? "" : "Nobody will know that this was spent: several releases of one table add up, and only a book keeps them below a limit. Choose this for tables that nobody must be protected in.";
  if (choice === "+" && total && epsilon > total) {
    left.className = "problem";
    left.textContent = "This run asks for more than the total, and would be refused.";
  }
}

// The best guess of whoever knows all others: right in (e^ε + δ)/(1 + e^ε) of the cases at most.
function meaning() {
  const place = $("#meaning");
  const epsilon = Number($("#epsilon").value);
  const delta = Number($("#delta").value);
  const { unit, replaces } = place.dataset;
  place.className = "meaning";
  if (!$("#epsilon").value.trim() || !(epsilon > 0) || !(delta >= 0)) {
    place.textContent = "";
    return;
  }
  const odds = Math.exp(Math.min(epsilon, 700));
  const right = Math.min((odds + delta) / (1 + odds), 1);
  const hundred = right > 0.9995 ? "nearly 100" : (100 * right).toFixed(right > 0.99 ? 1 : 0);
  const question = replaces ? `which of two records a ${unit} has` : `whether a ${unit} is in the table`;
  const [kind, words] = epsilon <= 1 ? ["good", "Strong protection."] : epsilon <= 10 ? ["fair", "Moderate protection, as many releases have."] : ["poor", "Weak protection: take 10 or less unless you know why not."];
  place.classList.add(kind);
  place.replaceChildren(make("b", {}, words), ` Somebody who knows everything about all others, and must guess ${question}, is right 50 times in 100 with a coin, and with the release at most ${hundred} times.`);
}

const planNow = queued(async () => {
  const asked = budget();
  if (!asked.epsilon.trim()) {
    code(null);
    say("Nothing is spent yet.");
    $("#plan-problem").textContent = "";
    $("#plan").replaceChildren(make("p", { class: "soft" }, "Choose epsilon to see it."));
    return;
  }
  say("Nothing is spent yet. Working out what this would buy."); // what stands there is of the form before
  $("#plan").ariaBusy = "true";
  const found = await post(`/tables/${state.table}/budget/plan`, { budget: asked });
  $("#plan").ariaBusy = "false";
  $("#plan-problem").textContent = found.error ?? "";
  $("#start").disabled = Boolean(found.error);
  planned = found.error ? null : JSON.stringify(asked);
  if (found.error) {
    $("#plan").replaceChildren();
    $("#summary").textContent = ""; // it was of the plan before
    code(null);
    say("This cannot be run.");
    return;
  }
  shown = { shown: found.shown, nonce: found.nonce };
  show(found, asked);
});
const plan = later(planNow);

function duration(seconds) {
  if (seconds < 2) return "a second or two";
  if (seconds < 120) return `${Math.round(seconds)} seconds`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} minutes` : `${Math.round(seconds / 3600)} hours`;
}

function show(found, asked) {
  code(found.code);
  $("#summary").textContent = `${found.mechanism}: ${found.summary}.`;
  $("#start").textContent = `Start the run: spend epsilon ${asked.epsilon}`;
  say(`Nothing is spent yet. Takes about ${duration(found.seconds)} after reading the table.`);
  if (found.book) {
    const left = $("#book-left");
    left.className = found.book.enough ? "help" : "problem";
    left.textContent = found.book.closed ? "This data set is closed: the run would be refused." : `epsilon ${small(found.book.epsilon_left)} is left of ${small(found.book.epsilon)}.`;
    if (!found.book.enough && !found.book.closed) left.textContent += " This run asks for more, and would be refused.";
  }
  const error = found.expected === null ? (found.rows ? "depends on what it will choose" : "not known without the number of rows") : small(found.expected);
  const tiles = make("div", { class: "tiles" },
    ...[[error, "expected error by noise alone: mean L1 distance of shares, 0 to 2"], [found.rounds, "rounds"], [percent(found.certify), "of the budget for the accuracy certificate"], [memory(found.megabytes), "of memory, about"], [small(found.rho), "rho, which this epsilon allows"], ...(found.delta_share ? [[small(found.delta_share), "of delta, for categories that are found"]] : [])].map(
      ([number, words]) => make("div", { class: "tile" }, make("b", {}, String(number)), words)));
  const items = table([{ text: "what" }, { text: "times", number: true }, { text: "part of the budget", number: true }, { text: "noise, in rows", number: true }],
    found.items.map((i) => [i.what, String(i.times), percent(i.share), i.sigma === null ? "" : small(i.sigma)]));
  const parts = [...found.warnings.map((note) => make("p", { class: "warning" }, note)), tiles];
  if (found.others.some((o) => o.expected !== null))
    parts.push(make("h3", {}, "More or less"), scrolled("More or less", table([{ text: "epsilon" }, { text: "expected error", number: true }], found.others.map((o) => [small(o.epsilon), small(o.expected)]))));
  parts.push(make("h3", {}, "How it would be split"), scrolled("How it would be split", items));
  if (found.more) parts.push(make("p", { class: "help" }, `and ${whole(found.more)} more, ${percent(found.share_of_more)} together`));
  parts.push(...found.notes.map((note) => make("p", { class: "help" }, note)));
  $("#plan").replaceChildren(...parts);
}
