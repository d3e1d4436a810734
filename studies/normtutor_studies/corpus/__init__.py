"""A text to train on: the prose in the docstrings of the installed packages, as numbers.

The text differs between versions of the packages. A corpus carries the SHA-256 of its text, which
every saved result records. To read it and to learn its pieces takes a minute, so both are kept on
disk.
"""

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from joblib import Memory
from platformdirs import user_cache_path

from normtutor.data import PAD, Sentence
from normtutor_studies.corpus import docstrings
from normtutor_studies.corpus.pieces import Pieces

__all__ = ["END", "UNKNOWN", "Corpus", "Vocabulary", "load_corpus"]

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
    files = sorted(Path(__file__).parent.glob("*.py"))
    key = (docstrings.installed(), hashlib.sha256(b"".join(f.read_bytes() for f in files)).digest())
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
    return docstrings.read()


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
