// The filter of the claims ledger. Without it all claims are shown and each opens by itself. What is
// chosen stays in the address, so that a link shows the same claims.
document.addEventListener("DOMContentLoaded", () => {
  const form = document.querySelector("form.claims-filter");
  if (!form) return;
  const claims = [...document.querySelectorAll("details.claim")];
  const verdict = form.querySelector("#claims-verdict");
  const chapter = form.querySelector("#claims-chapter");
  const words = form.querySelector("#claims-words");
  const fields = { verdict, chapter, words };
  const texts = claims.map((claim) => claim.textContent.toLowerCase());
  const open = form.querySelector("#claims-open");
  const shown = form.querySelector("#claims-shown");

  const visible = () => claims.filter((claim) => !claim.hidden);

  function label() {
    const all = visible();
    open.textContent = all.length && all.every((claim) => claim.open) ? "Close all" : "Open all";
  }

  function filter() {
    const asked = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    claims.forEach((claim, number) => {
      const fits =
        (!verdict.value || claim.dataset.verdict === verdict.value) &&
        (!chapter.value || claim.dataset.chapter === chapter.value) &&
        asked.every((word) => texts[number].includes(word));
      claim.hidden = !fits;
    });
    shown.textContent = `${visible().length} of ${claims.length} claims shown`;
    label();
  }

  function keep() {
    const address = new URL(location.href);
    for (const [name, { value }] of Object.entries(fields)) {
      if (value) address.searchParams.set(name, value);
      else address.searchParams.delete(name);
    }
    if (address.href !== location.href) history.replaceState(history.state, "", address);
  }

  // A link to one claim opens it, whatever the filter says.
  function follow() {
    const claim = location.hash && document.getElementById(location.hash.slice(1));
    if (!claim || !claim.matches("details.claim")) return;
    if (claim.hidden) {
      verdict.value = chapter.value = words.value = "";
      filter();
    }
    claim.open = true;
    claim.scrollIntoView();
  }

  open.addEventListener("click", () => {
    const opening = open.textContent === "Open all";
    for (const claim of visible()) claim.open = opening;
    label();
  });
  for (const claim of claims) claim.addEventListener("toggle", label);
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const field of Object.values(fields)) {
    field.addEventListener("input", () => {
      filter();
      keep();
    });
  }
  window.addEventListener("hashchange", follow);

  // What the address does not say a browser keeps when one comes back to the page.
  const asked = new URLSearchParams(location.search);
  for (const [name, field] of Object.entries(fields)) if (asked.has(name)) field.value = asked.get(name);
  form.hidden = false;
  filter();
  follow();
});
