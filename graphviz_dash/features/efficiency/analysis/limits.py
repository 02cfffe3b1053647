"""Limit of each operator call of a step, and its distance from it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.features.efficiency.analysis.items import WorkItem
from graphviz_dash.features.efficiency.analysis.rates import Rates
from graphviz_dash.features.efficiency.analysis.units import WorkUnit
from graphviz_dash.features.efficiency.analysis.work import Bound, Work
from graphviz_dash.model.ceilings import Pipe
from graphviz_dash.model.graph import Operand

NEAR_LIMIT: Final = 1.2
"""Ratio of time and limit that counts as near the limit."""

_MODEL_ERROR: Final = 1.1
"""A kernel this much faster than device memory allows has its data in L2."""

_LOOSE_BOUND_REASON: Final = "the kernel does less work than its sizes allow"
"""Reason for an unknown limit."""

_PIPES: Final = {
    "double": Pipe.FP64,
    "c10::complex<double>": Pipe.FP64,
    "c10::BFloat16": Pipe.BF16,
    "c10::Half": Pipe.FP16,
    "c10::Float8_e4m3fn": Pipe.FP8,
    "c10::Float8_e5m2": Pipe.FP8,
}
_TF32_KERNEL: Final = re.compile(
    r"tf32|s1688|s16816|tensorop_s|_sss_|nvjet_\w*_s\w\w_", re.IGNORECASE
)
_FP32_KERNEL: Final = re.compile(r"sgemm|simt|ffma|f32f32_f32f32|gemv|scudnn", re.IGNORECASE)


class LimitTerm(StrEnum):
    """Term of a limit."""

    LAUNCH = "launch"
    L2 = "L2 cache"
    MEMORY = "device memory"
    ARITHMETIC = "arithmetic"


class UnitLimit(Struct, frozen=True):
    """Time and limit of one operator call."""

    unit: WorkUnit
    category: Category
    """Category of the longest kernel."""
    name: str
    """Name of the longest kernel."""
    time_ns: float
    """Sum over the kernels of the median duration, per replay or step of the report."""
    limit_ns: float | None
    """Shortest possible time; None if unknown."""
    term: LimitTerm | None
    """Determines the limit; None if unknown."""
    pipe: Pipe | None = None
    """Arithmetic unit of a matrix product; None for other work."""
    memory_ns: float = 0.0
    """Time to move the bytes."""
    arithmetic_ns: float = 0.0
    """Time of the operations at the measured rate."""
    cached_share: float | None = None
    """Estimated share of the bytes that are in L2 before; None if unknown."""
    runs: float = 1.0
    """Mean number of runs per replay or step."""

    @property
    def share(self) -> float | None:
        """Share of the limit, at most 1; None if unknown."""
        if self.limit_ns is None:
            return None
        return min(1.0, self.limit_ns / self.time_ns) if self.time_ns else 1.0

    @property
    def above_ns(self) -> float:
        """Time above the limit; 0 if unknown."""
        return max(0.0, self.time_ns - self.limit_ns) if self.limit_ns is not None else 0.0

    @property
    def is_near_limit(self) -> bool:
        """True up to ``NEAR_LIMIT`` times the limit."""
        return self.limit_ns is not None and self.time_ns <= NEAR_LIMIT * self.limit_ns

    def scale(self, replays: float, offset: int) -> UnitLimit:
        """Return the call of ``replays`` replays, its items moved by ``offset``."""
        unit = replace(self.unit, items=tuple(offset + item for item in self.unit.items))
        return replace(
            self,
            unit=unit,
            time_ns=self.time_ns * replays,
            limit_ns=None if self.limit_ns is None else self.limit_ns * replays,
            memory_ns=self.memory_ns * replays,
            arithmetic_ns=self.arithmetic_ns * replays,
            runs=self.runs * replays,
        )


def compute_limits(
    items: Sequence[WorkItem], units: Sequence[WorkUnit], rates: Rates | None
) -> tuple[UnitLimit, ...]:
    """Compute time and limit of timed units; without rates, limits are unknown."""
    shares = (
        [None] * len(items)
        if rates is None
        else estimate_cached_shares([item.operands for item in items], rates.l2_bytes)
    )
    return tuple(
        limit for unit in units if (limit := _compute_limit(unit, items, shares, rates)) is not None
    )


def _compute_limit(
    unit: WorkUnit,
    items: Sequence[WorkItem],
    shares: Sequence[float | None],
    rates: Rates | None,
) -> UnitLimit | None:
    unit_items = [items[position] for position in unit.items]
    if all(item.duration_ns is None for item in unit_items):
        return None
    runs = max(item.runs for item in unit_items)
    time_ns = sum((item.duration_ns or 0.0) * item.runs for item in unit_items)
    main_item = max(unit_items, key=lambda item: (item.duration_ns or 0.0) * item.runs)
    base = UnitLimit(unit, main_item.category, main_item.name, time_ns, None, None, runs=runs)
    work = unit.work
    if work is None or rates is None or not runs:
        return base
    unit_shares = [shares[position] for position in unit.items if shares[position] is not None]
    cached_share = min((share for share in unit_shares if share is not None), default=None)
    single_ns = time_ns / runs
    memory_ns, term = _compute_memory(work, cached_share, single_ns, rates)
    pipe = find_pipe(work, [item.name for item in unit_items], single_ns, rates)
    rate = None if pipe is None else rates.get_flop_rate(pipe)
    arithmetic_ns = work.flops / rate * 1e9 if rate else 0.0
    if work.bound is Bound.UPPER and max(memory_ns, arithmetic_ns) > _MODEL_ERROR * single_ns:
        return replace(base, unit=replace(unit, missing=_LOOSE_BOUND_REASON))
    limit_ns = max(memory_ns, arithmetic_ns, rates.launch_ns)
    if arithmetic_ns >= memory_ns and arithmetic_ns >= rates.launch_ns:
        term = LimitTerm.ARITHMETIC
    elif memory_ns <= rates.launch_ns * NEAR_LIMIT:
        term = LimitTerm.LAUNCH
    return UnitLimit(
        unit,
        main_item.category,
        main_item.name,
        time_ns,
        limit_ns * runs,
        term,
        pipe,
        memory_ns * runs,
        arithmetic_ns * runs,
        cached_share,
        runs,
    )


def _compute_memory(
    work: Work, cached_share: float | None, time_ns: float, rates: Rates
) -> tuple[float, LimitTerm]:
    """Compute the time to move the bytes.

    Bytes in L2 are limited by its bandwidth. A kernel that is faster than device memory allows, or
    whose operands are unknown, is compared with L2 if device memory cannot be its limit.
    """
    cached_ns = rates.compute_memory_ns(work.read_bytes, work.written_bytes, l2_hit=True)
    cold = 1.0 if cached_share is None else 1.0 - cached_share
    memory_ns = rates.compute_memory_ns(
        work.read_bytes * cold, work.written_bytes * cold, l2_hit=False
    )
    if memory_ns > cached_ns and memory_ns <= _MODEL_ERROR * time_ns:
        return memory_ns, LimitTerm.MEMORY
    return cached_ns, LimitTerm.L2


def find_pipe(
    work: Work, names: Sequence[str], time_ns: float, rates: Rates | None = None
) -> Pipe | None:
    """Find the arithmetic unit of a matrix product; None for other work or an unknown data type.

    Kernels for float inputs round them to TF32 or not; their names tell. Without such a name, a
    kernel uses TF32 if it is faster than FP32 allows.
    """
    if not work.flops or work.dtype is None:
        return None
    if work.dtype != "float":
        return _PIPES.get(work.dtype)
    if any(_TF32_KERNEL.search(name) for name in names):
        return Pipe.TF32
    if any(_FP32_KERNEL.search(name) for name in names):
        return Pipe.FP32
    rate = None if rates is None else rates.get_flop_rate(Pipe.FP32)
    is_faster = rate is not None and work.flops / rate * 1e9 > _MODEL_ERROR * time_ns
    return Pipe.TF32 if is_faster else Pipe.FP32


L2_SHARE: Final = 0.5
"""Share of L2 for reused data: half of the cache belongs to the far partition."""

_REPLAYS: Final = 2
"""Replays that are followed; the last shows the steady state."""


def estimate_cached_shares(
    operands: Sequence[tuple[Operand, ...] | None], l2_bytes: int
) -> list[float | None]:
    """Estimate the share of each kernel's operand bytes in L2, in order of execution.

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
