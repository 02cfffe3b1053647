"""Items that are unique in both of two sequences together with their neighbours."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from graphviz_dash.analysis.arrays import Ints

Hashes: TypeAlias = npt.NDArray[np.uint64]
Chained: TypeAlias = tuple[Ints, Ints, Ints]
"""Item codes, and the next and previous item in the chain (-1: none)."""

_FIRST = np.uint64(0x9E3779B97F4A7C15)
_SECOND = np.uint64(0xC2B2AE3D27D4EB4F)


def find_unique_pairs(before: Chained, after: Chained, radius: int) -> list[tuple[int, int]]:
    """Return positions of items that are unique on each side, by the second side.

    A context is an item's code and ``radius`` neighbours on each side (a power of two, or 0).
    """
    labels = np.concatenate((_compute_labels(before, radius), _compute_labels(after, radius)))
    side = np.repeat([0, 1], [len(before[0]), len(after[0])])
    order = np.argsort(labels, kind="stable")
    sorted_labels, sides = labels[order], side[order]
    first = np.flatnonzero(np.append(True, sorted_labels[1:] != sorted_labels[:-1]))
    sizes = np.diff(first, append=len(sorted_labels))
    twos = first[sizes == 2]
    # The sort is stable, so the first side's item comes first in each pair.
    twos = twos[(sides[twos] == 0) & (sides[twos + 1] == 1)]
    first_index, second_index = order[twos], order[twos + 1] - len(before[0])
    by_second = np.argsort(second_index)
    return list(zip(first_index[by_second].tolist(), second_index[by_second].tolist(), strict=True))


def _compute_labels(items: Chained, radius: int) -> Hashes:
    code, following, previous = items
    base = _hash_values((code + 2).astype(np.uint64) * _FIRST)
    if not radius:
        return base
    labels_onward, labels_back = (
        _hash_neighbours(base, following, radius),
        _hash_neighbours(base, previous, radius),
    )
    return np.asarray(_hash_values(labels_onward * _FIRST + labels_back * _SECOND), dtype=np.uint64)


def _hash_neighbours(base: Hashes, step: Ints, radius: int) -> Hashes:
    # One extra element represents the end of every chain.
    end = len(base)
    hashes = np.append(base, np.uint64(1))
    jump = np.append(np.where(step < 0, end, step), end)
    length = 1
    while length <= radius:
        hashes = _hash_values(hashes * _FIRST + hashes[jump] * _SECOND)
        jump = jump[jump]
        length *= 2
    return hashes[:-1]


def _hash_values(values: Hashes) -> Hashes:
    mixed_hashes = (values ^ (values >> np.uint64(31))) * _SECOND
    return np.asarray(mixed_hashes ^ (mixed_hashes >> np.uint64(29)), dtype=np.uint64)
