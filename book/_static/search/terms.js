/* The words of the search. A text and a question are cut into the same terms: in lower case, without
   endings, and with one name for what has several, so that "batch norm", "BatchNorm2d" and "BN" meet.
   The index is made with this file when the site is built, and a reader's question is read with it. */
(function () {
  // In each line everything means the same; the first is the term. A space may be a hyphen, an
  // underscore, or nothing.
  const SAME = [
    ["batchnorm", "batch norm", "batch normalization", "batch normalisation", "batchnorm[123]d", "bn"],
    ["layernorm", "layer norm", "layer normalization", "layer normalisation", "ln"],
    ["rmsnorm", "rms norm", "root mean square norm", "root mean square layer normalization"],
    ["groupnorm", "group norm", "group normalization", "group normalisation", "gn"],
    ["instancenorm", "instance norm", "instance normalization", "instancenorm[123]d"],
    ["powernorm", "power norm", "power normalization"],
    ["weightnorm", "weight norm", "weight normalization"],
    ["spectralnorm", "spectral norm", "spectral normalization"],
    ["scalenorm", "scale norm"],
    ["syncbatchnorm", "sync batch norm", "sync bn", "synchronized batch norm", "synchronised batch norm"],
    ["norm", "normalization", "normalisation", "normalize", "normalise", "normalized", "normalised", "normalizing"],
    ["preln", "pre ln", "pre norm", "pre layer norm", "pre layernorm", "pre layer normalization"],
    ["postln", "post ln", "post norm", "post layer norm", "post layernorm", "post layer normalization"],
    ["periln", "peri ln", "sandwich norm"],
    ["qknorm", "qk norm", "query key norm", "qk layernorm"],
    ["torch", "pytorch"],
    ["keras", "tensorflow", "tf"],
    ["jax", "flax"],
    ["float16", "fp16", "half precision", "half", "bf16", "bfloat16", "amp", "autocast", "mixed precision", "low precision"],
    ["int8", "quantization", "quantisation", "quantize", "quantized"],
    ["rnn", "lstm", "gru", "recurrent"],
    ["distributed", "ddp", "fsdp", "data parallel", "dataparallel", "multi gpu", "multiple gpus", "several devices", "two devices"],
    ["evaluation", "eval", "evaluate", "inference", "test time", "validation"],
    ["training", "train", "trained", "trains"],
    ["freeze", "frozen", "freezing", "requires grad"],
    ["finetune", "fine tune", "fine tuning", "fine tuned", "finetuning", "transfer learning"],
    ["runningstatistics", "running stats", "running statistics", "running mean", "running var", "running variance", "running average", "moving average", "moving mean", "moving variance"],
    ["learningrate", "learning rate", "lr", "step size"],
    ["weightdecay", "weight decay", "l2 regularization", "no decay"],
    ["warmup", "warm up"],
    ["epsilon", "eps", "ε"],
    ["gamma", "γ"],
    ["beta", "β"],
    ["nan", "inf", "infinity", "infinite", "nans"],
    ["convolution", "conv", "cnn", "convnet", "conv2d", "convolutional"],
    ["channelsfirst", "nchw", "nhwc", "channels last", "channels first", "channel last"],
    ["accumulation", "accumulate", "gradient accumulation", "grad accumulation", "accumulating"],
    ["checkpointing", "gradient checkpointing", "activation checkpointing"],
    ["onnx", "export", "exported", "exporting"],
    ["adaln", "adaptive layer norm", "adain", "film", "conditional norm", "conditional normalization"],
    ["diffusion", "dit"],
    ["speed", "slow", "slower", "fast", "faster", "latency"],
    ["padding", "pad", "padded", "pads"],
    ["axis", "axes", "dimension", "dimensions", "dim", "dims"],
    ["regularization", "regularisation", "regularize", "regularise", "regularizes", "regularizer"],
    ["text", "nlp", "natural language"],
    ["recompute", "recalibrate", "recalibrated", "recalibration", "re estimate"],
    ["smallest", "minimum", "minimal"],
    ["last", "final"],
    ["mask", "masks", "masked", "masking", "attention mask"],
    ["leak", "leaks", "leakage", "leaking"],
    ["covariateshift", "internal covariate shift", "covariate shift", "ics"],
    ["residual", "skip connection", "skip connections"],
    ["batchsize", "batch size", "minibatch", "mini batch", "small batch", "small batches", "batch of"],
    ["reinforcement", "rl", "target network", "target networks"],
    ["timeseries", "time series", "revin"],
    ["contrastive", "moco", "simclr", "siamese"],
    ["dynamictanh", "dynamic tanh", "dyt"],
    ["initialization", "initialisation", "init", "initial"],
  ];

  const IGNORED = new Set(
    ("a about an and any are as at be been but by can could did do does for from get gets give gives had has have how i if in " +
      "into is it its just like made make me mine my of on one or our should so some such than that the their them then there " +
      "these they this to too us versus vs use used uses using want was we were what when where whether which who why will with would you your").split(" "),
  );

  const spelled = (phrase) => phrase.replace(/ /g, "[\\s_-]?");
  const termOf = new Map();
  for (const [term, ...others] of SAME) for (const other of [term, ...others]) termOf.set(other.replace(/[\s_-]/g, ""), term);
  // Longer phrases first: "batch norm" before "norm". The digits of BatchNorm2d are spelled in the list.
  const phrases = SAME.flat().sort((one, other) => other.length - one.length);
  const WORD = new RegExp(`(?<![\\p{L}\\p{N}])(?:${phrases.map(spelled).join("|")})(?![\\p{L}\\p{N}])|[\\p{L}\\p{N}]+`, "gu");

  function stem(word) {
    if (word.length < 5 || /\d/.test(word)) return word;
    return word
      .replace(/(?:ies)$/, "y")
      .replace(/([^s])s$/, "$1")
      .replace(/(?:ing|edly|ed|ly)$/, (ending) => (word.length - ending.length > 3 ? "" : ending))
      .replace(/([^aeiouls])\1$/, "$1")
      .replace(/e$/, "");
  }

  /* What a function of a string has answered, it answers at once: texts share their words, and a reader
     who types sees the same texts again. */
  function remembering(answer) {
    const answers = new Map();
    return (text) => {
      if (!answers.has(text)) answers.set(text, answer(text));
      return answers.get(text);
    };
  }

  const termFor = remembering((word) => {
    const plain = word.replace(/[\s_-]/g, "");
    if (termOf.has(plain)) return termOf.get(plain);
    if (/^(batch|instance)norm[123]d$/.test(plain)) return plain.replace(/[123]d$/, "");
    return stem(plain);
  });

  /* Where the terms of a text stand: [{term, start, end}, ...]. */
  const places = remembering((text) => {
    const found = [];
    for (const match of text.toLowerCase().matchAll(WORD)) {
      if (!IGNORED.has(match[0])) found.push({ term: termFor(match[0]), start: match.index, end: match.index + match[0].length });
    }
    return found;
  });

  const tokens = (text) => places(text).map((one) => one.term);

  const OPTIONS = {
    fields: ["heading", "above", "text"],
    storeFields: ["address", "page", "title", "kind"],
    tokenize: tokens,
    processTerm: (term) => term,
  };

  // A question that readers ask answers better than a section, and a section better than all numbers of
  // its runs; the top of a chapter names everything.
  const WEIGHTS = { question: 1.5, guide: 1.4, chapter: 1.15, depth: 1, claim: 0.8, numbers: 0.7, top: 0.55, exercise: 0.4, api: 0.5, work: 0.3 };

  const SEARCH = {
    combineWith: "OR",
    boost: { heading: 3, above: 1.2, text: 1 },
    fuzzy: (term) => (term.length > 5 ? 0.2 : false),
    prefix: (term, index, terms) => index === terms.length - 1 && term.length > 2,
    weights: { fuzzy: 0.3, prefix: 0.4 },
    boostDocument: (id, term, { kind }) => WEIGHTS[kind] ?? 1,
  };

  /* Best first; who matches more of the question's words comes before who repeats one of them. */
  function search(index, question) {
    const asked = new Set(tokens(question));
    if (!asked.size) return [];
    return index
      .search(question, SEARCH)
      .map((result) => {
        const covered = new Set(result.queryTerms).size / asked.size;
        return { ...result, score: result.score * (0.25 + covered) };
      })
      .sort((one, other) => other.score - one.score);
  }

  window.terms = { tokens, places, search, OPTIONS };
})();
