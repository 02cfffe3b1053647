"""What mending would save, from the parts of a clean step.

Mending a break, a split or a skip takes away the time in which the GPU waits for the CPU there
(code between graphs, guards, wrappers and launches of the graphs that it adds); the GPU's own work
stays.
Inputs that are no longer copied save the copying as a whole. These times are the parts of
:mod:`graphviz_dash.analysis.compiled.step_time` in a clean step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from graphviz_dash.analysis.compiled.step_time import PartTime, StepPart, StepTime
from graphviz_dash.model.absence import Fact, Missing


@dataclass(frozen=True)
class StepCosts:
    """What parts of compilations cost in a clean step."""

    time: StepTime
    step_ns: float

    def of(self, parts: Iterable[StepPart], frames: Iterable[str | None]) -> Iterator[PartTime]:
        """The parts of some compilations."""
        wanted, inside = set(parts), set(frames)
        return (part for part in self.time.parts if part.part in wanted and part.frame in inside)

    def idle(self, parts: Iterable[StepPart], frames: Iterable[str | None]) -> float:
        """Their idle time in a clean step, in ns."""
        scale = self.time.scale(self.step_ns)
        return sum(part.idle_ns for part in self.of(parts, frames)) * scale

    def whole(self, parts: Iterable[StepPart], frames: Iterable[str | None]) -> float:
        """All of their time in a clean step, in ns."""
        return sum(self.time.clean(part, self.step_ns) for part in self.of(parts, frames))

    def launches_of_one_graph(self) -> float:
        """What dispatching and launching one graph costs: the mean of those that were."""
        graphs = sum(call.replays for call in self.time.calls)
        frames = [call.frame for call in self.time.calls if call.replays]
        parts = (StepPart.DISPATCH, StepPart.LAUNCH, StepPart.COPIES)
        return self.idle(parts, frames) / graphs if graphs else 0.0


def not_told(reason: str) -> Missing:
    """A saving that is not known, because of ``reason``."""
    return Missing(Fact.SAVING, reason)


_NO_TRACE: Final = not_told("there are no traced steps, or no step was timed without a profiler")


def predicted(costs: StepCosts | None, saving: Callable[[StepCosts], float]) -> float | Missing:
    """What ``saving`` gives of the costs; missing where there are none."""
    return _NO_TRACE if costs is None else saving(costs)


def saved_by_recording(frames: Iterable[str], costs: StepCosts) -> float:
    """What recording graphs that are launched kernel by kernel would save."""
    launched = costs.idle((StepPart.COMPILED, StepPart.WAIT), frames)
    return max(0.0, launched - costs.launches_of_one_graph())
