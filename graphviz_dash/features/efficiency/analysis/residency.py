"""Estimate of the bytes in L2 when a kernel starts, because an earlier kernel used them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from graphviz_dash.model.graph import Operand

L2_SHARE: Final = 0.5
"""Share of L2 that reused data can occupy: half of the cache belongs to the far partition."""

_REPLAYS: Final = 2
"""Replays that are followed; the last one shows the steady state."""


def estimate_cached_shares(
    operands: Sequence[tuple[Operand, ...] | None], l2_bytes: int
) -> list[float | None]:
    """Estimate for each kernel which share of its operands' bytes is in L2, in order of execution.

    Memory is in L2 if less than a share of its size was used since. None without operands.
    """
    capacity = l2_bytes * L2_SHARE
    last_use: dict[Operand, int] = {}
    used = 0
    shares: list[float | None] = [None] * len(operands)
    for _ in range(_REPLAYS):
        for index, ranges in enumerate(operands):
            if not ranges:
                continue
            total = sum(operand.bytes for operand in ranges)
            hot = sum(
                operand.bytes
                for operand in ranges
                if operand in last_use and used - last_use[operand] <= capacity
            )
            used += total
            for operand in ranges:
                last_use[operand] = used - operand.bytes
            shares[index] = hot / total if total else None
    return shares
