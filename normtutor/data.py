r"""Seeded data. Nothing is downloaded.

- :func:`load_digits`: 1797 images of handwritten digits, 8 by 8, that scikit-learn ships.
- :func:`sentence_stream`: documents, which are lists of sentences, which are arrays of token
  numbers, as batches of padded sentences with a mask; in shuffled order, in the order of the
  documents, or grouped by length.
- :func:`correlated_tokens`: synthetic tokens with a chosen correlation inside each sequence.

All tensors are on torch's default device.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

Order = Literal["shuffled", "document", "length"]
Batch = TypeVar("Batch")
Sentence = np.ndarray  # token numbers, shape (number of tokens,), int64

PAD = 0  # the number of padding


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


def load_digits() -> Digits:
    """Load scikit-learn's digits as images, split 1197/300/300 with equal shares of each class.

    Pixels are standardised by the mean and the standard deviation of the training images: one
    number each, so that the picture itself is not changed.
    """
    from sklearn.model_selection import train_test_split

    images, labels = _digits_of_sklearn()
    rest, test, rest_labels, test_labels = train_test_split(
        images, labels, test_size=300, stratify=labels, random_state=0
    )
    train, validation, train_labels, validation_labels = train_test_split(
        rest, rest_labels, test_size=300, stratify=rest_labels, random_state=0
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
    noise = rng.standard_normal((batch, length, features))
    return np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * noise
