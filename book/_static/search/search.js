/* The search. It comes when a reader goes to a search field, or opens the page of results: reading.js
   loads it then, with the library and the index before it. */
(function () {
  const root = document.documentElement.dataset.content_root ?? "./";
  const { terms } = window;
  const index = MiniSearch.loadJSON(window.searchIndexText, terms.OPTIONS);
  // A group has the kinds of its line; what has no other is of a chapter. Of each the field shows the best.
  const GROUPS = { question: "Answers", claim: "Claims", api: "Reference", work: "Reference" };
  const SHOWN = 4;
  // For those who have asked nothing yet, or found nothing.
  const BEGINNINGS = {
    "questions.html": "Questions people ask",
    "which_norm.html": "Which norm should I use?",
    "09_norms_at_work.html#from-the-symptom-to-the-cause": "From the symptom to the cause",
    "fifteen_minutes.html": "Normalization in fifteen minutes",
  };

  let texts = null;
  function fetchTexts() {
    texts ??= new Promise((resolve) => {
      window.searchTexts = resolve;
      document.head.append(Object.assign(document.createElement("script"), { src: `${root}_static/search/texts.js` }));
    });
    return texts;
  }

  function made(tag, className, ...content) {
    const element = Object.assign(document.createElement(tag), { className });
    element.append(...content);
    return element;
  }

  function entry(address, title, ...more) {
    const link = made("a", "", made("strong", "", title), ...more);
    link.href = root + address;
    return made("li", "", link);
  }

  /* The sentence of a text that holds most of the words asked for, and on from there; of a long one, its
     part. Words of the title do not count: where it has them all, the text is quoted from its beginning;
     so are answers and claims, whose first sentence is the answer.
     The second line of a text is its code, quoted only where neither the prose nor the title has one. */
  const LENGTH = 180;
  function quoted({ title, kind }, text, asked) {
    const found = (part) => terms.places(part).filter(({ term }) => asked.has(term));
    const [prose, code = ""] = text.split("\n");
    const source = found(title + prose).length || !found(code).length ? prose : code;
    const named = new Set(terms.tokens(title));
    const inOrder = ["question", "claim"].includes(kind) && source === prose;
    const wanted = (part) => (inOrder ? [] : found(part).filter(({ term }) => !named.has(term)));
    const different = (part) => new Set(wanted(part).map(({ term }) => term)).size;
    const sentences = source.split(/(?<=[.?!]) /);
    const most = Math.max(...sentences.map(different));
    const first = sentences.findIndex((one) => different(one) === most);
    const whole = sentences.slice(first).join(" ");
    const at = most ? wanted(whole)[0].start : 0;
    const from = at > LENGTH - 40 ? whole.lastIndexOf(" ", at - 40) + 1 : 0;
    return [first || from ? "… " : "", whole.slice(from)];
  }

  function excerpt([before, text], asked) {
    const end = text.length > LENGTH ? text.lastIndexOf(" ", LENGTH) : text.length;
    const parts = [before];
    let at = 0;
    for (const one of terms.places(text.slice(0, end)).filter(({ term }) => asked.has(term))) {
      parts.push(text.slice(at, one.start), made("mark", "", text.slice(one.start, one.end)));
      at = one.end;
    }
    return made("span", "excerpt", ...parts, text.slice(at, end), end < text.length ? " …" : "");
  }

  /* The words of a section that were asked for, as they are written there: reading.js marks them. */
  function written(text, asked) {
    const lower = text.toLowerCase();
    return [...new Set(terms.places(text).filter(({ term }) => asked.has(term)).map(({ start, end }) => lower.slice(start, end)))];
  }

  function result(one, asked) {
    const { address, page, title, id, first } = one;
    const item = entry(address, title || page, page && page !== title ? made("span", "where", page) : "");
    const link = item.firstChild;
    let words = written(`${title} ${first}`, asked);
    link.append(excerpt(["", first], asked));
    link.addEventListener("click", () => {
      sessionStorage.setItem("asked", JSON.stringify({ address: link.pathname + link.hash, words }));
    });
    fetchTexts().then((all) => {
      words = written(`${title} ${all[id]}`, asked);
      link.lastChild.replaceWith(excerpt(quoted(one, all[id], asked), asked));
    });
    return item;
  }

  /* The best of each group; the group with the best of all comes first. */
  function grouped(found, shown) {
    const groups = new Map();
    for (const one of found) {
      const name = GROUPS[one.kind] ?? "Chapters";
      const group = groups.get(name) ?? groups.set(name, []).get(name);
      if (group.length < shown) group.push(one);
    }
    return groups;
  }

  function listed(name, entries) {
    const list = made("ol", "", ...entries);
    if (!name) return [list];
    list.setAttribute("aria-label", name);
    return [made("p", "group", name), list];
  }

  function show(question, box, status, shown) {
    const read = terms.mended(index, question);
    const asked = new Set(terms.tokens(read));
    const found = terms.search(index, question);
    const groups = grouped(found, shown);
    const begin = () => listed("", Object.entries(BEGINNINGS).map(([address, title]) => entry(`book/${address}`, title)));
    const lists = [...groups].flatMap(([name, best]) => listed(name, best.map((one) => result(one, asked))));
    box.replaceChildren(...(found.length ? lists : begin()));
    const best = [...groups.values()].flat().length;
    const number = found.length > best ? `The best ${best} places` : `${found.length} place${found.length === 1 ? "" : "s"}`;
    const meant = read === question.toLowerCase() ? "" : ` for “${read}”`;
    status.textContent = found.length ? `${number}${meant}, the best first` : question.trim() ? "Nothing was found. Try other words, or begin here:" : "Ask in your own words, or begin here:";
  }

  /* Below a field stand its results, in lists of links that the arrow keys walk through. */
  window.serveSearch = (field) => {
    if ("served" in field.dataset) return;
    field.dataset.served = "";
    // reading.js has put them there: the box of results, and the line that says how many.
    const box = field.form.nextElementSibling;
    const status = box.querySelector("[role=status]");
    const list = made("div", "");
    box.append(list);
    let [wait, answered] = [0, null];
    // Results that stand already stay: one of them may have the focus.
    const update = () => {
      clearTimeout(wait);
      if (field.value === answered) return;
      answered = field.value;
      show(answered, list, status, field.closest(".bd-search-container") ? 5 * SHOWN : SHOWN);
    };
    field.addEventListener("input", () => (clearTimeout(wait), (wait = setTimeout(update, 60))));
    field.form.parentElement.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      update();
      const stops = [field, ...list.querySelectorAll("a")];
      const next = stops[stops.indexOf(document.activeElement) + step];
      if (next) (event.preventDefault(), next.focus());
    });
    update();
  };

  const field = document.querySelector(".bd-search-container input[type=search]");
  if (field) {
    window.serveSearch(field);
    field.focus();
  }
})();
