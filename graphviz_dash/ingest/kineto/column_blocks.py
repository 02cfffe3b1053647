"""Growing columns of 64-bit integers, stored compactly.

Newly mapped memory costs more than the work on it. Each block of some thousand rows stores its
minimum, and the differences in as few bytes as possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from graphviz_dash.ingest.kineto.events import ABSENT

Flags: TypeAlias = npt.NDArray[np.bool_]
Ints: TypeAlias = npt.NDArray[np.int64]

_WIDTHS: Final = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32))


class Block(NamedTuple):
    """Consecutive numbers of a column."""

    rows: int
    base: int
    offsets: npt.NDArray[Any] | None
    """Differences to ``base``. None if all values equal it."""
    has_absent: bool
    """True if 0 in ``offsets`` represents :data:`ABSENT`."""


def compress_values(values: Ints) -> Block:
    """Compress ``values`` (not empty); may keep a reference to them."""
    rows = len(values)
    minimum, maximum = int(values.min()), int(values.max())
    if minimum == maximum:
        return Block(rows, minimum, None, False)
    gaps = minimum == ABSENT
    absent = values == ABSENT if gaps else None
    if absent is not None:
        # One below the minimum, so that 0 can represent absent values.
        minimum = int(values.min(where=~absent, initial=maximum)) - 1
    for width in _WIDTHS:
        if maximum - minimum <= np.iinfo(width).max:
            offsets = (values - minimum).astype(width)  # absent values overflow and are set below
            if absent is not None:
                offsets[absent] = 0
            return Block(rows, minimum, offsets, gaps)
    return Block(rows, 0, values, False)


def expand_blocks(blocks: Sequence[Block], out: Ints | None = None) -> Ints:
    """Expand ``blocks`` to one array, using ``out`` if given."""
    if out is None:
        out = np.empty(sum(block.rows for block in blocks), np.int64)
    position = 0
    for rows, base, offsets, gaps in blocks:
        target = out[position : position + rows]
        position += rows
        if offsets is None:
            target.fill(base)
            continue
        # The type is explicit: numpy 1 would add a small base in the type of the offsets.
        np.add(offsets, np.int64(base), out=target, dtype=np.int64)
        if gaps:
            target[offsets == 0] = ABSENT
    return out
