// Rules between columns in the schema form: combinations that cannot occur, and columns in order.
import { make } from "./tools.js";

function columnSelect(names, value, set) {
  const select = make("select", { "aria-label": "Column" }, ...[...new Set([...names, value])].map((name) => make("option", { value: name }, name || "choose …")));
  select.value = value;
  select.addEventListener("change", () => set(select.value));
  return select;
}

function removing(words, work) {
  const button = make("button", { type: "button", "aria-label": words }, "×");
  button.addEventListener("click", work);
  return button;
}

export function zero(conditions, all, names, changed) {
  const place = make("div", { class: "zero", role: "group", "aria-label": "A combination that cannot occur" });
  const draw = () => {
    const rows = conditions.map((condition, i) => {
      const select = columnSelect(names(), condition.column, (name) => { condition.column = name; changed(); });
      const text = make("input", { value: condition.text, "aria-label": "Values", placeholder: "values, or a range" });
      text.addEventListener("input", () => { condition.text = text.value; changed(); });
      const remove = removing("Remove this condition", () => {
        conditions.splice(i, 1);
        if (conditions.length) draw();
        else { all.splice(all.indexOf(conditions), 1); place.remove(); }
        changed();
      });
      return make("div", { class: "condition" }, select, text, remove);
    });
    const more = make("button", { type: "button" }, "and …");
    more.addEventListener("click", () => { conditions.push({ column: names()[0], text: "" }); draw(); changed(); });
    place.replaceChildren(...rows, more);
  };
  draw();
  return place;
}

export function order(columns, all, names, changed) {
  const place = make("div", { class: "zero inline", role: "group", "aria-label": "Columns in order" });
  const draw = () => {
    const parts = columns.flatMap((name, i) => [...(i ? [" then "] : []), columnSelect(names(), name, (chosen) => { columns[i] = chosen; changed(); })]);
    place.replaceChildren(...parts, removing("Remove this order", () => { all.splice(all.indexOf(columns), 1); place.remove(); changed(); }));
  };
  draw();
  return place;
}
