"""Work that a GPU must do for an operator or kernel: bytes to move and operations."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct


class Bound(StrEnum):
    """Relation of a number of bytes to the minimum that must move."""

    EXACT = "exact"
    LOWER = "lower bound"
    UPPER = "upper bound"


class Work(Struct, frozen=True):
    """Bytes and operations; inputs are read once and outputs written once."""

    read_bytes: int
    written_bytes: int
    bound: Bound = Bound.EXACT
    """Relation of the bytes to the minimum."""
    flops: int = 0
    """Floating-point operations of matrix products. 0 for other work."""
    dtype: str | None = None
    """Type of a matrix product's inputs, as the profiler names it; None for other work."""

    @property
    def total_bytes(self) -> int:
        """Bytes read and written."""
        return self.read_bytes + self.written_bytes

    @property
    def intensity(self) -> float | None:
        """Operations per byte; None without bytes."""
        return self.flops / self.total_bytes if self.total_bytes else None


class WorkPart(Struct, frozen=True):
    """Work of some kernels of an operator with several kernels."""

    pattern: str
    """Regular expression for kernel names, ignoring case."""
    work: Work


def add_work(parts: Iterable[Work]) -> Work:
    """Add the work of kernels that share no data."""
    total = Work(0, 0)
    for work in parts:
        total = Work(
            total.read_bytes + work.read_bytes,
            total.written_bytes + work.written_bytes,
            total.bound if work.bound is Bound.EXACT else work.bound,
            total.flops + work.flops,
            total.dtype or work.dtype,
        )
    return total
