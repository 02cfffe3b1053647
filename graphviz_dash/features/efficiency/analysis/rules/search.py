"""Input and results of the rules that find recommendations."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from graphviz_dash.features.efficiency.analysis.items import WorkItem
from graphviz_dash.features.efficiency.analysis.limits import UnitLimit
from graphviz_dash.features.efficiency.analysis.operator_call import OperatorCall
from graphviz_dash.features.efficiency.analysis.rates import Rates
from graphviz_dash.model.ceilings import Pipe
from graphviz_dash.model.graph import Operand
from graphviz_dash.planning.operations import MEASURED_COSTS

GAP_NS: Final = MEASURED_COSTS.same_stream_gap_ns
"""Time between two kernels of a replay, which one kernel saves."""

REACH: Final = (0.7, 0.85, 1.0)
"""Share of the memory limit of a fused kernel: low, expected, high."""

ALREADY_FUSED: Final = ("_fused_", "triton_")

Savings = tuple[float, float, float]
"""Low, expected and high saving, in ns."""


class Remedy(StrEnum):
    """Kind of recommendation."""

    KERNEL = "eager kernel"
    OPTIMIZER = "fused optimizer"
    CASTS = "unneeded casts"
    FUSE = "fuse"
    FOREACH = "foreach"
    DTYPE = "TF32"
    MERGE = "merge products"
    WAVES = "last wave"
    LAUNCH = "tiny kernels"


class AdviceGroup(Struct, frozen=True):
    """Calls that one change affects, with its predicted saving."""

    remedy: Remedy
    limits: tuple[int, ...]
    """Indices of the calls."""
    savings_ns: Savings
    pipe: Pipe | None = None
    """Faster data type. None for other kinds."""


class Calls(Struct, frozen=True):
    """The operator calls of a step."""

    items: Sequence[WorkItem]
    """Kernels, copies and memsets."""
    limits: Sequence[UnitLimit]
    """Operator calls in order."""

    def get_call(self, index: int) -> OperatorCall | None:
        """Return the call; None if unknown."""
        return self.limits[index].unit.call

    def get_operator(self, index: int) -> str:
        """Return the operator of a call, or the kernel without one."""
        call = self.get_call(index)
        if call is not None:
            return call.name
        origin = self.items[self.limits[index].unit.items[0]].origin
        name = origin.op if origin is not None and origin.op else self.limits[index].name
        return name.removeprefix("aten::")

    def get_phase(self, index: int) -> str | None:
        """Return the phase."""
        origin = self.items[self.limits[index].unit.items[0]].origin
        return None if origin is None else origin.phase

    def is_same_call(self, first: int, second: int) -> bool:
        """Return whether both are parts of one operator call."""
        origins = [self.items[self.limits[i].unit.items[0]].origin for i in (first, second)]
        calls = [None if origin is None else origin.call for origin in origins]
        return calls[0] is not None and calls[0] == calls[1]

    def count_kernels(self, index: int) -> int:
        """Count the kernels."""
        return len(self.limits[index].unit.items)

    def measure_time(self, indices: Sequence[int]) -> float:
        """Return the time in ns, with the gaps between kernels."""
        kernels = sum(map(self.count_kernels, indices))
        return sum(self.limits[index].time_ns for index in indices) + (kernels - 1) * GAP_NS

    def has_common_memory(self, first: int, second: int) -> bool | None:
        """Check for a common argument; None if unknown."""
        left, right = self.list_operands(first), self.list_operands(second)
        if not left or not right:
            return None
        return any(check_overlap(a, b) for a in left for b in right)

    def list_operands(self, index: int) -> list[Operand]:
        """List the memory that the arguments give access to."""
        return [
            operand
            for position in self.limits[index].unit.items
            for operand in self.items[position].operands or ()
        ]


def check_overlap(first: Operand, second: Operand) -> bool:
    """Return whether two arguments give access to common memory."""
    return (
        first.allocation == second.allocation
        and first.offset < second.offset + second.bytes
        and second.offset < first.offset + first.bytes
    )


class Search(Calls, frozen=True):
    """A step with its limits."""

    rates: Rates
    multiprocessors: int
    has_backward: bool
    """A backward uses results of the forward."""


def subtract_limit(
    time_ns: float, limit_ns: float, launch_ns: float, lowest_limit_ns: float | None = None
) -> Savings:
    """Compute the savings if one kernel replaces work of ``time_ns``.

    Its limit is between ``lowest_limit_ns`` and ``limit_ns``.
    """
    best_ns = limit_ns if lowest_limit_ns is None else lowest_limit_ns
    limits_ns = (limit_ns, (limit_ns + best_ns) / 2, best_ns)
    low, middle, high = (
        max(0.0, time_ns - max(limit / reach, launch_ns))
        for limit, reach in zip(limits_ns, REACH, strict=True)
    )
    return low, middle, high
