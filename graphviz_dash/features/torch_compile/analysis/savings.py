"""Predicted gain from a fix: clean step time minus the simulated step without the cause.

See :mod:`graphviz_dash.features.torch_compile.analysis.clean_step`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

from msgspec import Struct

from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.features.torch_compile.analysis.clean_step import (
    CpuPiece,
    drop_final_wait,
    fit_cpu_factor,
    simulate_step,
)
from graphviz_dash.features.torch_compile.analysis.step_time import PartTime, StepTime
from graphviz_dash.model.absence import Fact, Missing

GAIN_EXPONENT: Final = 1.2
"""Corrects simulated gains: median ratio of measured to simulated gain.

From 23 fixes on an H200 (torch 2.11); four of five within 1.0 to 1.6. Applies to the remaining idle
share, so no gain exceeds the idle time.
"""


class StepCosts(Struct, frozen=True, dict=True):
    """Costs of compilations in a clean step."""

    time: StepTime
    step_ns: float
    is_async: bool = False
    """The clean step does not wait for the GPU at its end."""

    def select_parts(
        self, parts: Iterable[StepPart], frames: Iterable[str | None]
    ) -> Iterator[PartTime]:
        """Select parts of the given compilations."""
        part_kinds, wanted_frames = set(parts), set(frames)
        return (
            part
            for part in self.time.parts
            if part.part in part_kinds and part.frame in wanted_frames
        )

    @cached_property
    def pieces(self) -> Sequence[CpuPiece]:
        """CPU pieces of the clean step."""
        return drop_final_wait(self.time.pieces) if self.is_async else self.time.pieces

    @cached_property
    def factor(self) -> float:
        """Ratio of clean to traced CPU time."""
        return fit_cpu_factor(self.pieces, self.step_ns)

    def predict_gain_ns(self, fixed_pieces: Sequence[CpuPiece]) -> float:
        """Predict the gain, at least 0, of a step of ``fixed_pieces``."""
        current_ns = simulate_step(self.pieces, self.factor)
        work_ns = sum(piece.work.duration_ns for piece in fixed_pieces if piece.work is not None)
        # GPU work stays constant; only idle time can shrink.
        idle_ns, fixed_idle_ns = (
            current_ns - work_ns,
            simulate_step(fixed_pieces, self.factor) - work_ns,
        )
        if fixed_idle_ns >= idle_ns or idle_ns <= 0:
            return 0.0
        gain_share: float = 1 - (max(0.0, fixed_idle_ns) / idle_ns) ** GAIN_EXPONENT
        return idle_ns * gain_share


def report_unavailable(reason: str) -> Missing:
    """Build the value of an unavailable gain."""
    return Missing(Fact.SAVING, reason)


_NO_TRACE: Final = report_unavailable(
    "there are no traced steps, or no step time without a profiler"
)


def predict_gain(
    costs: StepCosts | None, predictor: Callable[[StepCosts], float]
) -> float | Missing:
    """Predict a gain; Missing without costs."""
    return _NO_TRACE if costs is None else predictor(costs)
