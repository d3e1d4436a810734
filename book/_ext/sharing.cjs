// Draws SVGs as PNGs: node sharing.cjs RESVG, with [[svg, width], ...] on standard input; writes them in base64.
const { readFileSync } = require("fs");
const { join } = require("path");
const { initWasm, Resvg } = require(process.argv[2]);
const drawn = ([svg, width]) => new Resvg(svg, { fitTo: { mode: "width", value: width } }).render().asPng();
initWasm(readFileSync(join(process.argv[2], "index_bg.wasm"))).then(() => {
  const svgs = JSON.parse(readFileSync(0, "utf8"));
  process.stdout.write(JSON.stringify(svgs.map((one) => Buffer.from(drawn(one)).toString("base64"))));
});
