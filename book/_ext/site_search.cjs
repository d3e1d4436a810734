// Makes the index of the search, or answers questions with it: node site_search.cjs MINISEARCH TERMS [INDEX].
// Without an index it reads records from standard input and writes one; with one it reads questions, a
// line each, and writes the addresses of the first ten results of each.
const [library, words, made] = process.argv.slice(2);
const MiniSearch = require(library);
const read = (path) => require("fs").readFileSync(path, "utf8");
// The script is a page's: it puts its functions into the window.
const page = {};
new Function("window", read(words))(page);
const { terms } = page;
const input = read(0);
if (made) {
  const load = new Function("searchIndex", `return ${read(made)}`);
  const index = load((json) => MiniSearch.loadJSON(json, terms.OPTIONS));
  const questions = input.split("\n").filter(Boolean);
  const found = questions.map((question) => terms.search(index, question).slice(0, 10).map(({ address }) => address));
  process.stdout.write(JSON.stringify(found));
} else {
  const index = new MiniSearch(terms.OPTIONS);
  index.addAll(JSON.parse(input));
  process.stdout.write(JSON.stringify(index));
}
