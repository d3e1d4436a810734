"""A text that is already on the reader's machine: the prose in the docstrings of the packages.

NumPy, SciPy, scikit-learn, SymPy, PyTorch and Matplotlib explain themselves in English, in their
docstrings and in the texts that they attach to compiled functions, six megabytes in all.
:func:`read` reads those out of the source files of the installed packages, without importing them:

- only prose is kept: no examples, no tables, no signatures, nothing beyond ASCII, lower case;
- no sentence occurs twice, however it is spaced or punctuated;
- a hash of the module's name puts all of a module into training, validation or test (90, 5, 5 %),
  and a held-out sentence that shares a run of 13 words with training is dropped.

The text differs between versions of the packages. A corpus carries the SHA-256 of its text, which
every record of a run on it has. To read it and to learn its pieces takes a minute, so both are kept
on disk.
"""

import ast
import contextlib
import gc
import hashlib
import inspect
import json
import os
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from joblib import Memory
from platformdirs import user_cache_path

from normtutor.data import PAD, Order, Sentence, TokenBatch

Level = Literal["piece", "character"]
Part = tuple[tuple[Sentence, ...], ...]

UNKNOWN, END = 1, 2
SPECIAL = ("<pad>", "<unk>", "<s>")
assert SPECIAL[PAD] == "<pad>"
PIECES = 1024  # tokens of a vocabulary of pieces, the three special ones included
# A word, a number, or marks: a run such as "*****" counts as one.
_WORD = re.compile(r"[^\W\d_]+|\d+|([^\w\s]|_)\1*")
RAREST = 3  # a character that the training part holds less often is unknown


class Vocabulary:
    """The tokens that a model knows, most frequent first after the three special ones.

    0 stands for padding, 1 for a token that is too rare, 2 for the start and end of a sentence.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tuple(tokens)
        self._numbers = {token: number for number, token in enumerate(self.tokens)}

    @classmethod
    def learn(cls, sentences: Sequence[Sequence[str]], min_count: int = 1) -> "Vocabulary":
        """Keep the tokens that occur at least ``min_count`` times, ties in alphabetical order."""
        counts = Counter(token for sentence in sentences for token in sentence)
        kept = sorted((-n, token) for token, n in counts.items() if n >= min_count)
        return cls(SPECIAL + tuple(token for _, token in kept))

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, sentence: Sequence[str]) -> Sentence:
        """Numbers of the tokens, with the sentence mark before and after them."""
        inner = [self._numbers.get(token, UNKNOWN) for token in sentence]
        return np.array([END, *inner, END], dtype=np.int64)

    def decode(self, numbers: Sequence[int]) -> str:
        """The tokens of ``numbers``, joined."""
        return "".join(self.tokens[int(number)] for number in numbers)


class Corpus(NamedTuple):
    """A text in three parts, each a tuple of documents, each a tuple of sentences.

    A document is a module: all of it is in one part, and no sentence is in two. The vocabulary is
    made from ``train`` alone. ``sha256`` identifies the text.
    """

    sha256: str
    vocabulary: Vocabulary
    train: Part
    validation: Part
    test: Part


@lru_cache(maxsize=8)
def load_corpus(*, level: Level = "piece", shortest: int = 4, longest: int = 62) -> Corpus:
    """Cut the docstrings of the installed packages into documents, sentences and tokens.

    Parameters
    ----------
    level : "piece" or "character"
        Pieces of words (byte-pair encoding), learned from the
        training part, or characters.
    shortest, longest : int
        Sentences with fewer words or characters are left out; those with more tokens are cut there.
        With the sentence mark at both ends, the longest input of a model is ``longest + 1`` tokens.

    Raises
    ------
    ModuleNotFoundError
        If none of the packages is installed.
    """
    if level not in ("piece", "character"):
        raise ValueError(f'level must be "piece" or "character"; got {level!r}.')
    if not 1 <= shortest <= longest:
        raise ValueError(
            f"1 <= shortest <= longest must hold; got shortest={shortest} and longest={longest}."
        )
    # joblib notices a change of the function itself; what it calls is part of the key.
    key = (installed(), hashlib.sha256(Path(__file__).read_bytes()).digest())
    digest, tokens, parts = _memory().cache(_cut)(key, level, shortest, longest)
    return Corpus(digest, Vocabulary(tokens), *(_documents(*part) for part in parts))


def _memory() -> Memory:
    """Where results are kept: $NORMTUTOR_CACHE, or the place that the system has for caches."""
    try:
        place = os.environ.get("NORMTUTOR_CACHE") or user_cache_path("normtutor", appauthor=False)
        return Memory(place, verbose=0)
    except OSError:  # nothing can be written here
        return Memory(None)


Key = tuple[str, bytes]


def _text(key: Key) -> dict[str, dict[str, list[str]]]:
    return read()


def _cut(
    key: Key, level: Level, shortest: int, longest: int
) -> tuple[str, tuple[str, ...], list[tuple[np.ndarray, ...]]]:
    """The digest of the text, its tokens, and for each part its numbers and where they are cut."""
    text = _memory().cache(_text)(key)
    measure = _characters if level == "character" else _WORD.findall
    parts = []
    for modules in text.values():
        long = ([s for s in part if len(measure(s)) >= shortest] for part in modules.values())
        parts.append([document for document in long if document])
    tokens_of: Callable[[str], list[str]] = _characters
    rarest = RAREST
    if level == "piece":
        sentences = [sentence for document in parts[0] for sentence in document]
        letters = len({*"".join(sentences)})
        # Each piece was frequent when it was made.
        tokens_of, rarest = Pieces.learn(sentences, PIECES - len(SPECIAL) - letters), 1
    cut = [[[tokens_of(s)[:longest] for s in document] for document in part] for part in parts]
    vocabulary = Vocabulary.learn([s for document in cut[0] for s in document], rarest)
    digest = hashlib.sha256(json.dumps(text, sort_keys=True).encode("utf-8")).hexdigest()
    return digest, vocabulary.tokens, [_flat(part, vocabulary) for part in cut]


def _characters(sentence: str) -> list[str]:
    return list(" ".join(sentence.split()))


def _flat(part: list[list[list[str]]], vocabulary: Vocabulary) -> tuple[np.ndarray, ...]:
    """All numbers, and the lengths of sentences and of documents: quickly kept and read."""
    encoded = [vocabulary.encode(sentence) for document in part for sentence in document]
    lengths = [len(sentence) for sentence in encoded]
    return np.concatenate(encoded), np.array(lengths), np.array([len(d) for d in part])


def _documents(numbers: np.ndarray, sentences: np.ndarray, documents: np.ndarray) -> Part:
    each = np.split(numbers, np.cumsum(sentences)[:-1])
    ends = np.cumsum(documents).tolist()
    return tuple(tuple(each[a:b]) for a, b in zip([0, *ends], ends, strict=False))


def fingerprint(**settings: Any) -> dict[str, str]:
    """What identifies the text; it differs between versions of the packages."""
    return {"text_sha256": load_corpus(**settings).sha256}


# --- the sentences of the packages ----------------------------------------------------------------

#: The packages that are read: name to install -> name to import.
PACKAGES = {
    "numpy": "numpy",
    "scipy": "scipy",
    "scikit-learn": "sklearn",
    "sympy": "sympy",
    "torch": "torch",
    "matplotlib": "matplotlib",
}

# Directories of tests, and of other people's code.
_LEFT_OUT = {
    "tests",
    "test",
    "testing",
    "externals",
    "_vendor",
    "extern",
    "_vendored",
    "third_party",
}
_SHORTEST_LITERAL = 60  # characters
_RUN = 13  # words

# A sentence ends at a mark with white space after it.
_NEITHER_LETTER_NOR_SPACE = re.compile(r"[^A-Za-z ]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|cf|etc|vs|al|fig|eq|no|resp)\.$")


def installed() -> str:
    """The packages that are here, with their versions.

    Raises
    ------
    ModuleNotFoundError
        If there is none.
    """
    found = []
    for name, module in PACKAGES.items():
        if find_spec(module) is not None:
            # The part after + says how it was compiled, which changes no docstring.
            found.append(f"{name} {metadata.version(name).split('+')[0]}")
    if not found:
        raise ModuleNotFoundError(f"none of {', '.join(PACKAGES)} is installed here.")
    return ", ".join(found)


def read() -> dict[str, dict[str, list[str]]]:
    """The sentences by part ("train", "validation", "test") and module; takes half a minute."""
    with _no_search_for_circles():
        return split_by_module(
            (name, literal)
            for package in PACKAGES.values()
            for name, path in _modules(package)
            for literal in _literals(path)
        )


# --- reading --------------------------------------------------------------------------------------


def _modules(package: str) -> Iterator[tuple[str, Path]]:
    """Names and source files of the modules of ``package``, in alphabetical order."""
    spec = find_spec(package)
    for root in map(Path, (spec and spec.submodule_search_locations) or ()):
        for path in sorted(root.rglob("*.py"), key=lambda path: path.relative_to(root).parts):
            parts = path.relative_to(root).with_suffix("").parts
            if not _LEFT_OUT.intersection(parts):
                yield ".".join((package, *parts)).removesuffix(".__init__"), path


@contextlib.contextmanager
def _no_search_for_circles() -> Iterator[None]:
    """Let nothing look for garbage meanwhile: what is read has no circles."""
    searched = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searched:
            gc.enable()


def _literals(path: Path) -> list[str]:
    """The string literals of a source file that run over several lines, in order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about escapes in other people's strings
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            return []
    # What `ast.walk` does, in a fraction of its time.
    found: list[tuple[int, int, str]] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Constant):
            text = node.value
            if isinstance(text, str) and len(text) > _SHORTEST_LITERAL and "\n" in text:
                found.append((node.lineno, node.col_offset, text))
            continue
        if isinstance(node, ast.JoinedStr):  # the words between what it formats are no literals
            waiting += [one for one in node.values if not isinstance(one, ast.Constant)]
            continue
        for child in vars(node).values():
            if isinstance(child, list):
                waiting += [one for one in child if isinstance(one, ast.AST)]
            elif isinstance(child, ast.AST) and not isinstance(child, ast.expr_context):
                waiting.append(child)
    return [text for _, _, text in sorted(found)]


def prose(literal: str) -> Iterator[str]:
    r"""Yield the paragraphs of prose in a docstring, each on one line, in lower case.

    Lines that are indented alike and follow each other belong together. They are prose if they
    begin like a sentence and consist of at least five words, nearly all of them letters.

    >>> text = "Sum of all entries.\n\nx : array\n    What is to be added up, with care.\n\n>>> 1"
    >>> list(prose(text))
    ['what is to be added up, with care.']
    """
    block: list[str] = []
    indent = -1
    example = False
    for line in [*inspect.cleandoc(literal).splitlines(), ""]:
        stripped = line.strip()
        example = bool(stripped) and (example or stripped.startswith((">>>", "In [")))
        here = len(line) - len(line.lstrip())
        if block and (not stripped or example or here != indent or stripped.startswith(("-", "*"))):
            yield from _if_prose(" ".join(block))
            block = []
        if stripped and not example:
            indent = here
            block.append(stripped)


def _if_prose(paragraph: str) -> Iterator[str]:
    text = " ".join(paragraph.lstrip("-* ").split())
    if not text.isascii():
        return
    letters = len(_NEITHER_LETTER_NOR_SPACE.sub("", text))
    words = re.findall(r"[A-Za-z]+", text)
    if (
        len(words) >= 5
        and letters >= 0.85 * len(text)
        and sum(map(len, words)) >= 3 * len(words)
        and re.match(r"[A-Za-z`(\"']", text)
        and not re.search(r"[=<>{}\\|]{2}|::|\.\. ", text)
    ):
        yield text.lower()


def sentences_of(paragraph: str) -> list[str]:
    """Cut a paragraph after full stops, question and exclamation marks.

    >>> sentences_of("take one, e.g. the first. then stop.")
    ['take one, e.g. the first.', 'then stop.']
    """
    found: list[str] = []
    for piece in _SENTENCE_END.split(paragraph):
        if found and _ABBREVIATION.search(found[-1]):
            found[-1] += f" {piece}"
        else:
            found.append(piece)
    return found


# --- splitting ------------------------------------------------------------------------------------


def split_by_module(literals: Iterable[tuple[str, str]]) -> dict[str, dict[str, list[str]]]:
    """Deduplicated sentences by part and module, from pairs of a module's name and a literal."""
    parts: dict[str, dict[str, list[str]]] = {"train": {}, "validation": {}, "test": {}}
    for module, literal in literals:
        sentences = parts[part_of(module)].setdefault(module, [])
        for paragraph in prose(literal):
            sentences += sentences_of(paragraph)
    seen: set[tuple[str, ...]] = set()
    runs: set[int] = set()
    for part, modules in parts.items():
        for module, sentences in modules.items():
            kept = []
            for sentence in sentences:
                words = tuple(re.findall(r"[a-z]+", sentence))
                if len(words) < 3 or words in seen:
                    continue
                # Numbers stand for the runs; two runs share one too rarely to cost a sentence.
                here = {hash(words[i : i + _RUN]) for i in range(len(words) - _RUN + 1)}
                if part == "train":
                    runs |= here
                elif not runs.isdisjoint(here):
                    continue
                seen.add(words)
                kept.append(sentence)
            modules[module] = kept
        parts[part] = {module: kept for module, kept in modules.items() if kept}
    return parts


def part_of(module: str) -> str:
    """The part of a module: its name alone decides, so that no other module can move it."""
    place = int(hashlib.sha256(module.encode("utf-8")).hexdigest(), 16) % 20
    return {18: "validation", 19: "test"}.get(place, "train")


# --- pieces of words ------------------------------------------------------------------------------

# Byte-pair encoding: a vocabulary of a thousand pieces writes any text of the same alphabet, where
# one of a thousand words would leave every fourth word unknown.

# A word, a digit or a run of marks, each with the space before it.
_SPACED = re.compile(r" ?[^\W\d_]+| ?\d| ?(?:[^\w\s]|_)+")


def words_of(sentence: str) -> list[str]:
    """Cut a sentence into words that keep the space before them.

    >>> words_of("see eq. 12")
    [' see', ' eq', '.', ' 1', '2']
    """
    return _SPACED.findall(" " + " ".join(sentence.split()))


class Pieces:
    """A list of merges, learned by :meth:`learn` and applied by calling."""

    def __init__(self, merges: Iterable[Sequence[str]]) -> None:
        self.merges = [(left, right) for left, right in merges]
        self._rank = {pair: rank for rank, pair in enumerate(self.merges)}
        self._known: dict[str, list[str]] = {}

    @classmethod
    def learn(cls, sentences: Iterable[str], merges: int) -> "Pieces":
        """Merge the most frequent pair of neighbours, ``merges`` times; ties in order of letters.

        >>> Pieces.learn(["low lower lowest"], 3).merges
        [('o', 'w'), ('l', 'ow'), (' ', 'low')]
        """
        counts = Counter(word for sentence in sentences for word in words_of(sentence))
        words = [(list(word), count) for word, count in counts.items()]
        pairs: Counter[tuple[str, str]] = Counter()
        where: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        for index, (parts, count) in enumerate(words):
            for pair in pairwise(parts):
                pairs[pair] += count
                where[pair].add(index)
        found = []
        for _ in range(merges):
            if not pairs:
                break
            best, count = max(pairs.items(), key=lambda item: (item[1], item[0]))
            if count < 2:
                break
            found.append(best)
            for index in where.pop(best):
                parts, count = words[index]
                for pair in pairwise(parts):
                    pairs[pair] -= count
                parts = _merged(parts, best)
                words[index] = (parts, count)
                for pair in pairwise(parts):
                    pairs[pair] += count
                    where[pair].add(index)
            pairs = +pairs  # forget what no longer occurs
        return cls(found)

    def __call__(self, sentence: str) -> list[str]:
        """Cut a sentence into pieces; joined, they give it back, with a space before it."""
        return [piece for word in words_of(sentence) for piece in self._word(word)]

    def _word(self, word: str) -> list[str]:
        if word not in self._known:
            parts = list(word)
            while len(parts) > 1:
                first = min(pairwise(parts), key=lambda pair: self._rank.get(pair, len(self._rank)))
                if first not in self._rank:
                    break
                parts = _merged(parts, first)
            self._known[word] = parts
        return self._known[word]


def _merged(parts: list[str], pair: tuple[str, str]) -> list[str]:
    merged: list[str] = []
    for part in parts:
        # What was merged already is longer than the first half, so it cannot be merged again.
        if merged and merged[-1] == pair[0] and part == pair[1]:
            merged[-1] = pair[0] + pair[1]
        else:
            merged.append(part)
    return merged


# --- chunks of equal length, without padding ------------------------------------------------------


def chunk_batches(
    documents: Sequence[Sequence[Sentence]],
    batch_size: int,
    length: int,
    order: Order,
    rng: np.random.Generator,
) -> list[TokenBatch]:
    """One epoch of chunks of exactly ``length`` tokens, without padding, batches in random order.

    ``order`` is ``"shuffled"`` or ``"document"``, as in :func:`normtutor.data.sentence_stream`.
    """
    if order not in ("shuffled", "document"):
        raise ValueError(
            f'order must be "shuffled" or "document", because all chunks are equally long; '
            f"got {order!r}."
        )
    chunks = cut_chunks(documents, length)
    count = _checked_count(chunks, batch_size)
    inputs, targets = map(torch.from_numpy, chunks)
    if order == "document":
        indices = np.roll(np.arange(count), -int(rng.integers(count)))
    else:
        indices = rng.permutation(count)
    starts = rng.permutation(np.arange(0, count - batch_size + 1, batch_size))
    mask = torch.ones(batch_size, length, dtype=torch.bool)
    return [
        TokenBatch(inputs[chosen], targets[chosen], mask)
        for chosen in (torch.from_numpy(indices[s : s + batch_size]) for s in starts)
    ]


def cut_chunks(
    documents: Sequence[Sequence[Sentence]], length: int
) -> tuple[np.ndarray, np.ndarray]:
    """The documents as one stream in chunks of ``length``: inputs and targets, (count, length)."""
    # One sentence mark between sentences, not two.
    stream = np.concatenate([sentence[:-1] for document in documents for sentence in document])
    count = (len(stream) - 1) // length
    return (
        stream[: count * length].reshape(count, length),
        stream[1 : count * length + 1].reshape(count, length),
    )


def _checked_count(chunks: tuple[np.ndarray, np.ndarray], batch_size: int) -> int:
    """How many chunks there are, if a batch may have this size."""
    if not 1 <= batch_size <= (count := len(chunks[0])):
        raise ValueError(
            f"batch_size must lie between 1 and the number of chunks, {count}; got {batch_size}. "
            "Use a smaller batch or a longer text."
        )
    return count


def shuffled_chunks(
    chunks: tuple[np.ndarray, np.ndarray], batch_size: int, rng: np.random.Generator
) -> Iterator[TokenBatch]:
    """Yield batches of what :func:`cut_chunks` made for ever, shuffled anew each epoch."""
    count, (inputs, targets) = _checked_count(chunks, batch_size), map(torch.from_numpy, chunks)
    mask = torch.ones(batch_size, inputs.shape[1], dtype=torch.bool)
    while True:
        order = torch.from_numpy(rng.permutation(count))
        for start in range(0, count - batch_size + 1, batch_size):
            chosen = order[start : start + batch_size]
            yield TokenBatch(inputs[chosen], targets[chosen], mask)
