// Which norms a model has: choose one, or paste its config.json. What stands where comes from the census, which
// normtutor.norms_of has read from the modules of transformers; nothing that is pasted leaves the page.

import { InteractiveFigure, action, make, oneOf } from "./figure.js";

export const PLACES = {
  in: "start of the branch", out: "end of the branch", stream: "on the stream", q: "queries", k: "keys", v: "values",
  latent: "compressed", inner: "inside", embedding: "after the embedding", final: "after the last layer", beside: "beside",
};
export const OVER = {
  token: "each token", head: "each head", heads: "all heads together", group: "a part of the token",
  tokens: "several tokens or positions", "?": "?",
};
const FIELDS = [["name"], ["place"], ["branch"], ["kind"], ["eps", null], ["over", "?"], ["gamma", ""], ["bias", false],
  ["gate", false], ["half", false], ["dimensions", 0]];
const SECTIONS = {
  in: "07_pre_ln_and_post_ln.html#two-places-for-a-norm", stream: "07_pre_ln_and_post_ln.html#two-places-for-a-norm",
  out: "08_after_2020.html#one-formula-for-all-of-them", parallel: "08_after_2020.html#what-current-models-do",
  q: "08_after_2020.html#qk-norm-a-bound-on-the-logits", latent: "in_depth/08_after_2020.html#latent-attention",
  inner: "in_depth/08_after_2020.html#hybrids-state-space-layers-and-experts-where-their-norms-stand",
  final: "answers/last-norm.html", streams: "in_depth/08_after_2020.html#several-streams",
  RMSNorm: "05_rms_norm.html#rmsnorm-drop-one-statistic", LayerNorm: "02_family_of_norms.html#what-layernorm-forgets",
  eps: "05_rms_norm.html#and-half-precision", half: "09_norms_at_work.html#sec-work-float32",
  gamma: "in_depth/09_norms_at_work.html#sec-work-moving", decay: "09_norms_at_work.html#weight-decay-not-on-and-biases",
  padding: "03_batch_norm_vs_layer_norm.html#padding-a-mask-removes-its-effect",
  read: "in_depth/08_after_2020.html#how-the-table-of-models-was-read",
};
const ALIKE = { k: "q", v: "q", embedding: "final", beside: "inner" };
const SMALLEST_IN_FLOAT16 = 3e-8;

/** ε as the tables write it. */
export function number(value) {
  if (value === null || value === undefined) return "?";
  if (value === 0) return "0";
  const [digits, power] = value.toExponential(6).split("e");
  return `${digits.replace(/\.?0+$/, "")}e${Number(power)}`.replaceAll("-", "\u2212");
}

// --- reading what is pasted -----------------------------------------------------------------------

const DEEPEST = 100; // brackets in one another: a configuration has four or five
const NAME = /^\s*(https?:\/\/\S+|[\w.-]+(\/[\w.-]+)?)\s*$/; // of a model on a hub, or its address

/** A value from JSON as Python writes it; an error says what must stand where. */
export function parse(text) {
  let at = 0;
  const fail = (words) => {
    const before = text.slice(0, at).split("\n");
    const there = at < text.length ? `there stands ${JSON.stringify(text[at])}` : "the text ends";
    throw new SyntaxError(`Line ${before.length}, column ${before.at(-1).length + 1}: ${words}; ${there}.`);
  };
  const space = () => { while (/\s/.test(text[at] ?? "")) at += 1; };
  const expect = (sign, words) => {
    space();
    if (text[at] !== sign) fail(words);
    at += 1;
  };
  const string = () => {
    const found = /^"(?:[^"\\\n]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"/.exec(text.slice(at));
    if (!found) fail('a text must begin and end with "');
    at += found[0].length;
    return JSON.parse(found[0]);
  };
  let depth = 0;
  const list = (end, one) => {
    if (++depth > DEEPEST) fail(`more than ${DEEPEST} lists and objects stand in one another`);
    inside(end, one);
    depth -= 1;
  };
  const inside = (end, one) => {
    at += 1;
    space();
    if (text[at] === end) { at += 1; return; }
    for (;;) {
      one();
      space();
      if (text[at] === end) { at += 1; return; }
      if (text[at] !== ",") fail(`a comma or ${end} must follow`);
      at += 1;
    }
  };
  const value = () => {
    space();
    if (text[at] === "{") {
      const found = {};
      list("}", () => {
        space();
        if (text[at] !== '"') fail("a name in double quotes must follow");
        const name = string();
        expect(":", `a colon must follow the name “${name}”`);
        found[name] = value();
      });
      return found;
    }
    if (text[at] === "[") {
      const found = [];
      list("]", () => found.push(value()));
      return found;
    }
    if (text[at] === '"') return string();
    const word = /^(true|false|null|NaN|-?Infinity|-?\d+(\.\d+)?([eE][+-]?\d+)?)(?![\w.])/.exec(text.slice(at))?.[0];
    if (!word) fail("a value must follow: a text in double quotes, a number, true, false, null, [ or {");
    at += word.length;
    return { true: true, false: false, null: null, NaN, Infinity, "-Infinity": -Infinity }[word] ?? (word === "null" ? null : Number(word));
  };
  space();
  if (NAME.test(text)) throw new SyntaxError("This is a name or an address. Open the model's page, go to its files, and paste the text of config.json.");
  if (text[at] !== "{") fail("a config.json begins with {");
  const found = value();
  space();
  if (at < text.length) fail("nothing may follow the last }");
  return found;
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** Where among its tried values a setting stands; -1 if nobody has tried it. */
function tried(values, value) {
  const exact = values.findIndex((one) => same(one, value));
  const positive = values.filter((one) => typeof one === "number" && one > 0);
  if (exact >= 0 || !(typeof value === "number" && value > 0) || positive.length !== 1) return exact;
  return values.indexOf(positive[0]); // a rank or a width: which one makes no difference
}

function unpacked(row, eps) {
  const norm = Object.fromEntries(FIELDS.map(([name, usual], i) => [name, row[i] ?? usual]));
  norm.key = typeof norm.eps === "string" ? norm.eps : null;
  if (norm.key) norm.eps = eps[norm.key];
  return norm;
}

/**
 * What the census says of a configuration: its norms, or a sentence under `problem`.
 *
 * `unknown` has the names that its class does not know, `untried` what was not tried of those that change norms.
 */
export function resolve(census, config) {
  const outer = config.model_type;
  const text = [config.text_config, config.thinker_config?.text_config, config.llm_config, config.decoder].find((one) => one && typeof one === "object");
  const of = (record, name) => (Object.hasOwn(record, name) ? record[name] : undefined);
  let own = config;
  if (text) own = { model_type: of(census.kinds, outer), dtype: config.dtype ?? config.torch_dtype, ...text };
  else if (of(census.kinds, outer)) own = { ...config, model_type: census.kinds[outer] };
  if (typeof own.model_type !== "string") return { problem: "The configuration has no “model_type”, which says the class." };
  const entry = of(census.decoders, own.model_type);
  if (!entry) {
    const name = [config.architectures].flat()[0];
    const why = of(census.left_out, name) ? ` ${name}: ${census.left_out[name]}.` : "";
    return { problem: `transformers ${census.release} has no decoder of the type “${own.model_type}” that the census could read.${why} It lists language models that write one token after another: no encoders, no encoders with a decoder (T5), no vision models (ViT). In Python, normtutor.norms_of(model) reads any torch model.` };
  }
  const given = {};
  for (const [name, value] of Object.entries(own)) given[of(entry.aliases, name) ?? name] = value;
  const get = (path) => path.split(".").reduce((value, name) => value?.[name], given);
  const untried = [];
  const table = ({ switches, at, tables }) => {
    let index = 0;
    for (const [name, values] of Object.entries(switches)) {
      const value = get(name);
      let which = value === undefined ? 0 : tried(values, value);
      if (which < 0) {
        untried.push(`${name}: ${JSON.stringify(value)}`);
        which = 0;
      }
      index = index * values.length + which;
    }
    return tables[at[index]];
  };
  const found = table(entry.norms);
  const [biases, weights] = table(entry.biases) ?? [[], []];
  if (!found) return { problem: `With these settings ${entry.class} cannot be built: ${Object.keys(entry.norms.switches).join(", ")}.` };
  const eps = {};
  for (const [name, usual] of Object.entries(entry.eps)) {
    eps[name] = typeof given[name] === "number" ? given[name] : usual;
    if (!["number", "undefined"].includes(typeof given[name]) && !(name in entry.norms.switches)) untried.push(`${name}: ${JSON.stringify(given[name])}`);
  }
  const depthName = entry.aliases.num_hidden_layers ?? "num_hidden_layers";
  const depth = given[depthName] ?? entry.depth;
  // Lists that say which kind each layer is; where several could, they must agree.
  const types = Object.entries(entry.types).filter(([list]) => Array.isArray(given[list]))
    .map(([list, kinds]) => [list, given[list].map((name) => of(census.renamed, name) ?? name), kinds]);
  const strange = types.flatMap(([list, names, kinds]) => [...new Set(names.filter((name) => !Object.hasOwn(kinds, name)))].map((name) => `${list}: ${JSON.stringify(name)}`));
  const written = types.filter(([, , kinds]) => !Object.values(kinds).includes(null)).map(([, names, kinds]) => names.map((name) => kinds[name]).join(""));
  const deciding = Object.values(entry.types).filter((kinds) => !Object.values(kinds).includes(null));
  // Other settings that say which layers are of which kind, if they are not the class's.
  const changed = Object.keys(entry.places).filter((name) => given[name] !== undefined && !same(given[name], entry.places[name]));
  strange.push(...changed.filter((name) => entry.unsettled.includes(name)).map((name) => `${name}: ${JSON.stringify(given[name])}`));
  untried.push(...strange);
  let layers = entry.layers;
  const chosen = (entry.chosen ?? []).filter((name) => given[name] === undefined); // by the census, and not by the class
  if (strange.length || chosen.length) layers = null;
  else if (found.blocks.length === 1) layers = "0".repeat(depth ?? 1);
  else if (written.length) layers = written.length === deciding.length && new Set(written).size === 1 ? written[0] : null;
  else if (entry.small || changed.length || types.length || Object.keys(given).some((name) => /layer_types|block_type|pattern/.test(name) && !(name in entry.places))
    || depth !== entry.layers.length || new Set(entry.layers).size !== found.blocks.length) layers = null;
  const blocks = found.blocks.map(([where, steps], i) => ({
    where,
    layers: layers && [...layers].flatMap((one, n) => (one === i.toString(16) ? [n] : [])),
    steps: steps.map(([branches, skip, norms]) => ({ branches, skip, norms: norms.map((row) => unpacked(row, eps)) })),
  }));
  const known = new Set(`${census.common} ${entry.keys}`.split(" "));
  return {
    entry, given, eps, blocks, biases, weights, depth, untried, chosen, streams: (found.streams > 1 && given[entry.streams]) || found.streams, type: own.model_type,
    ends: found.ends.map((row) => unpacked(row, eps)),
    unknown: Object.keys(own).filter((name) => !known.has(name) && !(name in entry.aliases)),
  };
}

/** All norms in the order of the model, each with its block. */
export function normsOf(found) {
  const ends = (...places) => found.ends.filter((norm) => places.includes(norm.place)).map((norm) => ({ norm, block: null }));
  const inside = found.blocks.flatMap((block) => block.steps.flatMap((step) => step.norms.map((norm) => ({ norm, block, step }))));
  return [...ends("embedding"), ...inside, ...ends("final", "beside")];
}

/** A name by which norms of two models are compared: the place, and what kind of sublayer it serves. */
function roles(found) {
  const counted = new Map();
  return normsOf(found).map(({ norm, step, block }) => {
    const kind = step?.branches.filter(([name]) => norm.branch.split(", ").includes(name)).map(([, one]) => one).join("+") ?? "";
    const attends = block?.steps.some((one) => one.branches.some(([, what]) => what === "attention")) ?? true;
    const role = `${norm.place}|${kind.replace("mixer", attends ? "mixer" : "attention")}`;
    const key = `${block ? found.blocks.indexOf(block) : "-"}|${role}`;
    counted.set(key, (counted.get(key) ?? 0) + 1);
    return { norm, role: `${role}|${counted.get(key)}` };
  });
}

const COMPARED = ["kind", "eps", "over", "gamma", "bias"];

/** For each norm of the first model, in which fields it differs from the norms at the same place of the second. */
export function differences(found, other) {
  const theirs = roles(other);
  return new Map(roles(found).map(({ norm, role }) => {
    const counterparts = theirs.filter((one) => one.role === role).map((one) => one.norm);
    if (!counterparts.length) return [norm, ["place"]];
    return [norm, COMPARED.filter((field) => !counterparts.some((one) => one[field] === norm[field]))];
  }));
}

/** What may go wrong with this configuration: sentences, each with the section that explains it. */
export function traps(found, pasted = true) {
  const norms = normsOf(found).map(({ norm }) => norm);
  const list = (some) => [...new Set(some.map((norm) => norm.name))].join(", ");
  const said = [];
  for (const [name, usual] of Object.entries(found.entry.eps)) {
    if (!norms.some((norm) => norm.key === name)) continue;
    if (!(name in found.given) && pasted) said.push([`The file does not set ${name}: the class's ${number(usual)} acts.`, "eps"]);
    if (found.eps[name] !== usual) {
      said.push([`${name} is ${number(found.eps[name])} here and ${number(usual)} in the class: a model built without this file computes something else.`, "eps"]);
    }
  }
  const fixed = norms.filter((norm) => !norm.key && norm.eps !== null);
  if (fixed.length && fixed.length < norms.length) {
    said.push([`ε is ${[...new Set(fixed.map((norm) => number(norm.eps)))].join(" and ")} in ${list(fixed)}, whatever the file says.`, "read"]);
  }
  const dtype = found.given.dtype ?? found.given.torch_dtype;
  const half = norms.filter((norm) => norm.half);
  const lost = half.filter((norm) => norm.eps < SMALLEST_IN_FLOAT16);
  if (half.length) {
    said.push([`In float16, ${list(half)} ${half.length > 1 ? "compute their statistics" : "computes its statistic"} in float16, where the square of 256 is infinite${lost.length ? ` and ε = ${number(lost[0].eps)} is zero` : ""}.`, "half"]);
  } else if (dtype === "float16" || dtype === "bfloat16") {
    said.push([`The weights are ${dtype}. Every norm computes its statistic in float32, where its ε acts as written.`, "half"]);
  }
  const offset = norms.filter((norm) => norm.gamma.startsWith("1+"));
  const plain = norms.filter((norm) => norm.gamma && !norm.gamma.startsWith("1+"));
  if (offset.length) {
    said.push([`γ is stored as its difference from 1 in ${offset.length === norms.filter((norm) => norm.gamma).length ? "every norm that has one" : list(offset)}: add 1 before you copy it into another library's norm.`, "gamma"]);
  }
  if (offset.length || plain.length) {
    const to = [offset.length ? "1 where its difference from 1 is stored" : "", plain.length ? `0${offset.length ? " elsewhere" : ""}` : ""].filter(Boolean).join(" and towards ");
    said.push([`Weight decay would pull γ towards ${to}. Leave γ out of it.`, "decay"]);
  }
  const wide = norms.filter((norm) => norm.dimensions > 1);
  if (wide.length) said.push([`γ of ${list(wide)} has two dimensions: what spares only vectors from weight decay does not spare it.`, "decay"]);
  const pooled = norms.filter((norm) => norm.over === "tokens");
  said.push([pooled.length
    ? `${list(pooled)} shares a statistic between tokens: padding changes what it puts out.`
    : "No norm here shares a statistic between tokens. Padding, its side and other sequences change nothing in them.", "padding"]);
  return said;
}

// --- the drawing: the same boxes as normtutor/anatomy/parts.py -----------------------------------

function box(norm, differs, told = false) {
  const colour = ["RMSNorm", "LayerNorm", "BatchNorm", "GroupNorm", "InstanceNorm"].includes(norm.kind) ? norm.kind.toLowerCase() : "none";
  const fields = differs?.get(norm) ?? [];
  const mark = (field, words) => (words && fields.includes(field) ? make("mark", {}, words) : words);
  const words = [
    mark("eps", `ε ${number(norm.eps)}`), mark("gamma", norm.gamma || "no γ"), mark("bias", norm.bias ? "β" : fields.includes("bias") ? "no β" : ""),
    mark("over", norm.over in { token: 0, "?": 0 } && !fields.includes("over") ? "" : OVER[norm.over]), norm.gate ? "gated" : "",
  ].filter(Boolean).flatMap((one, i) => (i ? [", ", one] : [one]));
  return make("div", {
    class: `norm${fields.includes("place") ? " differs" : ""}`, style: `--kind: var(--norm-${colour})`, "data-place": norm.place, "data-name": norm.name,
  }, told ? `${PLACES[norm.place]}: ` : "", make("b", {}, mark("kind", norm.kind)), " ", ...words,
  fields.includes("place") ? make("mark", {}, ", only here") : "", make("br"), make("code", {}, norm.name));
}

/** The rows of a step from below: columns of norms and of numbers of branches. */
function rowsOf(step) {
  const names = step.branches.map(([name]) => name);
  const level = [];
  for (const [, , reads] of step.branches) level.push(1 + Math.max(-1, ...reads.map((i) => level[i])));
  const owners = new Map(step.norms.map((norm) => [norm, norm.branch.split(", ").map((one) => names.indexOf(one)).filter((i) => i >= 0)]));
  const rows = [];
  for (const n of [...new Set(level)].sort((a, b) => a - b)) {
    const at = names.map((_, i) => i).filter((i) => level[i] === n);
    const here = (norm) => owners.get(norm).filter((i) => level[i] === n);
    const of = (place, beyond) => step.norms.filter((norm) => norm.place === place && here(norm).length
      && !owners.get(norm).some((i) => beyond(level[i])));
    const first = of("in", (l) => l < n);
    const last = of("out", (l) => l > n);
    const shared = (some) => some.filter((norm) => here(norm).length > 1).map((norm) => [[norm]]);
    const alone = (some, i) => some.filter((norm) => here(norm).length === 1 && here(norm)[0] === i);
    rows.push(...shared(first), at.map((i) => [...alone(first, i), i, ...alone(last, i)]), ...shared(last));
  }
  return rows;
}

function drawStep(step, differs) {
  const names = step.branches.map(([name]) => name);
  const sublayer = (i) => {
    const [name, kind] = step.branches[i];
    const inner = step.norms.filter((norm) => !["in", "out"].includes(norm.place) && norm.branch.split(", ")[0] === name);
    const listed = inner.map((norm) => make("li", {}, box(norm, differs, true)));
    return make("div", { class: "layer" }, make("b", {}, kind), " ", make("code", {}, name), ...(inner.length ? [make("ul", {}, ...listed)] : []));
  };
  if (!step.skip && names.length) return [make("li", { class: "on" }, sublayer(0))];
  if (!names.length) {
    const aside = step.norms.some((norm) => norm.place === "beside");
    return step.norms.map((norm) => make("li", { class: aside ? "aside" : "on" }, box(norm, differs, norm.place === "beside")));
  }
  const rows = rowsOf(step);
  const drawn = rows.map((columns) => make("li", { class: `row${columns.length > 1 ? " many" : ""}`, style: `--columns: ${columns.length}` },
    ...columns.map((column) => make("ol", { class: "up cell" },
      ...column.map((one) => make("li", {}, typeof one === "number" ? sublayer(one) : box(one, differs)))))));
  const lost = step.norms.filter((norm) => norm.place !== "beside" && !norm.branch.split(", ").some((one) => names.includes(one)));
  return [make("li", { class: "step", style: `--below: ${rows[0].length}; --above: ${rows.at(-1).length}` },
    make("span", { class: "plus", "aria-hidden": "true" }, "+"),
    make("ol", { class: "up" }, ...drawn, ...lost.map((norm) => make("li", { class: "aside" }, box(norm, differs, true)))))];
}

/** Numbers as spans: 0–2, 5. */
function spans(layers) {
  const has = new Set(layers);
  const ends = layers.filter((n) => !has.has(n + 1));
  return layers.filter((n) => !has.has(n - 1)).map((a, i) => (a < ends[i] ? `${a}–${ends[i]}` : `${a}`)).join(", ");
}

function countOf(block, found) {
  if (found.anyDepth && found.blocks.length === 1) return "every layer";
  if (!block.layers) return `some of ${found.depth ?? "the"} layers; which, the census does not know for this file`;
  const count = `${block.layers.length} ${found.anyDepth ? `of the class's ${found.depth} ` : ""}layer${block.layers.length === 1 ? "" : "s"}`;
  return found.blocks.length > 1 ? `${count}: ${spans(block.layers)}` : count;
}

/** A model, drawn: the stream runs upwards, and branches leave and rejoin it. */
export function draw(found, differs) {
  const ends = (place) => found.ends.filter((norm) => norm.place === place)
    .map((norm) => make("li", { class: place === "beside" ? "aside" : "on" }, box(norm, differs, place === "beside")));
  const blocks = found.blocks.map((block) => make("li", { class: "block" },
    make("p", {}, [block.where.includes(".") && new Set(found.blocks.map((one) => one.where)).size > 1 ? `${block.where}, ` : "", countOf(block, found)].join("")),
    make("ol", { class: "up stream" }, ...block.steps.flatMap((step) => drawStep(step, differs)))));
  return make("div", { class: "na", style: `--streams: ${found.streams}` }, make("ol", { class: "up stream" },
    make("li", { class: "end" }, `embedding, ${found.streams > 1 ? `${found.streams} streams` : "one stream"}`), ...ends("embedding"),
    ...blocks, ...ends("final"), ...ends("beside"), make("li", { class: "end" }, "output")));
}

const link = (words, section) => make("a", { href: SECTIONS[section] }, words);

/** A name that may break after an underscore or a dot. */
const breaking = (name) => name.split(/(?<=[_.])/).flatMap((part, i) => (i ? [make("wbr", {}), part] : [part]));

function table(found, differs, name) {
  const cell = (norm, field, words) => make("td", {}, differs?.get(norm)?.includes(field) ? make("mark", {}, words) : words);
  let last = null;
  const rows = normsOf(found).flatMap(({ norm, block }) => {
    const section = SECTIONS[norm.place] ? norm.place : ALIKE[norm.place];
    const of = block ? countOf(block, found) : "outside of the layers";
    const begins = found.blocks.length > 1 && block !== last ? [make("tr", {}, make("th", { colspan: "6", scope: "rowgroup", class: "group" }, of))] : [];
    last = block;
    const place = make("th", { scope: "row" }, link(PLACES[norm.place], section),
      differs?.get(norm)?.includes("place") ? make("mark", {}, ", only here") : "", make("br"), make("code", {}, ...breaking(norm.name)));
    const kind = SECTIONS[norm.kind] ? link(norm.kind, norm.kind) : norm.kind;
    return [...begins, make("tr", {}, place, cell(norm, "kind", kind), cell(norm, "eps", number(norm.eps)), cell(norm, "over", OVER[norm.over]),
      cell(norm, "gamma", norm.gamma || "none"), cell(norm, "bias", norm.bias ? "yes" : "no"))];
  });
  const heads = ["Place", "Norm", "ε", "Over", "γ", "β"];
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, make("table", {},
    make("thead", {}, make("tr", {}, ...heads.map((word) => make("th", { scope: "col" }, word)))), make("tbody", {}, ...rows)));
}

// --- the figure -----------------------------------------------------------------------------------

const PASTED = "a pasted config.json";

class Inspector extends InteractiveFigure {
  static title = "The inspector";

  static heading = "h2";

  static hint = ["another model, or paste the config.json of your own.",
    "where its norms stand, which ε acts in each, and in what the two models differ."];

  static style = `
    .pair { display: grid; gap: 1rem 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); }
    .pick, label { align-content: start; display: grid; gap: 0.3rem; grid-template-columns: minmax(0, 1fr); }
    [hidden] { display: none; }
    .na { margin-top: 0.75rem; }
    textarea { background: var(--nt-ground); border: 1px solid var(--nt-muted); border-radius: 0.25rem; box-sizing: border-box; color: inherit;
      font: 0.85rem/1.4 ui-monospace, monospace; min-height: 9rem; padding: 0.4rem; width: 100%; }
    h3 { margin-top: 1rem; overflow-wrap: anywhere; }
    ul.said { margin: 0.5rem 0 0; padding-left: 1.2rem; }
    ul.said li { margin-bottom: 0.35rem; }
    table { border-collapse: collapse; font-size: 0.8rem; }
    th, td { border-bottom: 1px solid var(--nt-line); padding: 0.2rem 0.25rem; text-align: left; vertical-align: top; }
    tbody th { font-weight: 400; }
    table code { font-size: 0.75rem; overflow-wrap: break-word; }
    tbody th { width: 45%; }
    tbody th.group { font-weight: 700; padding-top: 0.6rem; }
    a { color: inherit; }
    mark { background: none; color: inherit; font-weight: 700; text-decoration: underline double; text-underline-offset: 2px; }
    .problem { border-left: 4px solid var(--nt-accent); padding-left: 0.6rem; }
    .status { min-height: 0; }
  `;

  build() {
    this.models = ["Gemma 3", "Qwen3 8B"];
    this.texts = ["", ""];
    this.places = [0, 1].map(() => make("div", {}));
    this.pickers = [0, 1].map((i) => this.picker(i));
    const sheet = make("link", { rel: "stylesheet", href: new URL("../drawing.css", import.meta.url).href });
    this.load();
    return [sheet, make("div", { class: "pair" }, ...this.pickers.map((one) => one.element)), this.status, make("div", { class: "pair" }, ...this.places)];
  }

  async load() {
    const fetched = async (name) => (await fetch(new URL(`../${name}`, import.meta.url))).text();
    try {
      const [census, published] = await Promise.all([fetched("census.json"), fetched("published.tsv")]);
      this.census = JSON.parse(census);
      this.published = new Map(published.trim().split("\n").slice(1).map((line) => {
        const [name, , type, settings, place] = line.split("\t");
        return [name, { config: { model_type: type, ...JSON.parse(settings || "{}") }, place }];
      }));
    } catch (error) {
      this.status.textContent = `The census could not be loaded: ${error.message}`;
      return;
    }
    for (const { select } of this.pickers) {
      const names = [...this.published.keys()].sort((a, b) => a.localeCompare(b));
      const group = (label, all) => make("optgroup", { label }, ...all.map(([value, words]) => make("option", { value }, words)));
      select.append(group("Published models", names.map((name) => [name, name])),
        group(`Classes of transformers ${this.census.release}, as they are by default`,
          Object.entries(this.census.decoders).map(([type, { class: name }]) => [type, name]).sort(([, a], [, b]) => a.localeCompare(b))));
    }
    this.update();
    this.setAttribute("drawn", ""); // until then the style sheet keeps its place
  }

  picker(i) {
    const select = make("select", {}, ...(i ? [make("option", { value: "" }, "nothing")] : []), make("option", { value: PASTED }, "paste a config.json …"));
    const area = make("textarea", { spellcheck: "false", placeholder: '{"model_type": "llama", "rms_norm_eps": 1e-05, …}' });
    const paste = make("label", { hidden: true }, "Its config.json; it stays in this page", area);
    select.addEventListener("change", () => {
      this.models[i] = select.value;
      this.update();
      if (select.value === PASTED) area.focus();
    });
    area.addEventListener("input", () => {
      this.texts[i] = area.value;
      this.update();
    });
    const swap = i ? action("swap the two", () => {
      if (!this.models[1]) return;
      this.models.reverse();
      this.texts.reverse();
      this.update();
    }) : "";
    return { select, area, paste, element: make("div", { class: "pick" }, make("label", {}, i ? "Beside it" : "Model", select), paste, swap) };
  }

  /** What is found for one of the two; null for none. */
  found(i) {
    const name = this.models[i];
    if (!name || (name === PASTED && !this.texts[i].trim())) return null;
    try {
      const published = this.published.get(name);
      const config = name === PASTED ? parse(this.texts[i]) : published?.config ?? { model_type: name };
      // Of a published model we have read its norms' settings, and not how many layers it has.
      return Object.assign(resolve(this.census, config), { anyDepth: Boolean(published) });
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      return { problem: error.message };
    }
  }

  update() {
    if (!this.census) return;
    this.pickers.forEach(({ select, area, paste }, i) => {
      select.value = this.models[i];
      paste.hidden = this.models[i] !== PASTED;
      if (area.value !== this.texts[i]) area.value = this.texts[i];
    });
    const both = [0, 1].map((i) => this.found(i));
    const whole = both.every((one) => one && !one.problem);
    both.forEach((one, i) => this.show(i, one, whole ? differences(one, both[1 - i]) : null));
    this.announce(both.map((one, i) => this.inWords(i, one)).filter(Boolean).join(" "));
  }

  inWords(i, found) {
    if (!found) return "";
    const name = this.models[i] === PASTED ? "The pasted model" : this.nameOf(i);
    if (found.problem) return `${name}: ${found.problem}`;
    const norms = normsOf(found).map(({ norm }) => norm);
    const kinds = [...new Set(norms.map((norm) => norm.kind))].join(" and ");
    const places = [...new Set(norms.map((norm) => PLACES[norm.place]))].join(", ");
    return `${name}: ${kinds}; ${places}.`;
  }

  nameOf(i) {
    return this.census.decoders[this.models[i]]?.class ?? this.models[i];
  }

  show(i, found, differs) {
    const name = this.models[i] === PASTED ? "Pasted" : this.nameOf(i);
    if (!found) return this.places[i].replaceChildren();
    if (found.problem) return this.places[i].replaceChildren(make("h3", {}, name), make("p", { class: "problem" }, found.problem));
    const without = found.weights.filter((one) => !found.biases.includes(one));
    const biases = !found.biases.length ? "No matrix in its layers has a bias."
      : !without.length ? "Every matrix in its layers has a bias." : `These matrices have a bias: ${found.biases.join(", ")}.`;
    const { place, config } = this.published.get(this.models[i]) ?? {};
    const settings = Object.entries(config ?? {}).filter(([key]) => key !== "model_type").map(([key, value]) => `${key} ${JSON.stringify(value)}`);
    const notes = [
      place === "" ? `We have read no published configuration of it: this is its class as it is by default${settings.length ? `, with ${settings.join(", ")}` : ""}.` : "",
      found.chosen.length ? `To see all kinds of layers we have set ${found.chosen.join(", ")}.` : "",
      found.untried.length ? `Not drawn, because nobody has tried what it changes: ${found.untried.join("; ")}.` : "",
      found.unknown.length ? `${found.entry.class} of transformers ${this.census.release} does not know: ${found.unknown.join(", ")}.` : "",
    ].filter(Boolean);
    const more = [found.streams > 1 ? link("Several streams", "streams") : "",
      found.blocks.some((block) => block.steps.some((step) => step.branches.some(([, , reads], n) => n && reads.length < n))) ? link("Parallel branches", "parallel") : ""].filter(Boolean);
    this.places[i].replaceChildren(
      make("h3", {}, name), make("p", {}, `Class ${found.entry.class}, type ${found.type}. ${place ? `What it sets was read in ${place}. ` : ""}${biases} `, ...more.flatMap((one, n) => (n ? [", ", one] : [one]))),
      ...notes.map((words) => make("p", { class: "problem" }, words)),
      draw(found, differs), make("h4", {}, "Its norms"), table(found, differs, `Norms of ${name}${i ? ", the model beside" : ""}`),
      make("h4", {}, "What to watch"), make("ul", { class: "said" }, ...traps(found, this.models[i] === PASTED).map(([words, section]) => make("li", {}, `${words} `, link("Why", section)))),
    );
    return undefined;
  }

  parameters() {
    return Object.fromEntries(this.models.map((name, i) => ["ab"[i], name === PASTED ? "" : name]));
  }

  restore({ a, b }) {
    const known = this.census ? [...this.published.keys(), ...Object.keys(this.census.decoders)] : [a, b].filter(Boolean);
    this.models = [oneOf(known, a, this.models[0]), oneOf([...known, ""], b, this.models[1])];
  }
}

customElements.define("nt-inspector", Inspector);
