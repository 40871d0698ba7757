// A run as it goes on. Every event is the whole state, so a reload shows the same.
import { $, at, data, make, percent, post, small, whole } from "./tools.js";

const WORDS = {
  running: "It reads the table, then measures round by round.", stopped: "It was cancelled. What it has drawn is charged; continue it, or leave it.",
  failed: "It did not end well.", done: "Done.",
};

let attempt;

export function start() {
  const state = data("state");
  const given = data("given");
  const base = `/tables/${state.table}/runs/${given.run}`;
  const source = new EventSource(at(`${base}/events`));
  source.onmessage = (event) => show(JSON.parse(event.data));
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) $("#run-message").textContent = "This run cannot be followed: its files are damaged, or the page's server has ended.";
  };
  source.addEventListener("end", () => {
    source.close();
    if ($("#run-state").textContent === "done") location.reload();
  });
  $("#cancel").addEventListener("click", async () => {
    $("#cancel").disabled = true;
    await post(`${base}/cancel`);
  });
  $("#resume").addEventListener("click", async () => {
    $("#resume").disabled = true; // a second click would be answered "done", but need not be asked
    const found = await post(`${base}/resume`, { attempt });
    $("#resume").disabled = false;
    if (found.error) $("#run-message").textContent = found.error;
    else location.reload();
  });
}

function show(found) {
  attempt = found.attempt;
  if ($("#run-state").textContent !== found.state) $("#run-state").textContent = found.state;
  const words = found.phase ? `Now: ${found.phase}.` : WORDS[found.state] ?? "";
  if ($("#run-words").textContent !== words) $("#run-words").textContent = words;
  $("#run-message").textContent = found.message;
  $("#spent").value = found.spent;
  $("#spent-words").textContent = percent(found.spent);
  $("#cancel").hidden = found.state !== "running";
  $("#resume").hidden = !found.resumable || found.state === "running";
  $("#run-help").hidden = found.state !== "running";
  const e = found.estimate;
  if (e.marginals)
    $("#estimate").textContent = e.covered
      ? `${whole(e.covered)} of ${e.asked > e.marginals ? `${whole(e.marginals)} tables that are looked at, of ${whole(e.asked)}` : `${whole(e.marginals)} tables of the workload`} are measured so far; expected error of these by noise alone: ${small(e.error)}.`
      : "Nothing of the workload is measured yet.";
  const rows = found.rounds.flatMap((round) => round.steps.map((step, i) =>
    make("tr", {}, make("td", { class: "n" }, i ? "" : String(round.number || "start")), make("td", {}, make("bdi", {}, step.what)),
      make("td", { class: "n" }, step.sigma === null ? "" : small(step.sigma)), make("td", { class: "n" }, percent(step.share)))));
  $("#rounds").replaceChildren(...rows);
  const box = $("#rounds").closest(".tall");
  box.scrollTop = box.scrollHeight;
}
