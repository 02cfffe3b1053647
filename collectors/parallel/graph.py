"""A step captured with only its data's dependencies, for replay by a program."""

from __future__ import annotations

from typing import Any

from collectors.parallel.plan import capture_with_plan
from collectors.workloads import Step
from graphviz_dash.model.parallel import ParallelPlan
from graphviz_dash.planning.operators import find_dependencies
from graphviz_dash.planning.plan import build_plan


class ParallelGraph:
    """A captured step that holds its graph alive."""

    def __init__(self, step: Step, plan: ParallelPlan) -> None:
        """Capture ``step`` by ``plan`` on the current device.

        Raises:
            RefusedError: The step is not the planned one.
        """
        # The graph accesses the memory of the step's tensors, so keep the step alive.
        self._step = step
        self.plan = plan
        ordering = find_dependencies(plan.operators)
        streams = build_plan(plan.operators, plan.storages, ordering, plan.streams)
        self.captured, _ = capture_with_plan(
            step, plan.operators, plan.storages, streams, plan.workspace_bytes
        )
        self.result = self.captured.result
        """Return value of the captured step; each replay overwrites it."""
        self.graph: Any = self.captured.graph

    def replay(self) -> None:
        """Launch the graph on the current stream."""
        self.graph.replay()
