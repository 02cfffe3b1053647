"""Capture a step for parallel mode and time replays."""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, Protocol

import torch

from collectors.driver.operands import AllocationResolver
from collectors.driver.topology import read_graph, read_graph_with_positions
from collectors.parallel.streams import use_stream
from collectors.workloads import Step
from graphviz_dash.errors import GraphvizDashError
from graphviz_dash.model.graph import CapturedGraph


class RefusedError(GraphvizDashError):
    """The step cannot run in parallel safely."""

    def __init__(self, reason: str, source: str | None = None) -> None:
        location = f" ({source})" if source else ""
        super().__init__(
            f"Parallel mode is not possible: {reason}{location}. Use mode graph for this step."
        )


REPLAYS: Final = 30
"""Timed replays per graph."""


class CaptureMode(Protocol):
    """Observes or directs a capture."""

    def start(self) -> None:
        """Called before the step."""

    def finish(self) -> None:
        """Called after the step."""

    def abandon(self) -> None:
        """Called after the step raised."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: object) -> Any: ...


class StepGraph:
    """A captured step: its instantiated graph and the step's return value."""

    def __init__(
        self, step: Step, stream: torch.cuda.Stream, mode: CaptureMode | None = None
    ) -> None:
        """Capture on ``stream``.

        Backward runs on this thread, to share the forward's workspaces.

        Raises:
            RefusedError: The step has changed, or cannot run in parallel.
        """
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        before = torch.cuda.memory_reserved()
        self.graph = torch.cuda.CUDAGraph(keep_graph=True)
        try:
            with (
                torch.autograd.grad_mode.set_multithreading_enabled(False),
                use_stream(stream),
                torch.cuda.graph(self.graph, stream=stream),
            ):
                self.result: object = step() if mode is None else _run_with_mode(step, mode)
        except RuntimeError as error:
            # Leaving a broken capture raises a second error.
            if isinstance(error.__context__, RefusedError):
                raise error.__context__ from None
            raise
        self.graph.instantiate()
        self.memory_bytes = max(0, torch.cuda.memory_reserved() - before)
        """Device memory reserved for the capture."""

    def drop_result(self) -> None:
        """Release the step's return value.

        A loss keeps autograd nodes of this capture's stream alive, and torch would warn in a later
        capture.
        """
        self.result = None

    def read_graph(self) -> CapturedGraph:
        """Read nodes and edges from the driver."""
        return read_graph(self.graph.raw_cuda_graph(), "graph-0")[0]

    def read_graphs_with_operands(self, resolver: AllocationResolver) -> tuple[CapturedGraph, ...]:
        """Read the graph and its bodies with their operands."""
        return read_graph_with_positions(self.graph.raw_cuda_graph(), "graph-0", resolver)[0]

    def find_storages_inside(self, storages: Mapping[int, torch.UntypedStorage]) -> list[int]:
        """Return the keys of ``storages`` located in the capture's memory."""
        pool = self.graph.pool()
        spans = [
            (segment["address"], segment["address"] + segment["total_size"])
            for segment in torch.cuda.memory_snapshot()
            if segment["segment_pool_id"] == pool
        ]
        return [
            number
            for number, storage in storages.items()
            if any(begin <= storage.data_ptr() < end for begin, end in spans)
        ]


def _run_with_mode(step: Step, mode: CaptureMode) -> object:
    mode.start()
    with ExitStack() as undo:
        undo.callback(mode.abandon)
        with mode:
            result = step()
        mode.finish()
        undo.pop_all()
    return result


def time_replays(graphs: Sequence[StepGraph]) -> list[tuple[int, ...]]:
    """Time interleaved replays from launch to completion, in ns; REPLAYS per graph."""
    rows: list[list[int]] = [[] for _ in graphs]
    for step_graph in graphs:
        for _ in range(3):
            step_graph.graph.replay()
    torch.cuda.synchronize()
    for _ in range(REPLAYS):
        for row, step_graph in zip(rows, graphs, strict=True):
            begin = time.perf_counter_ns()
            step_graph.graph.replay()
            torch.cuda.synchronize()
            row.append(time.perf_counter_ns() - begin)
    return [tuple(row) for row in rows]
