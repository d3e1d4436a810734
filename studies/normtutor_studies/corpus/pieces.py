"""Byte-pair encoding: words are cut into pieces that are frequent in a text.

A vocabulary of a thousand pieces writes any text of the same alphabet, where one of a thousand
words would leave every fourth word unknown. The library ``tokenizers`` does the same faster, but it
installs a client for downloads too, and these few lines learn the pieces of nine megabytes in
seconds.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

# A word, a digit or a run of marks, each with the space before it.
_WORD = re.compile(r" ?[^\W\d_]+| ?\d| ?(?:[^\w\s]|_)+")


def words_of(sentence: str) -> list[str]:
    """Cut a sentence into words that keep the space before them.

    >>> words_of("see eq. 12")
    [' see', ' eq', '.', ' 1', '2']
    """
    return _WORD.findall(" " + " ".join(sentence.split()))


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
