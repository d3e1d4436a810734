/* Previews: a link to an equation, a theorem, a figure, a work or a name shows it beside the link, where
   the mouse rests or the keyboard has led. The page has it, or another page of the site, which is
   fetched then. Nothing is lost without them: the link leads there. */

const SHOWN = ".math, .proof, .exercise, .citation, figure, dt";
const NOT_COPIED = ".headerlink, .copybtn, .toggle-button, a:has(.viewcode-link)";

const pages = new Map();

/* The page that a link leads to: this one, or another, fetched once. */
function pageOf(address) {
  const name = address.origin + address.pathname;
  if (name === location.origin + location.pathname) return Promise.resolve(document);
  if (!pages.has(name)) {
    const read = (text) => new DOMParser().parseFromString(text, "text/html");
    const found = fetch(name).then((answer) => (answer.ok ? answer.text() : Promise.reject())).then(read);
    found.catch(() => pages.delete(name));
    pages.set(name, found);
  }
  return pages.get(name);
}

/* A name in a list of its own, with the first paragraph of what is said of it. */
function entryOf(target) {
  const [list, said] = ["dl", "dd"].map((name) => document.createElement(name));
  said.append(target.nextElementSibling?.querySelector("p")?.cloneNode(true) ?? "");
  list.append(target.cloneNode(true), said);
  return list;
}

/* A copy to look at: without names, which are given once in a page. Its links are for the mouse, which
   can go there. */
function copyOf(target, address) {
  const copy = document.createElement("div");
  copy.append(target.matches("dt") ? entryOf(target) : target.cloneNode(true));
  // Of a figure's drawings the one for this page's theme.
  const dark = document.documentElement.dataset.theme === "dark";
  copy.querySelectorAll(dark ? "img.only-light" : "img.only-dark").forEach((drawing) => drawing.remove());
  copy.querySelectorAll(NOT_COPIED).forEach((element) => element.remove());
  for (const element of copy.querySelectorAll("*")) {
    for (const name of ["id", "tabindex", "loading", "role"]) element.removeAttribute(name);
    for (const name of ["href", "src", "srcset"]) {
      if (element.hasAttribute(name)) element[name] = new URL(element.getAttribute(name), address);
    }
    if (element.href) element.tabIndex = -1;
    element.classList.remove("more");
  }
  return copy;
}

const box = document.createElement("div");
box.className = "preview";
box.popover = "manual";

/* The link whose preview is shown or on its way, and what is about to happen. */
let current = null;
let opening = 0;
let closing = 0;
/* Where that link stood when its preview was put beside it. */
let placed = 0;

const isShown = () => box.matches(":popover-open");

function hide() {
  clearTimeout(opening);
  clearTimeout(closing);
  current = null;
  if (isShown()) box.hidePopover();
}

/* Below the link, or above it where there is more room. */
function place(link, x) {
  const lines = [...link.getClientRects()];
  const line = lines.find(({ left, right }) => left <= x && x <= right) ?? lines[0];
  placed = lines[0].top;
  const above = lines[0].top - 12;
  const below = innerHeight - lines.at(-1).bottom - 12;
  box.style.setProperty("--room", `${Math.max(above, below)}px`);
  if (!isShown()) box.showPopover();
  const { width, height } = box.getBoundingClientRect();
  const left = Math.min(Math.max(8, line.left - 16), document.documentElement.clientWidth - width - 8);
  const top = height <= below || below >= above ? lines.at(-1).bottom + 4 : lines[0].top - height - 4;
  Object.assign(box.style, { left: `${left}px`, top: `${top}px` });
}

async function show(link, x, stillAsked) {
  const address = new URL(link.href);
  const page = await pageOf(address).catch(() => null);
  const target = page?.getElementById(decodeURIComponent(address.hash.slice(1)));
  if (!target?.matches(SHOWN)) return;
  const copy = copyOf(target, address);
  // Pictures have a size once they are there.
  await Promise.allSettled([...copy.querySelectorAll("img")].map((picture) => picture.decode()));
  // What the page has scrolled by now it says before its next frame.
  await new Promise(requestAnimationFrame);
  if (link !== current || !stillAsked()) return;
  box.replaceChildren(copy);
  document.querySelector(".bd-article").append(box);
  place(link, x);
  // The letters of an equation may come only now, and have another size.
  document.fonts.ready.then(() => link === current && place(link, x));
}

function wait(link, x) {
  clearTimeout(opening);
  const asked = (opening = setTimeout(() => show(link, x, () => asked === opening), 300));
}

function open(link, x) {
  clearTimeout(closing);
  if (link === current) return;
  hide();
  current = link;
  wait(link, x);
}

/* The mouse may go over to the preview, and rest there. */
function close() {
  if (!isShown()) return hide();
  clearTimeout(closing);
  closing = setTimeout(hide, 250);
}

function linkOf(target) {
  const link = box.contains(target) ? null : target.closest?.(".bd-article a.internal[href*='#']");
  return link?.matches(".headerlink, :has(.viewcode-link)") ? null : link;
}

function scrollByKey(event) {
  const way = { ArrowDown: 40, ArrowUp: -40 }[event.key];
  if (!way || !isShown() || box.scrollHeight <= box.clientHeight) return;
  event.preventDefault();
  box.scrollBy(0, way);
}

function watchLinks() {
  let over = null;
  // The mouse moves: a page that is scrolled under it does not count, nor does marking text.
  document.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "mouse" || event.buttons || event.target === over) return;
    over = event.target;
    const link = linkOf(over);
    if (link) open(link, event.clientX);
    else if (box.contains(over)) clearTimeout(closing);
    else if (current) close();
  });
  document.documentElement.addEventListener("pointerleave", close);
  document.addEventListener("focusin", ({ target }) => {
    const link = target.matches(":focus-visible") && linkOf(target);
    if (link) open(link, 0);
    else if (!box.contains(target)) hide();
  });
  document.addEventListener("keydown", (event) => (event.key === "Escape" ? hide() : scrollByKey(event)));
  document.addEventListener("click", ({ target }) => box.contains(target) || hide());
  // The page may scroll to bring the link that has the focus into view, and its sections then get their
  // height: the preview waits for the end of that. A pixel, which a page may move when the preview
  // comes, is no scrolling.
  const moved = () => Math.abs(current.getClientRects()[0].top - placed) > 4;
  const scrolled = () =>
    isShown() ? moved() && hide() : current === document.activeElement && wait(current, 0);
  window.addEventListener("scroll", scrolled, { passive: true });
  window.addEventListener("blur", hide);
}

if ("popover" in HTMLElement.prototype && location.protocol !== "file:") watchLinks();
