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
    ["covariateshift", "internal covariate shift", "covariate shift", "covariance shift", "ics"],
    ["residual", "skip connection", "skip connections"],
    ["batchsize", "batch size", "minibatch", "mini batch", "small batch", "small batches", "small batch size", "small batch sizes", "batch of"],
    ["reinforcement", "rl", "target network", "target networks"],
    ["timeseries", "time series", "revin", "reversible instance norm", "reversible instance normalization", "reversible instance normalisation"],
    ["standardize", "standardise", "standardized", "standardised", "standardizing", "standardization", "standardisation", "z score", "zscore"],
    ["contrastive", "moco", "simclr", "siamese"],
    ["dynamictanh", "dynamic tanh", "dyt"],
    ["initialization", "initialisation", "init", "initial"],
  ];

  // Chinese words, each line with the English word first: the table of the page "Notation" is made from these.
  const CHINESE = [
    ["normalization", "归一化", "规范化"],
    ["batch normalization", "批归一化", "批量归一化", "批规范化", "批量规范化", "批标准化", "批次归一化"],
    ["layer normalization", "层归一化", "层规范化", "层标准化"],
    ["RMSNorm", "均方根归一化", "均方根层归一化", "均方根规范化"],
    ["instance normalization", "实例归一化", "实例规范化"],
    ["group normalization", "组归一化", "分组归一化"],
    ["weight normalization", "权重归一化"],
    ["spectral normalization", "谱归一化"],
    ["synchronized batch normalization", "同步批归一化", "同步批量归一化"],
    ["adaptive layer normalization", "自适应层归一化"],
    ["Pre-LN", "前置归一化", "前置层归一化", "前归一化"],
    ["Post-LN", "后置归一化", "后置层归一化", "后归一化"],
    ["internal covariate shift", "内部协变量偏移", "内部协变量漂移"],
    ["residual connection", "残差连接", "跳跃连接"],
    ["residual network", "残差网络"],
    ["standardization", "标准化"],
    ["whitening", "白化"],
    ["mean", "均值", "平均值"],
    ["variance", "方差"],
    ["standard deviation", "标准差"],
    ["root mean square", "均方根"],
    ["running average", "移动平均", "滑动平均"],
    ["batch", "批量", "批次"],
    ["batch size", "批量大小", "批次大小", "批大小"],
    ["mini-batch", "小批量"],
    ["padding", "填充"],
    ["mask", "掩码"],
    ["token", "词元"],
    ["sequence", "序列"],
    ["channel", "通道"],
    ["feature", "特征"],
    ["image", "图像", "图片"],
    ["attention", "注意力", "注意力机制"],
    ["embedding", "嵌入", "词嵌入"],
    ["gradient", "梯度"],
    ["backward pass", "反向传播"],
    ["vanishing gradient", "梯度消失"],
    ["exploding gradient", "梯度爆炸"],
    ["gradient accumulation", "梯度累积", "梯度累加"],
    ["learning rate", "学习率"],
    ["warm-up", "预热", "学习率预热"],
    ["weight decay", "权重衰减"],
    ["initialization", "初始化"],
    ["loss", "损失", "损失函数"],
    ["invariance", "不变性"],
    ["affine map", "仿射变换"],
    ["bias", "偏置"],
    ["regularization", "正则化"],
    ["overfitting", "过拟合"],
    ["dropout", "暂退法", "丢弃法"],
    ["activation function", "激活函数"],
    ["training", "训练"],
    ["inference", "推理", "推断"],
    ["fine-tuning", "微调"],
    ["freeze", "冻结"],
    ["mixed precision", "混合精度"],
    ["quantization", "量化"],
    ["convolutional network", "卷积神经网络", "卷积网络"],
    ["recurrent network", "循环神经网络", "循环网络"],
    ["reinforcement learning", "强化学习"],
    ["style transfer", "风格迁移"],
  ];
  // What a question in Chinese has besides; the last line says nothing.
  const ASKING = [
    ["why", "为什么", "为何"],
    ["what is", "什么是", "是什么"],
    ["how", "怎么", "怎样", "如何"],
    ["difference", "区别", "差别"],
    ["formula", "公式"],
    ["before", "之前"],
    ["after", "之后"],
    ["remove", "去掉"],
    ["from scratch", "从零实现"],
    ["", "用", "使用", "的", "了", "吗", "呢", "和", "与", "而", "不", "是", "在", "要", "有", "中", "里", "时", "需要", "可以", "为", "会"],
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

  /* A question in Chinese, word by word in English. Chinese has no spaces: at each place stands the longest word
     that is known. */
  const english = new Map([...CHINESE, ...ASKING].flatMap(([name, ...chinese]) => chinese.map((one) => [one, name])));
  const KNOWN = new RegExp([...english.keys()].sort((one, other) => other.length - one.length).join("|"), "g");
  function inEnglish(question) {
    if (!/\p{Script=Han}/u.test(question)) return question;
    return question.replace(KNOWN, (word) => ` ${english.get(word)} `).replace(/[\s，。？！、]+/g, " ").trim();
  }

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
    return inEnglish(question).toLowerCase().replace(/(?<![a-z\d])[a-z]{4,}(?![a-z\d])/g, (word, at) => {
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
