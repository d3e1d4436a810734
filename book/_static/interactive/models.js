// The table of language models: a filter above it, and heads that sort. Without scripts it is a plain table.

/** What a cell sorts by: the number that it carries or begins with, or its words. */
export function sortsBy(cell) {
  const number = Number(cell.dataset.sort ?? cell.textContent);
  return Number.isNaN(number) ? cell.textContent.toLowerCase() : number;
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

function field(label, control) {
  const element = document.createElement("label");
  element.append(`${label} `, control);
  return element;
}

function choose(options) {
  const select = document.createElement("select");
  for (const [value, words] of options) select.add(new Option(words, value));
  return select;
}

function makeUsable(place) {
  const table = place.querySelector("table");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];

  const words = document.createElement("input");
  words.type = "search";
  words.placeholder = "for example 2026 peri";
  const years = choose([["0", "all years"], ["2025", "2025 and 2026"], ["2026", "2026"]]);
  const basis = choose([["", "models and classes"], ["model config", "published models"],
    ["config", "models whose configuration we read"], ["class", "classes of transformers"]]);
  const shown = document.createElement("p");
  shown.setAttribute("role", "status");
  const form = document.createElement("form");
  form.className = "models-filter";
  form.append(field("Filter", words), field("Years", years), field("Rows", basis), shown);
  form.addEventListener("submit", (event) => event.preventDefault());
  place.prepend(form);

  function filter() {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const text = [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase();
      const year = Number(row.querySelector('[data-key="year"]').textContent);
      const fits = wanted.every((word) => text.includes(word)) && year >= Number(years.value)
        && (!basis.value || basis.value.split(" ").includes(row.dataset.basis));
      row.hidden = !fits;
      count += fits;
    }
    shown.textContent = `${count} of ${rows.length} rows`;
  }

  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = new Map(rows.map((row) => [row, sortsBy(row.cells[column])]));
      rows.sort((a, b) => compare(key.get(a), key.get(b)) * (down ? -1 : 1));
      body.append(...rows);
    });
  });
  for (const control of [words, years, basis]) control.addEventListener("input", filter);
  filter(); // a browser keeps what was chosen when one comes back to the page
}

for (const place of document.querySelectorAll("nt-models")) makeUsable(place);
