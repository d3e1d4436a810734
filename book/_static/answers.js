// The index of the answers: an address of the one page of before leads to the page that answers it now; and a filter.
document.addEventListener("DOMContentLoaded", () => {
  const moved = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const link = moved?.matches("span") && moved.closest("li, section.answers")?.querySelector("a");
  if (link) {
    location.replace(link.href);
    return;
  }
  const form = document.querySelector(".answers-filter");
  const lines = [...document.querySelectorAll(".answers li")];
  const field = form.querySelector("input");

  function filter() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const line of lines) line.hidden = !words.every((word) => line.textContent.toLowerCase().includes(word));
    for (const topic of document.querySelectorAll(".answers")) topic.hidden = !topic.querySelector("li:not([hidden])");
    const shown = lines.filter((line) => !line.hidden).length;
    form.querySelector("output").textContent = words.length ? `${shown} of ${lines.length}` : "";
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  field.addEventListener("input", filter);
  form.hidden = false;
  filter();
});
