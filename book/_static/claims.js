// The filter of the claims ledger. Where a choice is made the chapters unfold. What is chosen stays in the
// address, so that a link shows the same claims.
document.addEventListener("DOMContentLoaded", () => {
  const form = document.querySelector("form.claims-filter");
  const claims = [...document.querySelectorAll("p.claim")];
  const chapters = [...document.querySelectorAll(".claims-chapter")];
  const fields = ["verdict", "chapter"].map((name) => [name, form.querySelector(`#claims-${name}`)]);

  function filter() {
    for (const claim of claims) claim.hidden = fields.some(([name, { value }]) => value && claim.dataset[name] !== value);
    const chosen = fields.some(([, { value }]) => value);
    for (const chapter of chapters) {
      chapter.hidden = !chapter.querySelector("p.claim:not([hidden])");
      chapter.open = chosen || chapter.contains(document.getElementById(location.hash.slice(1)));
    }
    const shown = claims.filter((claim) => !claim.hidden).length;
    form.querySelector("#claims-shown").textContent = `${shown} of ${claims.length} claims shown`;
    const address = new URL(location.href);
    for (const [name, { value }] of fields) value ? address.searchParams.set(name, value) : address.searchParams.delete(name);
    if (address.href !== location.href) history.replaceState(history.state, "", address);
  }

  // What the address does not say a browser keeps when one comes back to the page.
  const asked = new URLSearchParams(location.search);
  for (const [name, field] of fields) {
    if (asked.has(name)) field.value = asked.get(name);
    field.addEventListener("input", filter);
  }
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  filter();
});
