/* The search. It comes when a reader goes to a search field, opens the page of results, or has come
   from a result: reading.js loads it then, with the library and the index before it. */
(function () {
  const root = document.documentElement.dataset.content_root ?? "./";
  const index = MiniSearch.loadJSON(window.searchIndexText, window.terms.OPTIONS);
  const SHOWN = 12;

  let texts = null;
  function fetchTexts() {
    texts ??= new Promise((resolve) => {
      window.searchTexts = resolve;
      document.head.append(Object.assign(document.createElement("script"), { src: `${root}_static/search/texts.js` }));
    });
    return texts;
  }

  /* The part of a text that holds most of the words asked for, with these marked. Words that the title
     has already do not count: where it has them all, the text is quoted from its beginning. The second
     line of a text is its code, quoted only where neither the prose nor the title has one of the words. */
  function excerpt(lines, title, asked, length = 180) {
    const [prose, code = ""] = lines.split("\n");
    const says = (one) => window.terms.places(one).some(({ term }) => asked.has(term));
    const text = !says(prose) && !says(title) && says(code) ? code : prose;
    const places = window.terms.places(text).filter(({ term }) => asked.has(term));
    const seen = new Set(window.terms.tokens(title));
    const wanted = places.filter(({ term }) => !seen.has(term));
    let [best, most] = [0, 0];
    wanted.forEach(({ start }) => {
      const inside = wanted.filter((one) => one.start >= start && one.end <= start + length);
      const different = new Set(inside.map((one) => one.term)).size + inside.length / 100;
      if (different > most) [best, most] = [start, different];
    });
    // Not far from the beginning of a sentence, the sentence is quoted whole.
    const end = Math.max(...[". ", "? ", "! "].map((mark) => text.lastIndexOf(mark, best)));
    const sentence = end < 0 ? 0 : end + 2;
    const from = best - sentence <= 100 ? sentence : text.lastIndexOf(" ", best - 30) + 1;
    const part = document.createElement("span");
    part.className = "excerpt";
    let at = from;
    const last = Math.max(from, best - 30) + length;
    const until = text.length > last ? text.lastIndexOf(" ", last) : text.length;
    if (from) part.append("… ");
    for (const { start, end } of places) {
      if (start < at || end > until) continue;
      const mark = document.createElement("mark");
      mark.append(text.slice(start, end));
      part.append(text.slice(at, start), mark);
      at = end;
    }
    part.append(text.slice(at, until), until < text.length ? " …" : "");
    return part;
  }

  function entry({ address, page, title, id, queryTerms }, question, asked) {
    const [path, place] = address.split("#");
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = `${root}${path}?marked=${encodeURIComponent(question)}${place ? `#${place}` : ""}`;
    const heading = document.createElement("strong");
    heading.append(title || page);
    link.append(heading);
    if (page && page !== title) {
      const where = document.createElement("span");
      where.className = "where";
      where.append(page);
      link.append(where);
    }
    fetchTexts().then((all) => link.append(excerpt(all[id], title, asked)));
    item.append(link);
    return item;
  }

  function show(question, list, status, shown) {
    const asked = new Set(window.terms.tokens(question));
    const found = window.terms.search(index, question);
    list.replaceChildren(...found.slice(0, shown).map((one) => entry(one, question, asked)));
    const number = found.length > shown ? `The best ${shown} places` : `${found.length} place${found.length === 1 ? "" : "s"}`;
    status.textContent = !asked.size ? "" : found.length ? `${number}, the best first` : "Nothing was found. Try fewer or other words.";
  }

  /* Beside a field stand its results, in a list of links that the arrow keys walk through. */
  function serve(field, shown) {
    const form = field.form;
    const box = document.createElement("div");
    box.className = "search-results";
    const status = document.createElement("p");
    status.setAttribute("role", "status");
    const list = document.createElement("ol");
    box.append(status, list);
    form.after(box);
    let [wait, answered] = [0, null];
    // Results that stand already stay: one of them may have the focus.
    const update = () => {
      clearTimeout(wait);
      if (field.value === answered) return;
      answered = field.value;
      show(answered, list, status, shown);
    };
    field.addEventListener("input", () => (clearTimeout(wait), (wait = setTimeout(update, 60))));
    form.parentElement.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      update();
      const stops = [field, ...list.querySelectorAll("a")];
      const next = stops[stops.indexOf(document.activeElement) + step];
      if (next) (event.preventDefault(), next.focus());
    });
    update();
  }

  /* From a result the page opens at the paragraph that holds most of the words, and marks them. */
  function markWords() {
    const question = new URLSearchParams(location.search).get("marked");
    if (!question) return;
    const asked = new Set(window.terms.tokens(question));
    const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const part = place?.closest("section, details, dl, .citation") ?? document.querySelector("article.bd-article");
    place?.closest("details")?.setAttribute("open", "");
    const blocks = [...part.querySelectorAll("p, li, td, dd, dt, figcaption, summary, pre")].filter(
      (block) => (part.matches("section") ? block.closest("section[id]:not([id*='-content'])") === part : true) && !block.closest("details:not([open])"),
    );
    let [best, most] = [null, 0];
    const ranges = [];
    for (const block of blocks) {
      const walker = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
      const seen = new Set();
      while (walker.nextNode()) {
        const node = walker.currentNode;
        if (node.parentElement.closest(".katex, .headerlink")) continue;
        for (const { term, start, end } of window.terms.places(node.data)) {
          if (!asked.has(term)) continue;
          seen.add(term);
          const range = new Range();
          range.setStart(node, start);
          range.setEnd(node, end);
          ranges.push(range);
        }
      }
      if (seen.size > most) [best, most] = [block, seen.size];
    }
    if (window.Highlight) CSS.highlights.set("searched", new Highlight(...ranges));
    if (!best) return;
    best.classList.add("found-here");
    const heading = place?.getBoundingClientRect().top ?? 0;
    // A paragraph near its heading is seen together with it.
    if (best.getBoundingClientRect().top - heading > innerHeight * 0.6) window.hold(() => best.scrollIntoView({ block: "center" }));
  }

  window.serveSearch = (field) => {
    if ("served" in field.dataset) return;
    field.dataset.served = "";
    serve(field, field.closest(".bd-search-container") ? 50 : SHOWN);
  };
  markWords();
  const field = document.querySelector(".bd-search-container input[type=search]");
  if (field) {
    field.value = new URLSearchParams(location.search).get("q") ?? "";
    window.serveSearch(field);
    field.focus();
  }
})();
