// Makes the index of the search: node site_search.cjs MINISEARCH TERMS, with the records on standard input.
const [library, words] = process.argv.slice(2);
const MiniSearch = require(library);
const read = (path) => require("fs").readFileSync(path, "utf8");
// The script is a page's: it puts its functions into the window.
const page = {};
new Function("window", read(words))(page);
const index = new MiniSearch(page.terms.OPTIONS);
index.addAll(JSON.parse(read(0)));
process.stdout.write(JSON.stringify(index));
