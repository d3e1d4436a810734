/* What the theme lacks for long pages. The first two it does by laying out the whole page at once; here
   the browser tells what is on the screen, so that a chapter opens at once on a telephone, too. */

/* What is wider than its box can be scrolled with the arrow keys: it takes the focus. Its edges show
   where it goes on. */
const WIDE = "pre, .pst-scrollable-table-container, .katex-display, .models-box, .cell_output > .output";

/* The edge fades over at most 32 pixels, and over no more than what is hidden: blank margins are not. */
function showEnds(box, { before, after } = hiddenOf(box)) {
  if (!box.classList.toggle("more", before + after > 1)) return;
  const blank = parseFloat(getComputedStyle(box).paddingLeft);
  const fade = (hidden) => `${Math.min(32, Math.max(0, hidden - blank))}px`;
  box.style.setProperty("--before", fade(before));
  box.style.setProperty("--after", fade(after));
  nameColumns(box);
}

/* Above a table that goes on beyond the edge of its box stands which columns follow there. */
function nameColumns(box) {
  const edge = box.getBoundingClientRect().right - 24;
  const heads = [...box.querySelectorAll("thead tr:last-child th")].filter((head) => head.getBoundingClientRect().left > edge);
  const names = heads.map((head) => head.textContent.trim()).filter(Boolean);
  let note = box.previousElementSibling;
  if (!note?.matches(".columns-follow")) {
    if (!names.length) return;
    note = Object.assign(document.createElement("p"), { className: "columns-follow" });
    box.before(note);
  }
  note.textContent = names.length ? `To the right: ${names.join("; ")}` : "";
}

const hiddenOf = (box) => ({
  before: box.scrollLeft,
  after: box.scrollWidth - box.clientWidth - box.scrollLeft,
});

const near = new IntersectionObserver(
  (entries) => {
    const boxes = entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target);
    const hidden = boxes.map(hiddenOf);
    // An equation may be a hair taller than its box.
    const tall = (box) => box.scrollHeight > box.clientHeight && !box.matches(".katex-display");
    const wide = boxes.map((box, index) => hidden[index].before + hidden[index].after > 0 || tall(box));
    boxes.forEach((box, index) => {
      wide[index] ? box.setAttribute("tabindex", "0") : box.removeAttribute("tabindex");
      showEnds(box, hidden[index]);
    });
  },
  { rootMargin: "50%" },
);

/* A chapter has hundreds of such boxes: those of a section are watched once the reader comes near it. */
const ahead = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      ahead.unobserve(target);
      for (const box of [target, ...target.querySelectorAll(WIDE)]) if (box.matches(WIDE)) near.observe(box);
    }
  },
  { rootMargin: "100%" },
);

function watchWide() {
  near.disconnect();
  ahead.disconnect();
  document.querySelectorAll(".bd-article > section > *").forEach((part) => ahead.observe(part));
}

function followScrolling() {
  const scrolled = (event) => event.target.matches?.(WIDE) && showEnds(event.target);
  document.addEventListener("scroll", scrolled, { capture: true, passive: true });
}

/* The page's table of contents marks the section that is being read: the last one to begin in the
   upper two fifths of the window. Where it has too many entries to look through (the build marks it),
   it shows its groups, and the one that is being read opens. */
function followReading() {
  const links = new Map();
  for (const link of document.querySelectorAll(".bd-toc-nav a[href^='#']")) {
    const section = document.getElementById(decodeURIComponent(link.hash.slice(1)));
    if (section) links.set(section, link);
  }
  const seen = new Set();
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) isIntersecting ? seen.add(target) : seen.delete(target);
      const current = [...links.keys()].findLast((section) => seen.has(section));
      if (!current) return;
      for (const [section, link] of links) link.classList.toggle("active", section === current);
      // The theme marks the entries above it.
      window.dispatchEvent(new Event("activate.bs.scrollspy"));
      const link = links.get(current);
      document.querySelectorAll(".bd-toc-nav li").forEach((entry) => entry.classList.toggle("reading", entry.contains(link)));
      keepInSight(link);
    },
    { rootMargin: "0px 0px -60%" },
  );
  links.forEach((link, section) => observer.observe(section));
}

/* The contents scroll by themselves to the entry that is being read, and the page stays where it is. */
function keepInSight(link) {
  const column = link.closest(".bd-sidebar-secondary");
  const [entry, box] = [link.getBoundingClientRect(), column.getBoundingClientRect()];
  if (entry.top < box.top || entry.bottom > Math.min(box.bottom, innerHeight)) {
    column.scrollTop += entry.top - box.top - box.height / 3;
  }
}

/* The list of pages shows the one that is open. */
function showThisPage() {
  const link = document.querySelector(".bd-sidebar-primary .bd-links li.current.active:not(:has(li.current)) > a");
  const box = link?.closest(".sidebar-primary-item");
  if (!box) return;
  const [entry, around] = [link.getBoundingClientRect(), box.getBoundingClientRect()];
  if (entry.bottom > around.bottom || entry.top < around.top) box.scrollTop += entry.top - around.top - around.height / 3;
}

/* Hold a place on the screen while the sections that come near it get their height, until the reader
   moves on. */
let moves = 0;
for (const kind of ["wheel", "touchstart", "keydown", "pointerdown"]) window.addEventListener(kind, () => moves++, { passive: true });

function hold(place) {
  let frames = 0;
  const before = moves;
  const step = () => moves === before && frames++ < 30 && (place(), requestAnimationFrame(step));
  requestAnimationFrame(step);
}

/* Who follows a link to a section finds its heading at the top, also once what is above it has come. Who
   comes from the search finds what they asked for marked there, and what holds it unfolded. */
function arrive() {
  const asked = JSON.parse(sessionStorage.getItem("asked") ?? "{}");
  sessionStorage.removeItem("asked");
  const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (asked.address === location.pathname + location.hash) markWords(place ?? document.querySelector(".bd-article section"), asked.words);
  const [visit] = performance.getEntriesByType("navigation");
  if (!place || visit?.type !== "navigate") return;
  const before = moves;
  const toPlace = () => moves === before && (unfold(place.parentElement), hold(() => place.scrollIntoView()));
  toPlace();
  window.addEventListener("load", toPlace);
}

/* Open what a part of the page is folded into. */
function unfold(part) {
  for (let box = part; box; box = box.parentElement) {
    if (box.localName === "details") box.open = true;
    if (box.matches(".toggle-hidden")) box.querySelector(".toggle-button")?.click();
  }
}

/* Mark words in a section, not in those inside it, which have addresses of their own. */
const IN_SECTION = "section:has(> :is(h1, h2, h3, h4))";

function markWords(section, words) {
  if (!section || !words.length || !window.Highlight) return;
  const spelled = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/ /g, "\\s+")).join("|");
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}])(?:${spelled})(?![\\p{L}\\p{N}])`, "giu");
  const marked = new Highlight();
  const texts = document.createTreeWalker(section, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const box = text.parentElement;
    const around = box.closest(IN_SECTION);
    if (box.closest(".katex, .headerlink, script, style") || (around !== section && section.contains(around))) continue;
    for (const { 0: word, index } of text.data.matchAll(pattern)) {
      const range = document.createRange();
      range.setStart(text, index);
      range.setEnd(text, index + word.length);
      marked.add(range);
      // Code and solutions stay folded.
      if (!box.closest("details.hide, .solution")) unfold(box);
    }
  }
  CSS.highlights.set("asked", marked);
}

/* A link into the page leads to its place, and the page's contents make way for it. */
function followLinks() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href^='#']");
    const target = link && document.getElementById(decodeURIComponent(link.hash.slice(1)));
    if (!target || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const contents = document.getElementById("pst-secondary-sidebar-checkbox");
    if (contents && link.closest(".bd-toc-nav")) contents.checked = false;
    hold(() => target.scrollIntoView());
  });
}

/* Back and reload return to the line that was read. The browser remembers a height on the page, which
   says little while some sections have not been laid out. */
const PLACE = `place ${location.pathname}`;

function rememberPlace() {
  const box = document.elementFromPoint(innerWidth / 2, innerHeight / 3)?.closest(".bd-article [id]");
  if (box) sessionStorage.setItem(PLACE, JSON.stringify([box.id, box.getBoundingClientRect().top]));
}

function returnToPlace() {
  const [visit] = performance.getEntriesByType("navigation");
  const [id, top] = JSON.parse(sessionStorage.getItem(PLACE) ?? "[]");
  const box = id && document.getElementById(id);
  if (!box || !["back_forward", "reload"].includes(visit?.type)) return;
  hold(() => scrollBy(0, box.getBoundingClientRect().top - top));
}

/* Who closes the search, or folds the menu of chapters away, goes on where they were; and on the next
   page the menu is folded, too (the layout sees to it before the page is painted). */
function keepFocus() {
  const search = document.querySelector(".search-button__wrapper");
  let before = null;
  search?.addEventListener("focusin", ({ relatedTarget }) => {
    if (!search.contains(relatedTarget)) before = relatedTarget;
  });
  const closed = () => search.classList.contains("show") || before?.focus({ preventScroll: true });
  if (search) new MutationObserver(closed).observe(search, { attributeFilter: ["class"] });

  const folded = document.getElementById("pst-primary-sidebar-checkbox");
  const button = document.querySelector(".primary-toggle");
  const isColumn = () => matchMedia("(min-width: 992px)").matches;
  document.querySelector(".bd-sidebar-primary")?.addEventListener("focusin", () => {
    if (folded.checked && isColumn()) button.focus();
  });
  button?.addEventListener("click", () => {
    setTimeout(() => isColumn() && localStorage.setItem("menu", folded.checked ? "folded" : "open"));
  });
}

/* The title of a folded solution links to its exercise; following the link is not opening. */
function keepFoldedWhereLinked() {
  document
    .querySelectorAll(".toggle > .admonition-title a")
    .forEach((link) => link.addEventListener("click", (event) => event.stopPropagation()));
}

/* One switch opens all code of a page; who wants code finds it open on the next page, too. */
function showCode() {
  const button = document.querySelector(".code-switch button");
  if (!button) return;
  const set = (shown) => {
    button.setAttribute("aria-pressed", shown);
    document.querySelectorAll("details.hide").forEach((folded) => (folded.open = shown));
  };
  button.addEventListener("click", () => {
    const shown = button.getAttribute("aria-pressed") === "false";
    localStorage.setItem("code", shown ? "shown" : "folded");
    set(shown);
  });
  if (localStorage.getItem("code") === "shown") set(true);
}

/* The search comes when somebody goes to a field, or has asked; the library and the index weigh more than
   a page. */
function prepareSearch() {
  const root = document.documentElement.dataset.content_root ?? "./";
  let coming = null;
  const load = (name) =>
    new Promise((resolve, reject) => {
      const script = Object.assign(document.createElement("script"), { src: `${root}_static/search/${name}.js` });
      script.onload = resolve;
      script.onerror = reject;
      document.head.append(script);
    });
  window.searchIndex = (text) => (window.searchIndexText = text);
  const fetchSearch = () =>
    (coming ??= Promise.all(["minisearch", "terms", "index"].map(load)).then(() => load("search")));
  // Until it is there, a line where the results will be says so.
  const announce = (field) => {
    if (field.form.nextElementSibling?.matches(".search-results")) return field.form.nextElementSibling.firstChild;
    const status = Object.assign(document.createElement("p"), { textContent: "The index is on its way …" });
    status.setAttribute("role", "status");
    const box = Object.assign(document.createElement("div"), { className: "search-results" });
    box.append(status);
    field.form.after(box);
    return status;
  };
  const serve = (field) => {
    const status = announce(field);
    const failed = () => ((coming = null), (status.textContent = "The index could not be fetched. Go to the field again to retry."));
    fetchSearch().then(() => window.serveSearch(field), failed);
  };
  document.addEventListener("focusin", ({ target }) => {
    if (target.matches("form.bd-search input")) serve(target);
  });
  const field = document.querySelector(".bd-search-container input[type=search]");
  if (!field) return;
  field.value = new URLSearchParams(location.search).get("q") ?? "";
  serve(field);
}

/* Paper is white. Fonts for equations that are folded away, or that nobody has scrolled to, would be missing
   there, so a desktop computer fetches those that the page needs when it has nothing else to do. */
const FACES = {
  "AMS normal 400": ".amsrm, .mathbb",
  "Caligraphic normal 400": ".mathcal",
  "Main normal 400": ".katex",
  "Main normal 700": ".mathbf, .textbf, strong .katex",
  "Math italic 400": ".mathnormal",
  "Math italic 700": ".boldsymbol",
  "Size1 normal 400": ".small-op, .delimsizing.size1, .delim-size1",
  "Size2 normal 400": ".large-op, .delimsizing.size2",
  "Size3 normal 400": ".delimsizing.size3",
  "Size4 normal 400": ".delimsizing.size4, .delim-size4",
};

function prepareForPaper() {
  const root = document.documentElement;
  let theme = root.dataset.theme;
  window.addEventListener("beforeprint", () => ((theme = root.dataset.theme), (root.dataset.theme = "light")));
  window.addEventListener("afterprint", () => (root.dataset.theme = theme));
  if (!matchMedia("(hover: hover)").matches || !document.querySelector(".katex")) return;
  const fetchFonts = () =>
    document.fonts.forEach((font) => {
      const weight = { normal: 400, bold: 700 }[font.weight] ?? font.weight;
      const users = FACES[`${font.family.replace(/"|KaTeX_/g, "")} ${font.style} ${weight}`];
      if (users && document.querySelector(users)) font.load();
    });
  window.addEventListener("load", () => (window.requestIdleCallback ?? setTimeout)(fetchFonts));
}

/* A browser loads no modules from a folder, so that the interactive figures stay empty there. */
function sayHowToServe() {
  if (location.protocol !== "file:") return;
  for (const figure of document.querySelectorAll("article *")) {
    if (!figure.localName.startsWith("nt-") || customElements.get(figure.localName)) continue;
    const note = document.createElement("p");
    note.append("You opened this page as a file; the figure needs a server. Run ", Object.assign(document.createElement("code"), { textContent: "make serve" }), " in the book's folder.");
    figure.prepend(note);
  }
}

watchWide();
followScrolling();
followReading();
showThisPage();
followLinks();
arrive();
keepFoldedWhereLinked();
keepFocus();
showCode();
prepareSearch();
prepareForPaper();
window.addEventListener("resize", watchWide);
document.fonts.addEventListener("loadingdone", watchWide);
window.addEventListener("pagehide", rememberPlace);
window.addEventListener("load", returnToPlace);
window.addEventListener("hashchange", () => sessionStorage.getItem("asked") && arrive());
window.addEventListener("load", sayHowToServe);
