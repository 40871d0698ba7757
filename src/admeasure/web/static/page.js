// Starts what the page at hand needs.
import { $, alarm, go, post } from "./tools.js";

async function follow(url, body, button) {
  alarm("");
  if (button) button.disabled = true;
  const found = await post(url, body);
  if (button) button.disabled = false;
  if (found.error) alarm(found.error);
  else go(found.next);
  return found;
}

function home() {
  $("#open").addEventListener("submit", (event) => {
    event.preventDefault();
    follow("/open", { data: $("#data").value, schema: $("#schema").value }, event.submitter);
  });
  $("#demo").addEventListener("click", (event) => follow("/demo", {}, event.target));
}

function book() {
  $("#create-account").addEventListener("submit", (event) => {
    event.preventDefault();
    follow("/book/create", Object.fromEntries(new FormData(event.target)), event.submitter);
  });
  $("#book-place").addEventListener("submit", (event) => {
    event.preventDefault();
    follow("/book/use", Object.fromEntries(new FormData(event.target)), event.submitter);
  });
  for (const button of document.querySelectorAll(".close-account"))
    button.addEventListener("click", () => follow("/book/close", { dataset: button.dataset.dataset }, button));
}

const pages = {
  home: async () => home(),
  book: async () => book(),
  schema: async () => (await import("./schema.js")).start(),
  workload: async () => (await import("./workload.js")).start(),
  budget: async () => (await import("./budget.js")).start(follow),
  run: async () => (await import("./run.js")).start(),
  results: async () => (await import("./results.js")).start(),
};
await pages[document.body.dataset.page]?.();
document.body.dataset.ready = "yes";
