"""A step captured with only the dependencies that its data needs, to be replayed by a program."""

from __future__ import annotations

from typing import Any

from collectors.parallel.plan import capture_by
from collectors.workloads import Step
from graphviz_dash.model.parallel import ParallelPlan
from graphviz_dash.planning.operators import dependencies
from graphviz_dash.planning.plan import placed


class ParallelGraph:
    """A captured step. It lives as long as this does."""

    def __init__(self, step: Step, plan: ParallelPlan) -> None:
        """Captures ``step`` by ``plan``, on the current device.

        Raises:
            RefusedError: the step is not the one that was planned.
        """
        # A graph reads and writes the memory of the step's tensors, which live as long as it does.
        self._step = step
        self.plan = plan
        """How it was planned, what was tried, and how it was checked."""
        needs = dependencies(plan.operators)
        streams = placed(plan.operators, plan.storages, needs, plan.stream)
        self.captured, _ = capture_by(
            step, plan.operators, plan.storages, streams, plan.fitted_bytes
        )
        """The capture itself."""
        self.result = self.captured.result
        """What the step returned under capture: a replay writes it anew."""
        self.graph: Any = self.captured.graph
        """The torch.cuda.CUDAGraph."""

    def replay(self) -> None:
        """Launches it on the current stream."""
        self.graph.replay()
