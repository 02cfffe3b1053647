"""What mending would save: the clean step, less the step that is run again without the cause
(:mod:`graphviz_dash.features.torch_compile.analysis.clean_step`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

from msgspec import Struct

from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.features.torch_compile.analysis.clean_step import (
    CpuPiece,
    clean_factor,
    run_again,
    without_last_wait,
)
from graphviz_dash.features.torch_compile.analysis.step_time import PartTime, StepTime
from graphviz_dash.model.absence import Fact, Missing

REALISED: Final = 1.2
"""What mending saved, as a multiple of what the step run again saves: the median of 23 mends on an
H200 (torch 2.11), of three sets of them 1.12, 1.21 and 1.45; four in five were within 1.0 to 1.6.
The trace does not tell what is missing. It is not that the profiler slows some of the CPU's work
more: with a cost for each event in place of one factor promises were worse. It is the power of
what is left of the GPU's idle time, which gives so many times as much where that saving is small,
and never more than the idle time there is."""


class StepCosts(Struct, frozen=True, dict=True):
    """What parts of compilations cost in a clean step."""

    time: StepTime
    step_ns: float
    runs_freely: bool = False
    """Whether the clean step was not waited for at its end, as the traced ones are."""

    def of(self, parts: Iterable[StepPart], frames: Iterable[str | None]) -> Iterator[PartTime]:
        """The parts of some compilations."""
        wanted, inside = set(parts), set(frames)
        return (part for part in self.time.parts if part.part in wanted and part.frame in inside)

    @cached_property
    def pieces(self) -> Sequence[CpuPiece]:
        """What the CPU does in the clean step."""
        return without_last_wait(self.time.pieces) if self.runs_freely else self.time.pieces

    @cached_property
    def factor(self) -> float:
        """What the CPU's traced time is to be multiplied by."""
        return clean_factor(self.pieces, self.step_ns)

    def saved(self, mended: Sequence[CpuPiece]) -> float:
        """What a step of the pieces ``mended`` will take less, in ns; 0 where it takes more."""
        now = run_again(self.pieces, self.factor)
        work = sum(piece.work.ns for piece in mended if piece.work is not None)
        # The GPU's work remains: only what it is idle for can become less.
        idle, left = now - work, run_again(mended, self.factor) - work
        if left >= idle or idle <= 0:
            return 0.0
        less: float = 1 - (max(0.0, left) / idle) ** REALISED
        return idle * less


def not_told(reason: str) -> Missing:
    """A saving that is not known, because of ``reason``."""
    return Missing(Fact.SAVING, reason)


_NO_TRACE: Final = not_told("there are no traced steps, or no step was timed without a profiler")


def predicted(costs: StepCosts | None, saving: Callable[[StepCosts], float]) -> float | Missing:
    """What ``saving`` gives of the costs; missing where there are none."""
    return _NO_TRACE if costs is None else saving(costs)
