"""Columns of 64-bit integers that grow, kept in as few bytes as their numbers need.

Most numbers of a trace are small or near each other, and memory that is new to a process costs
more than what is done in it: of a block of some thousand rows the least number is kept once, and
what the others are above it in as few bytes as they need.
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
"""Types that are smaller than a 64-bit integer."""


class Block(NamedTuple):
    """Numbers of a column, one behind the other."""

    rows: int
    """How many."""
    base: int
    """The least of them, or less."""
    above: npt.NDArray[Any] | None
    """What each is above ``base``; None: all are ``base``."""
    gaps: bool
    """Whether a 0 in ``above`` stands for :data:`ABSENT`."""


def narrowed(values: Ints) -> Block:
    """``values``, not empty, as a block; it may keep ``values`` itself."""
    rows = len(values)
    least, most = int(values.min()), int(values.max())
    if least == most:
        return Block(rows, least, None, False)
    gaps = least == ABSENT
    absent = values == ABSENT if gaps else None
    if absent is not None:
        # One less than the least that is there, so that 0 is free for those that are not.
        least = int(values.min(where=~absent, initial=most)) - 1
    for width in _WIDTHS:
        if most - least <= np.iinfo(width).max:
            above = (values - least).astype(width)  # what is absent overflows, and is set below
            if absent is not None:
                above[absent] = 0
            return Block(rows, least, above, gaps)
    return Block(rows, 0, values, False)


def widened(blocks: Sequence[Block], out: Ints | None = None) -> Ints:
    """The numbers of ``blocks``, one behind the other, in ``out`` if it is given."""
    if out is None:
        out = np.empty(sum(block.rows for block in blocks), np.int64)
    at = 0
    for rows, base, above, gaps in blocks:
        into = out[at : at + rows]
        at += rows
        if above is None:
            into.fill(base)
            continue
        np.add(above, np.int64(base), out=into)
        if gaps:
            into[above == 0] = ABSENT
    return out
