r"""Seeded data. Nothing is downloaded.

- :func:`load_digits`: 1797 images of handwritten digits, 8 by 8, that scikit-learn ships.
- :func:`load_corpus`: the prose in the docstrings of installed packages
  (:mod:`normtutor.package_text`), or any UTF-8 text file, cut into documents, sentences and tokens.
- :func:`sentence_stream` and :func:`chunk_batches`: the same corpus as padded sentences with a
  mask, or as chunks of equal length without padding; in shuffled order, in the order of the
  documents, or grouped by length.
- :func:`correlated_tokens`: synthetic tokens with a chosen correlation inside each sequence.

The text differs between versions of the packages. A corpus therefore carries the SHA-256 of its
text, which every saved result records, and a note where the text is not the book's. All tensors
are on torch's default device.
"""

import base64
import hashlib
import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from normtutor.package_text import PackageText, kept, package_text
from normtutor.pieces import Pieces

Level = Literal["piece", "word", "character"]
Order = Literal["shuffled", "document", "length"]
Batch = TypeVar("Batch")
Sentence = np.ndarray  # token numbers, shape (number of tokens,), int64

PAD, UNKNOWN, END = 0, 1, 2
SPECIAL = ("<pad>", "<unk>", "<s>")

# A word, a number, or one punctuation mark; a run such as "*****" counts as one mark.
_WORD = re.compile(r"[^\W\d_]+|\d+|([^\w\s]|_)\1*")
_SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+|\n\s*\n")


def _tensor(array: np.ndarray) -> Tensor:
    """``array`` as a tensor on torch's default device, where a model just built stands too."""
    return torch.from_numpy(array).to(torch.get_default_device())


# --- images ---------------------------------------------------------------------------------------


class Split(NamedTuple):
    """Images and their labels."""

    images: Tensor  # (N, 1, 8, 8), float32
    labels: Tensor  # (N,), int64


class Digits(NamedTuple):
    """Handwritten digits: data to train on, to choose settings on, and to report on."""

    train: Split
    validation: Split
    test: Split


@lru_cache(maxsize=1)
def _digits_of_sklearn() -> tuple[np.ndarray, np.ndarray]:
    """The file, read once in a process."""
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)


def load_digits(*, split_seed: int = 0) -> Digits:
    """Load scikit-learn's digits as images, split 1197/300/300 with equal shares of each class.

    Pixels are standardised by the mean and the standard deviation of the training images: one
    number each, so that the picture itself is not changed.
    """
    from sklearn.model_selection import train_test_split

    images, labels = _digits_of_sklearn()
    rest, test, rest_labels, test_labels = train_test_split(
        images, labels, test_size=300, stratify=labels, random_state=split_seed
    )
    train, validation, train_labels, validation_labels = train_test_split(
        rest, rest_labels, test_size=300, stratify=rest_labels, random_state=split_seed
    )
    mean, std = train.mean(), train.std()

    def part(pixels: np.ndarray, targets: np.ndarray) -> Split:
        standardised = ((pixels - mean) / std).reshape(-1, 1, 8, 8)
        return Split(_tensor(standardised.astype(np.float32)), _tensor(targets.astype(np.int64)))

    return Digits(
        part(train, train_labels), part(validation, validation_labels), part(test, test_labels)
    )


def image_batches(
    split: Split, batch_size: int, rng: np.random.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield shuffled batches for ever, each of exactly ``batch_size`` images, epoch after epoch.

    The images left over at the end of an epoch are skipped until the next shuffle: a last batch of
    one image would have its own, very noisy, batch statistics.
    """
    count = len(split.labels)
    if not 1 <= batch_size <= count:
        raise ValueError(
            f"batch_size must lie between 1 and the number of images, {count}; got {batch_size}."
        )
    while True:
        order = _tensor(rng.permutation(count))
        for start in range(0, count - batch_size + 1, batch_size):
            chosen = order[start : start + batch_size]
            yield split.images[chosen], split.labels[chosen]


# --- text -----------------------------------------------------------------------------------------


class Vocabulary:
    """The tokens that a model knows, most frequent first after the three special ones.

    0 stands for padding, 1 for a token that is too rare, 2 for the start and end of a sentence.
    """

    def __init__(
        self, sentences: Sequence[Sequence[str]], *, min_count: int = 1, separator: str = " "
    ) -> None:
        """Keep the tokens that occur at least ``min_count`` times, ties in alphabetical order."""
        counts = Counter(token for sentence in sentences for token in sentence)
        kept = sorted((-n, token) for token, n in counts.items() if n >= min_count)
        self._hold(SPECIAL + tuple(token for _, token in kept), separator)

    @classmethod
    def of(cls, tokens: Iterable[str], separator: str) -> "Vocabulary":
        """The vocabulary whose ``tokens`` these are, in order, the special ones included."""
        made = cls.__new__(cls)
        made._hold(tuple(tokens), separator)
        return made

    def _hold(self, tokens: tuple[str, ...], separator: str) -> None:
        self._separator = separator
        self.tokens = tokens
        self._numbers = {token: number for number, token in enumerate(tokens)}

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, sentence: Sequence[str]) -> Sentence:
        """Numbers of the tokens, with the sentence mark before and after them."""
        inner = [self._numbers.get(token, UNKNOWN) for token in sentence]
        return np.array([END, *inner, END], dtype=np.int64)

    def decode(self, numbers: Sequence[int]) -> str:
        """The tokens of ``numbers``, joined as they were cut."""
        return self._separator.join(self.tokens[int(number)] for number in numbers)


@dataclass(frozen=True)
class Corpus:
    """A text cut into three parts, each a list of documents, each a list of sentences.

    The vocabulary is made from ``train`` alone. ``sha256`` identifies the text.

    - The text of the packages is cut by documents: a document is a module, all of it is in one
      part, and no sentence is in two parts. Its topic is its package and subpackage.
    - A file, or Python's reference, is cut inside documents: each gives its first 80 % to
      ``train``, the next 10 % to ``validation`` and the last 10 % to ``test``, so that the parts
      cover the same topics. Each document is a topic of its own.
    """

    name: str
    sha256: str
    vocabulary: Vocabulary
    train: tuple[tuple[Sentence, ...], ...]
    validation: tuple[tuple[Sentence, ...], ...]
    test: tuple[tuple[Sentence, ...], ...]
    #: The topic of each document, by the name of the part.
    topics: Mapping[str, tuple[str, ...]]
    #: What to say beside the numbers if the text is not the one that the book was made on; or "".
    note: str = ""


def load_corpus(
    path: str | Path | None = None,
    *,
    level: Level = "piece",
    pieces: int = 1024,
    min_count: int = 3,
    shortest: int = 4,
    longest: int = 62,
) -> Corpus:
    """Load a text and cut it into documents, sentences and tokens.

    Parameters
    ----------
    path : path of a UTF-8 text file, optional
        With one: the file, in documents of about 5000 characters. Without one: the docstrings of
        the installed packages.
    level : "piece", "word" or "character"
        Pieces of words (:class:`normtutor.pieces.Pieces`), learned from the training part; or
        words, numbers and punctuation marks; or characters. Words and pieces are lower-cased.
    pieces : int
        How many tokens there are at level "piece", the three special ones included.
    min_count : int
        A word or character that the training part holds less often becomes ``<unk>``.
    shortest, longest : int
        Sentences with fewer tokens are left out, longer ones are cut there. With the sentence mark
        at both ends, the longest input of a model is ``longest + 1`` tokens.

    Notes
    -----
    The work is done once per process: later calls with the same text and settings return the same
    corpus. The text of the packages, its pieces and what comes out are also kept on disk, because
    to read and to learn them takes a minute, and to cut it five seconds in every process.
    """
    if level not in ("piece", "word", "character"):
        raise ValueError(f'level must be "piece", "word" or "character"; got {level!r}.')
    if not 1 <= shortest <= longest:
        raise ValueError(
            f"1 <= shortest <= longest must hold; got shortest={shortest} and longest={longest}."
        )
    settings = (level, pieces, min_count, shortest, longest)
    if path is not None:
        return _cut_inside(*_text_file(Path(path)), *settings)
    return _of_packages(*settings)


@lru_cache(maxsize=8)
def _of_packages(level: Level, *settings: int) -> Corpus:
    """The text of the installed packages, whose versions are asked for once per process."""
    return _cut_by_document(package_text(), level, *settings)


# Parts, each a list of documents, each a list of sentences that are not cut into tokens yet.
_Raw = tuple[list[list[str]], list[list[str]], list[list[str]]]


@lru_cache(maxsize=8)
def _cut_inside(
    name: str,
    digest: str,
    texts: tuple[str, ...],
    level: Level,
    pieces: int,
    min_count: int,
    shortest: int,
    longest: int,
) -> Corpus:
    """Documents as a corpus; each document is cut into training, validation and test."""
    # At level "piece", what counts here is words: the pieces are learned from what is kept.
    measure = _characters if level == "character" else _words
    parts: _Raw = ([], [], [])
    topics: tuple[list[str], list[str], list[str]] = ([], [], [])
    count = 0
    for number, text in enumerate(texts, start=1):
        document = [s for s in _SENTENCE_END.split(text) if len(measure(s)) >= shortest]
        count += len(document)
        first, second = round(0.8 * len(document)), round(0.9 * len(document))
        cut = (document[:first], document[first:second], document[second:])
        for part, topic, piece in zip(parts, topics, cut, strict=True):
            if piece:
                part.append(piece)
                topic.append(f"{name}, part {number}")
    if not all(parts):
        raise ValueError(
            f"{name} is too short: it holds {count} sentences of at least "
            f"{shortest} tokens, too few for a training, a validation and a test part. "
            "Use a longer text."
        )
    note = f"This text is {name}, not the book's: compare effects, not digits."
    return _tokenised(name, digest, note, parts, topics, level, pieces, min_count, longest)


@lru_cache(maxsize=8)
def _cut_by_document(
    text: PackageText, level: Level, pieces: int, min_count: int, shortest: int, longest: int
) -> Corpus:
    """The text of the packages as a corpus, its parts as they come, if the cache has none."""
    settings = str((level, pieces, min_count, shortest, longest))
    key = (text.sha256, settings, Path(__file__).read_text("utf-8"), inspect.getsource(Pieces))
    name = "docstrings of the installed packages"

    def cut() -> dict:
        parts: _Raw = ([], [], [])
        topics: tuple[list[str], list[str], list[str]] = ([], [], [])
        measure = _characters if level == "character" else _words
        for part, topic, documents in zip(
            parts, topics, (text.train, text.validation, text.test), strict=True
        ):
            for document in documents:
                long = [s for s in document.sentences if len(measure(s)) >= shortest]
                if long:
                    part.append(long)
                    topic.append(document.topic)
        corpus = _tokenised(
            name, text.sha256, text.note, parts, topics, level, pieces, min_count, longest
        )
        return _packed(corpus)

    content = kept(cut, "corpus", *key)
    return _unpacked(name, text.sha256, text.note, content, " " if level == "word" else "")


_PARTS = ("train", "validation", "test")


def _packed(corpus: Corpus) -> dict:
    """What :func:`_unpacked` makes the corpus of again, for the cache."""

    def written(numbers: Iterable[int]) -> str:
        return base64.b64encode(np.fromiter(numbers, dtype="<u4").tobytes()).decode()

    content: dict = {"tokens": corpus.vocabulary.tokens, "topics": dict(corpus.topics)}
    for name in _PARTS:
        documents = getattr(corpus, name)
        sentences = [sentence for document in documents for sentence in document]
        content[name] = {
            "documents": written(map(len, documents)),
            "sentences": written(map(len, sentences)),
            "numbers": written(np.concatenate(sentences)),
        }
    return content


def _unpacked(name: str, digest: str, note: str, content: dict, separator: str) -> Corpus:
    def read(numbers: str) -> np.ndarray:
        return np.frombuffer(base64.b64decode(numbers), dtype="<u4").astype(np.int64)

    def cut(numbers: Sequence | np.ndarray, lengths: np.ndarray) -> list:
        ends = np.cumsum(lengths).tolist()
        return [numbers[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def documents(packed: dict[str, str]) -> tuple[tuple[Sentence, ...], ...]:
        sentences = cut(read(packed["numbers"]), read(packed["sentences"]))
        return tuple(map(tuple, cut(sentences, read(packed["documents"]))))

    train, validation, test = (documents(content[part]) for part in _PARTS)
    topics = {part: tuple(content["topics"][part]) for part in _PARTS}
    vocabulary = Vocabulary.of(content["tokens"], separator)
    return Corpus(name, digest, vocabulary, train, validation, test, topics, note)


def _tokenised(
    name: str,
    digest: str,
    note: str,
    parts: _Raw,
    topics: tuple[list[str], list[str], list[str]],
    level: Level,
    pieces: int,
    min_count: int,
    longest: int,
) -> Corpus:
    tokens_of: Callable[[str], list[str]] = _characters if level == "character" else _words
    if level == "piece":
        learned = _learned_pieces(digest, parts[0], pieces, min_count)
        min_count = 1  # each piece was frequent when it was made

        def tokens_of(sentence: str) -> list[str]:
            return learned(sentence.lower())

    cut = [
        [[tokens_of(sentence)[:longest] for sentence in document] for document in part]
        for part in parts
    ]
    train_sentences = [sentence for document in cut[0] for sentence in document]
    vocabulary = Vocabulary(
        train_sentences, min_count=min_count, separator=" " if level == "word" else ""
    )
    train, validation, test = (
        tuple(tuple(vocabulary.encode(sentence) for sentence in document) for document in part)
        for part in cut
    )
    by_part = dict(zip(("train", "validation", "test"), map(tuple, topics), strict=True))
    return Corpus(name, digest, vocabulary, train, validation, test, by_part, note)


def _learned_pieces(digest: str, documents: list[list[str]], count: int, min_count: int) -> Pieces:
    """Pieces for a vocabulary of ``count`` tokens, from the cache if it holds them."""
    sentences = [sentence.lower() for document in documents for sentence in document]
    letters = len({*"".join(sentences)})
    key = (digest, str((count, len(sentences))), inspect.getsource(Pieces))

    def learn() -> dict:
        learned = Pieces.learn(sentences, max(0, count - len(SPECIAL) - letters))
        return {"merges": learned.merges}

    return Pieces(kept(learn, "pieces", *key)["merges"])


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _text_file(path: Path) -> tuple[str, str, tuple[str, ...]]:
    """Read a user's file; group its paragraphs into documents of about 5000 characters."""
    if path.is_dir():
        raise IsADirectoryError(
            f"{str(path)!r} is a directory, not a file. Name one text file; join several with cat."
        )
    if not path.is_file():
        raise FileNotFoundError(f"the text file {str(path)!r} does not exist or is not a file.")
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{str(path)!r} is not UTF-8: byte {error.start} cannot be decoded. Save the file as "
            "UTF-8 text, or give a plain text file instead of a compressed or binary one."
        ) from error
    if "\0" in text:
        raise ValueError(
            f"{str(path)!r} is not text: it holds zero bytes, as binary files and UTF-16 do. Save "
            "the file as UTF-8 text."
        )
    documents, current, length = [], [], 0
    for paragraph in re.split(r"(?<=\n)[^\S\n]*\n", text):
        current.append(paragraph)
        length += len(paragraph)
        if length >= 5000:
            documents.append("\n".join(current))
            current, length = [], 0
    if current:
        documents.append("\n".join(current))
    return path.name, _sha256(content), tuple(documents)


def _words(sentence: str) -> list[str]:
    # A run of one mark becomes a single mark: "*****" -> "*".
    return [match[1] or match[0] for match in _WORD.finditer(sentence.lower())]


def _characters(sentence: str) -> list[str]:
    return list(" ".join(sentence.split()))


# --- batches of tokens ----------------------------------------------------------------------------


class TokenBatch(NamedTuple):
    """One batch for next-token prediction."""

    inputs: Tensor  # (B, L), int64
    targets: Tensor  # (B, L), int64: the token that follows each input token
    mask: Tensor  # (B, L), bool: True on real tokens, False on padding


def pad(sentences: Sequence[Sentence], *, length: int | None = None) -> TokenBatch:
    """Stack sentences into one batch, padded on the right to ``length`` or to the longest one."""
    longest = max(len(sentence) for sentence in sentences) - 1
    length = longest if length is None else length
    if length < longest:
        raise ValueError(
            f"length must be at least {longest}, the longest sentence here; got {length}."
        )
    numbers = torch.full((len(sentences), length + 1), PAD, dtype=torch.int64, device="cpu")
    mask = torch.zeros(len(sentences), length, dtype=torch.bool, device="cpu")
    for row, sentence in enumerate(sentences):
        numbers[row, : len(sentence)] = torch.from_numpy(sentence)
        mask[row, : len(sentence) - 1] = True
    # The end mark of a shorter sentence is a target, never an input.
    parts = (numbers[:, :-1].masked_fill(~mask, PAD), numbers[:, 1:], mask)
    return TokenBatch(*(part.to(torch.get_default_device()) for part in parts))


def sentence_stream(
    documents: Sequence[Sequence[Sentence]],
    batch_size: int,
    order: Order,
    rng: np.random.Generator,
) -> Iterator[TokenBatch]:
    """One epoch of padded sentences, the batches in random order, each made when it is asked for.

    ``order`` says which sentences meet in a batch:

    - ``"shuffled"``: any, drawn without replacement;
    - ``"document"``: neighbours in the text, so that most batches come from one document;
    - ``"length"``: sentences of about equal length, chosen at random among equals; this is how
      translation systems save padding.

    The sentences left over after the last full batch are skipped.
    """
    everything = [sentence for document in documents for sentence in document]
    if not 1 <= batch_size <= len(everything):
        raise ValueError(
            f"batch_size must lie between 1 and the number of sentences, {len(everything)}; "
            f"got {batch_size}. Use a smaller batch or a longer text."
        )
    indices = rng.permutation(len(everything))
    if order == "document":
        # Another starting point each epoch, so that the same sentences do not always meet.
        indices = np.roll(np.arange(len(everything)), -int(rng.integers(len(everything))))
    elif order == "length":
        lengths = np.array([len(everything[i]) for i in indices])
        indices = indices[np.argsort(lengths, kind="stable")]
        # Dropping from the front as often as from the back keeps every length in play.
        indices = indices[int(rng.integers(len(indices) % batch_size + 1)) :]
    elif order != "shuffled":
        raise ValueError(f'order must be "shuffled", "document" or "length"; got {order!r}.')
    starts = rng.permutation(np.arange(0, len(indices) - batch_size + 1, batch_size))
    return (pad([everything[i] for i in indices[s : s + batch_size]]) for s in starts)


def chunk_batches(
    documents: Sequence[Sequence[Sentence]],
    batch_size: int,
    length: int,
    order: Order,
    rng: np.random.Generator,
) -> list[TokenBatch]:
    """One epoch of chunks of exactly ``length`` tokens, without padding, batches in random order.

    ``order`` is ``"shuffled"`` or ``"document"``, as in :func:`sentence_stream`.
    """
    if order not in ("shuffled", "document"):
        raise ValueError(
            f'order must be "shuffled" or "document", because all chunks are equally long; '
            f"got {order!r}."
        )
    chunks = cut_chunks(documents, length)
    count = len(chunks[0])
    if not 1 <= batch_size <= count:
        raise ValueError(
            f"batch_size must lie between 1 and the number of chunks, {count}; got {batch_size}. "
            "Use a smaller batch or a longer text."
        )
    inputs, targets = map(_tensor, chunks)
    if order == "document":
        indices = np.roll(np.arange(count), -int(rng.integers(count)))
    else:
        indices = rng.permutation(count)
    starts = rng.permutation(np.arange(0, count - batch_size + 1, batch_size))
    mask = torch.ones(batch_size, length, dtype=torch.bool)
    return [
        TokenBatch(inputs[chosen], targets[chosen], mask)
        for chosen in (_tensor(indices[s : s + batch_size]) for s in starts)
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


def shuffled_chunks(
    chunks: tuple[np.ndarray, np.ndarray], batch_size: int, rng: np.random.Generator
) -> Iterator[TokenBatch]:
    """Yield batches of what :func:`cut_chunks` made for ever, shuffled anew each epoch."""
    inputs, targets = chunks
    if not 1 <= batch_size <= len(inputs):
        raise ValueError(
            f"batch_size must lie between 1 and the number of chunks, {len(inputs)}; got "
            f"{batch_size}. Use a smaller batch or a longer text."
        )
    mask = torch.ones(batch_size, inputs.shape[1], dtype=torch.bool)
    while True:
        order = rng.permutation(len(inputs))
        for start in range(0, len(inputs) - batch_size + 1, batch_size):
            chosen = order[start : start + batch_size]
            yield TokenBatch(_tensor(inputs[chosen]), _tensor(targets[chosen]), mask)


def epochs(make_epoch: Callable[[], Iterable[Batch]]) -> Iterator[Batch]:
    """Yield the batches of one epoch after another, for ever."""
    while True:
        yield from make_epoch()


# --- synthetic sequences --------------------------------------------------------------------------


def correlated_tokens(
    rng: np.random.Generator,
    batch: int,
    length: int,
    features: int,
    *,
    correlation: float,
) -> np.ndarray:
    r"""Gaussian tokens, mean 0 and variance 1, correlated inside each sequence, (B, L, H).

    Two tokens of one sequence have correlation :math:`\rho` in each feature; two tokens of
    different sequences are independent. Each token is
    :math:`\sqrt{\rho}\, s_b + \sqrt{1 - \rho}\, e_{bl}`: what its sequence is about, plus its own.
    """
    if not 0 <= correlation <= 1:
        raise ValueError(f"correlation must lie between 0 and 1; got {correlation}.")
    shared = rng.standard_normal((batch, 1, features))
    own = rng.standard_normal((batch, length, features))
    return np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own
