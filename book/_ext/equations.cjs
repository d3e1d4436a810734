// Reads equations, [[latex, display], ...], and writes each as HTML, with MathML for screen readers.
const katex = require(process.argv[2]);

const equations = JSON.parse(require("fs").readFileSync(0, "utf8"));
const results = equations.map(([latex, displayMode]) => {
  try {
    return { html: katex.renderToString(latex, { displayMode, strict: false }) };
  } catch (error) {
    return { error: error.message };
  }
});
process.stdout.write(JSON.stringify(results));
