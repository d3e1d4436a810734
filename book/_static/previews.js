/* Previews: a link to an equation, a theorem, a figure, a work or a name shows it beside the link, where
   the mouse rests or the keyboard has led. The page has it, or another page of the site, which is
   fetched then. Nothing is lost without them: the link leads there. */

const SHOWN = ".math, .proof, .exercise, .citation, figure, dt";
const NOT_COPIED = ".headerlink, .copybtn, .toggle-button, .citation > .label, a:has(.viewcode-link)";

const pages = new Map();

/* The page that a link leads to: this one, or another, fetched once. */
function pageOf(address) {
  const name = address.origin + address.pathname;
  if (name === location.origin + location.pathname) return Promise.resolve(document);
  if (!pages.has(name)) {
    const read = (text) => new DOMParser().parseFromString(text, "text/html");
    pages.set(name, fetch(name).then((answer) => (answer.ok ? answer.text().then(read) : null)));
  }
  return pages.get(name);
}

/* A copy to look at: without names, which are given once in a page. Its links are for the mouse, which
   can go there. */
function copyOf(target, address) {
  const copy = document.createElement("div");
  copy.append(target.cloneNode(true));
  if (target.matches("dt")) copy.append(target.nextElementSibling?.querySelector("p")?.cloneNode(true) ?? "");
  copy.querySelectorAll(NOT_COPIED).forEach((element) => element.remove());
  for (const element of copy.querySelectorAll("*")) {
    for (const name of ["id", "tabindex", "loading", "role"]) element.removeAttribute(name);
    for (const name of ["href", "src"]) {
      if (element.hasAttribute(name)) element[name] = new URL(element.getAttribute(name), address);
    }
    if (element.href) element.tabIndex = -1;
    element.classList.remove("more-before", "more-after");
  }
  return copy;
}

const box = document.createElement("div");
box.className = "preview";
box.popover = "manual";

/* The link whose preview is shown or on its way. */
let current = null;
let waiting = 0;

const isShown = () => box.matches(":popover-open");

function hide() {
  clearTimeout(waiting);
  current = null;
  if (isShown()) box.hidePopover();
}

/* Below the line of the link, or above it where there is more room. */
function place(link, x) {
  const lines = [...link.getClientRects()];
  const line = lines.find(({ left, right }) => left <= x && x <= right) ?? lines[0];
  const above = line.top - 12;
  const below = innerHeight - line.bottom - 12;
  box.style.maxHeight = `${Math.max(above, below)}px`;
  box.showPopover();
  const { width, height } = box.getBoundingClientRect();
  const left = Math.min(Math.max(8, line.left - 16), document.documentElement.clientWidth - width - 8);
  const top = height <= below || below >= above ? line.bottom + 4 : line.top - height - 4;
  Object.assign(box.style, { left: `${left}px`, top: `${top}px` });
}

async function show(link, x) {
  const address = new URL(link.href);
  const page = await pageOf(address).catch(() => null);
  const target = page?.getElementById(decodeURIComponent(address.hash.slice(1)));
  if (!target?.matches(SHOWN)) return;
  const copy = copyOf(target, address);
  // Pictures have a size once they are there.
  await Promise.allSettled([...copy.querySelectorAll("img")].map((picture) => picture.decode()));
  if (link !== current) return;
  box.replaceChildren(copy);
  document.querySelector(".bd-article").append(box);
  place(link, x);
}

function plan(link, delay, x = 0) {
  if (link === current && isShown()) return clearTimeout(waiting);
  hide();
  current = link;
  waiting = setTimeout(() => show(link, x), delay);
}

/* The mouse may go over to the preview, and rest there. */
function leave() {
  clearTimeout(waiting);
  waiting = setTimeout(hide, 250);
}

function linkOf(target) {
  return box.contains(target) ? null : target.closest?.(".bd-article a.internal[href*='#']:not(.headerlink)");
}

function watchLinks() {
  document.addEventListener("pointerover", (event) => {
    if (event.pointerType !== "mouse") return;
    const link = linkOf(event.target);
    if (link) plan(link, 300, event.clientX);
    else if (box.contains(event.target)) clearTimeout(waiting);
    else if (current) leave();
  });
  document.addEventListener("focusin", ({ target }) => {
    const link = target.matches(":focus-visible") && linkOf(target);
    if (link) plan(link, 300);
    else if (!box.contains(target)) hide();
  });
  document.addEventListener("keydown", ({ key }) => key === "Escape" && hide());
  document.addEventListener("click", ({ target }) => box.contains(target) || hide());
  // The page may scroll to bring the link that has the focus into view; that comes before.
  window.addEventListener("scroll", () => isShown() && hide(), { passive: true });
  window.addEventListener("blur", hide);
}

if ("popover" in HTMLElement.prototype && location.protocol !== "file:") watchLinks();
