"""From the aligner's classes to word times that never run backwards."""

from __future__ import annotations

from bisect import bisect_right

import torch

__all__ = ["decode_word_times", "longest_rising", "repair"]


def decode_word_times(
    logits: torch.Tensor, n_words: int, duration_ms: float, segment_ms: float | None = None
) -> torch.Tensor:
    """Return start and end of every word, int32 ``[n_words, 2]`` in milliseconds.

    Args:
        logits: ``[2 * n_words, bins]``, start and end marker of each word in turn.
        n_words: number of words; any mismatch gives an empty ``[0, 2]``.
        duration_ms: length of the audio; no time exceeds it.
        segment_ms: length of one bin; None spreads the bins over the duration.
    """
    if n_words == 0 or logits.ndim != 2 or logits.shape[0] != 2 * n_words:
        return torch.zeros((0, 2), dtype=torch.int32)
    width = segment_ms if segment_ms is not None else duration_ms / logits.shape[1]
    marks = repair([float(bin_) * width for bin_ in logits.argmax(dim=1).tolist()])
    times, previous = [], 0.0
    for start, end in zip(marks[::2], marks[1::2], strict=True):
        begin = min(max(start, previous), duration_ms)
        previous = min(max(end, begin), duration_ms)
        times.append([begin, previous])
    return torch.tensor(times).round().to(torch.int32)


def longest_rising(values: list[float]) -> list[int]:
    """Return the indices of a longest non-falling subsequence."""
    tails: list[float] = []
    ends: list[int] = []
    before = [-1] * len(values)
    for i, value in enumerate(values):
        at = bisect_right(tails, value)
        before[i] = ends[at - 1] if at else -1
        tails[at:], ends[at:] = [value, *tails[at + 1 :]], [i, *ends[at + 1 :]]
    chain, i = [], ends[-1] if ends else -1
    while i >= 0:
        chain.append(i)
        i = before[i]
    return chain[::-1]


def repair(values: list[float]) -> list[float]:
    """Replace what falls out of order by a straight line between the neighbours that are in order."""
    kept = longest_rising(values)
    fixed = list(values)
    for i in range(len(values)):
        left = max((k for k in kept if k <= i), default=None)
        right = min((k for k in kept if k >= i), default=None)
        if left is None or right is None:
            fixed[i] = values[kept[0] if left is None else kept[-1]]
        elif left != right:
            fixed[i] = values[left] + (values[right] - values[left]) * (i - left) / (right - left)
    return fixed
