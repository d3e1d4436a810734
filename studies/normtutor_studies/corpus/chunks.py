"""A text without its sentences: chunks of equal length, without padding."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from normtutor.data import Order, Sentence, TokenBatch


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
