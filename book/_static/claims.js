// The filter of the claims ledger. Without it all claims are shown and each opens by itself.
document.addEventListener("DOMContentLoaded", () => {
  const form = document.querySelector("form.claims-filter");
  if (!form) return;
  const claims = [...document.querySelectorAll("details.claim")];
  const verdict = form.querySelector("#claims-verdict");
  const chapter = form.querySelector("#claims-chapter");
  const open = form.querySelector("#claims-open");
  const shown = form.querySelector("#claims-shown");

  const visible = () => claims.filter((claim) => !claim.hidden);

  function label() {
    const all = visible();
    open.textContent = all.length && all.every((claim) => claim.open) ? "Close all" : "Open all";
  }

  function filter() {
    for (const claim of claims) {
      const fits =
        (!verdict.value || claim.dataset.verdict === verdict.value) &&
        (!chapter.value || claim.dataset.chapter === chapter.value);
      claim.hidden = !fits;
    }
    shown.textContent = `${visible().length} of ${claims.length} claims shown`;
    label();
  }

  // A link to one claim opens it, whatever the filter says.
  function follow() {
    const claim = location.hash && document.getElementById(location.hash.slice(1));
    if (!claim || !claim.matches("details.claim")) return;
    if (claim.hidden) {
      verdict.value = chapter.value = "";
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
  verdict.addEventListener("change", filter);
  chapter.addEventListener("change", filter);
  window.addEventListener("hashchange", follow);

  // A browser keeps what was chosen when one comes back to the page.
  form.hidden = false;
  filter();
  follow();
});
