"""Kernels without a launch, whose step is uncertain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphviz_dash.analysis.arrays import Flags, Ints

if TYPE_CHECKING:
    from graphviz_dash.analysis.trace.steps import Step


def measure_delay(steps: Sequence[Step], delays: Ints, has_launch: Flags) -> int:
    """Return the longest delay that all launches of a step have, as with shifted clocks."""
    gpu_rows = [step.gpu_rows[has_launch[step.gpu_rows]] for step in steps]
    return max((int(delays[rows].min()) for rows in gpu_rows if len(rows)), default=0)


class StrayKernels:
    """Kernels without a launch, which may belong to another step than their times suggest."""

    def __init__(
        self, begin: Ints, launch_ns: Ints, stray: Flags, error_ns: tuple[int, int]
    ) -> None:
        """``error_ns`` holds by how much they may seem early and late."""
        self._all_begin = begin
        self._early, self._late = error_ns
        self._begin: Ints = begin[stray]
        self._is_pending: Flags = launch_ns[stray] < 0

    def find_near(self, step: Step) -> Flags:
        """Find those that run in ``step``, or may with the error of the clocks."""
        first, last = step.start - self._early, step.end + self._late
        return (self._begin >= first) & (self._begin < last)

    def has_lost_calls(self, step: Step, first_call_ns: int) -> bool:
        """Return whether lost calls of ``step`` may have launched some.

        Ids ascend with calls. A step after the first call in the trace, at ``first_call_ns``, made
        no call that precedes it.
        """
        in_reach = self.find_near(step)
        if first_call_ns < step.start:
            in_reach = in_reach & ~self._is_pending
        return bool(in_reach.any())

    def is_uncertain(self, step: Step) -> bool:
        """Return whether ``step`` may have gained or lost such kernels.

        Those that seem to precede the trace are pending work of earlier steps if the step's work
        starts after the CPU has left it.
        """
        in_reach = self.find_near(step)
        inner = (self._begin >= step.start + self._late) & (self._begin < step.end - self._early)
        rows = step.gpu_rows
        if not len(rows):
            return bool(len(self._begin))  # the work may be that of this step
        if self._all_begin[rows].min() >= step.end:
            in_reach = in_reach & ~self._is_pending
        return bool((in_reach & (self._is_pending | ~inner)).any())
