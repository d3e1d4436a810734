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
    ["instancenorm", "instance norm", "instance normalization", "instance normalisation", "instancenorm[123]d"],
    ["powernorm", "power norm", "power normalization", "power normalisation"],
    ["weightnorm", "weight norm", "weight normalization", "weight normalisation"],
    ["spectralnorm", "spectral norm", "spectral normalization", "spectral normalisation", "sn gan"],
    ["localresponsenorm", "local response norm", "local response normalization", "local response normalisation", "lrn"],
    ["scalenorm", "scale norm"],
    ["syncbatchnorm", "sync batch norm", "sync bn", "syncbn", "batchnormsync", "sync batch normalization", "synchronized batch norm", "synchronized batch normalization", "synchronised batch norm"],
    ["norm", "normalization", "normalisation", "normalize", "normalise", "normalized", "normalised", "normalizing"],
    ["preln", "pre ln", "pre norm", "pre layer norm", "pre layernorm", "pre layer normalization"],
    ["postln", "post ln", "post norm", "post layer norm", "post layernorm", "post layer normalization"],
    ["periln", "peri ln", "sandwich norm"],
    ["qknorm", "qk norm", "query key norm", "qk layernorm"],
    ["torch", "pytorch"],
    ["keras", "tensorflow", "tf"],
    ["jax", "flax"],
    ["float16", "fp16", "half precision", "bf16", "bfloat16", "amp", "autocast", "mixed precision", "low precision"],
    ["float32", "fp32", "single precision", "full precision"],
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
    ["adaln", "adaptive norm", "adaptive layer norm", "adaptive layer normalization", "adaptive instance norm", "adaptive instance normalization", "adain", "film", "conditional norm", "conditional normalization"],
    ["diffusion", "dit"],
    ["speed", "speedup", "speed up", "slow", "slower", "fast", "faster", "latency"],
    ["padding", "pad", "padded", "pads"],
    ["axis", "axes", "dimension", "dimensions", "dim", "dims"],
    ["regularization", "regularisation", "regularize", "regularise", "regularizes", "regularizer"],
    ["text", "nlp", "natural language"],
    ["recompute", "recalibrate", "recalibrated", "recalibration", "re estimate"],
    ["smallest", "minimum", "minimal"],
    ["dropout", "drop out"],
    ["last", "final"],
    ["remove", "drop", "omit", "leave out", "without"],
    ["apply", "put", "place", "insert", "position"],
    ["mask", "masks", "masked", "masking", "attention mask"],
    ["leak", "leaks", "leakage", "leaking"],
    ["covariateshift", "internal covariate shift", "covariate shift", "ics"],
    ["residual", "skip connection", "skip connections"],
    ["batchsize", "batch size", "minibatch", "mini batch", "small batch", "small batches", "small batch size", "small batch sizes", "batch of"],
    ["reinforcement", "rl", "target network", "target networks"],
    ["timeseries", "time series", "revin", "reversible instance norm", "reversible instance normalization", "reversible instance normalisation"],
    ["standardize", "standardise", "standardized", "standardised", "standardizing", "standardization", "standardisation", "z score", "zscore"],
    ["contrastive", "moco", "simclr", "siamese"],
    ["dynamictanh", "dynamic tanh", "dyt"],
    ["initialization", "initialisation", "init", "initial"],
  ];

  const IGNORED = new Set(
    ("a about an and any are as at be been but by can could did do does for from get gets give gives had has have how i if in " +
      "into is it its just like made make me mine my of on one or our should so some such than that the their them then there " +
      "these they this to too us versus vs use used uses using want was we were what when where whether which who why will with would you your " +
      "couldn didn doesn don hasn haven isn ll re s shouldn t ve wasn won wouldn").split(" "),
  );

  const SPELLED = new Set([...IGNORED, ...SAME.flat().flatMap((phrase) => phrase.split(" "))]);
  const termOf = new Map(SAME.flatMap((row) => row.map((one) => [one.replace(/[\s_-]/g, ""), row[0]])));
  // Longer phrases first: "batch norm" before "norm". The digits of BatchNorm2d are spelled in the list.
  const phrases = SAME.flat().sort((one, other) => other.length - one.length);
  const spelled = phrases.map((phrase) => phrase.replace(/ /g, "[\\s_-]?")).join("|");
  const WORD = new RegExp(`(?<![\\p{L}\\p{N}])(?:${spelled})(?![\\p{L}\\p{N}])|[\\p{L}\\p{N}]+`, "gu");

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
    const plain = word.replace(/[\s_-]/g, "").replace(/^(batch|instance)norm[123]d$/, "$1norm");
    return termOf.get(plain) ?? stem(plain);
  });

  /* Where the words of a text stand, those that say nothing too: [{word, term, start, end}, ...]. */
  const words = remembering((text) =>
    Array.from(text.toLowerCase().matchAll(WORD), ({ 0: word, index: start }) => ({ word, term: termFor(word), start, end: start + word.length })),
  );
  const places = (text) => words(text).filter(({ word }) => !IGNORED.has(word));
  const tokens = (text) => places(text).map(({ term }) => term);
  const inFull = (text) => words(text.replace(/^[\d.]+\s/, "")).map(({ term }) => term).join(" ");

  const OPTIONS = {
    fields: ["heading", "above", "asked", "text"],
    storeFields: ["address", "page", "title", "kind", "first"],
    tokenize: tokens,
    processTerm: (term) => term,
  };

  // A question that readers ask answers better than a section, and a section better than all numbers of
  // its runs; the top of a chapter names everything.
  const WEIGHTS = { question: 1.5, guide: 1.4, chapter: 1.15, claim: 0.8, numbers: 0.7, top: 0.55, exercise: 0.4, api: 0.5, work: 0.3 };

  // Set on 571 questions from forums, in words that were new to the index.
  const SEARCH = {
    boost: { heading: 3, above: 1.2, asked: 3 },
    prefix: (term, index, terms) => index === terms.length - 1 && term.length > 2,
    weights: { prefix: 0.4 },
    bm25: { k: 1.2, b: 0.7, d: 0.1 },
    boostDocument: (id, term, { kind }) => WEIGHTS[kind] ?? 1,
  };

  /* What one slip of the finger makes of a word: two letters that changed places; then one that is
     missing, one too many, one that is wrong. */
  function slips(word) {
    const cuts = [...word, ""].map((_, at) => [word.slice(0, at), word.slice(at)]);
    const swapped = cuts.filter(([, { length }]) => length > 1).map(([before, after]) => before + after[1] + after[0] + after.slice(2));
    const letters = [..."abcdefghijklmnopqrstuvwxyz"];
    const others = cuts.flatMap(([before, after]) => [
      before + after.slice(1),
      ...letters.flatMap((letter) => [before + letter + after, before + letter + after.slice(1)]),
    ]);
    return [swapped, others];
  }

  /* A word without digits that stands nowhere is read as the most frequent one that becomes it by a slip, unless it is
     the last, and the beginning of another. */
  function mended(index, question) {
    const count = (word) => (SPELLED.has(word) ? 1e9 : index.search(word).length);
    const best = (words) => words.filter(count).sort((one, other) => count(other) - count(one))[0];
    return question.toLowerCase().replace(/(?<![a-z\d])[a-z]{4,}(?![a-z\d])/g, (word, at) => {
      const begun = at + word.length === question.length && index.search(word, { prefix: true }).length;
      if (begun || count(word)) return word;
      const [swapped, others] = slips(word);
      return best(swapped) ?? best(others) ?? word;
    });
  }

  /* Best first. Sections of just this title, or whose title begins so ("What is RMSNorm" begins "What is
     RMSNorm, and how does it differ from LayerNorm?"), come before all, entries of the reference apart; who
     matches more of the question's words comes before who repeats one of them. */
  function search(index, asked) {
    const question = mended(index, asked);
    const [{ size }, title] = [new Set(tokens(question)), inFull(question)];
    const begins = ([first, ...more]) => more.length > 0 && inFull(first) === title && title.split(" ").length > 2;
    const exact = (one) => one.kind !== "api" && (inFull(one.title) === title || begins(one.title.split(/[,:] | \(/)));
    const score = (one) => one.score * (0.6 + new Set(one.queryTerms).size / size);
    // All words of "What to do" say nothing; a title it is all the same.
    const found = size ? index.search(question, SEARCH) : index.search(index.constructor.wildcard).filter(exact);
    return found
      .map((one) => ({ ...one, exact: exact(one), score: size ? score(one) : 0 }))
      .sort((one, other) => other.exact - one.exact || other.score - one.score);
  }

  window.terms = { tokens, places, mended, search, OPTIONS };
})();
