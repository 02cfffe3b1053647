"""Measured limits of a GPU: copies, reads and writes by size, matrix products, vector arithmetic.

All durations are kernel durations reported by CUPTI, like the node times of a traced replay.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal

from msgspec import Struct

from graphviz_dash.model.gpu import Gpu
from graphviz_dash.model.graph import Count
from graphviz_dash.model.timings import Nanoseconds

CEILINGS_FORMAT: Final = "graphviz-dash-ceilings"
CEILINGS_VERSION: Final = 1


class Traffic(StrEnum):
    """Memory access of a measured kernel."""

    COPY = "copy"
    """Reads and writes the same number of bytes."""
    READ = "read"
    WRITE = "write"


class Pipe(StrEnum):
    """Arithmetic unit and data type of operations."""

    FP64 = "fp64"
    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"


class MemoryTime(Struct, frozen=True, forbid_unknown_fields=True):
    """Duration of a kernel that moves ``bytes`` bytes."""

    traffic: Traffic
    l2_hit: bool
    """True if all data was in the L2 cache before."""
    bytes: Count
    """Bytes read and written together."""
    duration_ns: tuple[Nanoseconds, ...]
    """Duration of each repetition, in ns."""


class ArithmeticTime(Struct, frozen=True, forbid_unknown_fields=True):
    """Duration of a kernel limited by arithmetic."""

    pipe: Pipe
    is_matrix: bool
    """False for multiply-adds of a vector kernel."""
    flops: Count
    """Floating-point operations; a multiply-add counts as two."""
    duration_ns: tuple[Nanoseconds, ...]
    """Duration of each repetition, in ns."""


class Ceilings(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of ceilings.json."""

    format: Literal["graphviz-dash-ceilings"]
    version: Literal[1]
    tool_version: str
    """Version of graphviz-dash that measured."""
    date: str
    """Time of measurement, ISO 8601 in UTC."""
    gpu: Gpu
    driver: str | None
    """Version of NVIDIA's driver. None if unknown."""
    torch: str | None
    """Version of torch. None if unknown."""
    l2_bytes: Count
    """Size of the L2 cache, in bytes."""
    empty_kernel_ns: tuple[Nanoseconds, ...]
    """Duration of each launch of an empty kernel, in ns."""
    memory: tuple[MemoryTime, ...]
    """Durations by size."""
    arithmetic: tuple[ArithmeticTime, ...]
    """Durations of matrix products and vector kernels."""
