"""Captures a step for mode parallel, and times replays."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, Protocol

import torch

from collectors.driver.operands import Reach
from collectors.driver.topology import read_graph, read_graph_and_handles
from collectors.parallel.refusal import RefusedError
from collectors.parallel.streams import on
from collectors.workloads import Step
from graphviz_dash.model.graph import CapturedGraph

REPLAYS: Final = 30
"""Replays of each graph that are timed."""


class Mode(Protocol):
    """What watches or directs a capture."""

    def start(self) -> None:
        """The step is about to begin."""

    def finish(self) -> None:
        """The step has ended."""

    def abandon(self) -> None:
        """The step raised."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: object) -> Any: ...


class StepGraph:
    """A captured step: its graph, ready to replay, and what the step returned."""

    def __init__(self, step: Step, stream: torch.cuda.Stream, mode: Mode | None = None) -> None:
        """Captures on ``stream``.

        Backward runs on this thread, so that it shares the workspaces of the forward.

        Raises:
            RefusedError: the step is not what it was, or cannot be run in parallel.
        """
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        before = torch.cuda.memory_reserved()
        self.graph = torch.cuda.CUDAGraph(keep_graph=True)
        try:
            with (
                torch.autograd.grad_mode.set_multithreading_enabled(False),
                on(stream),
                torch.cuda.graph(self.graph, stream=stream),
            ):
                self.result: object = step() if mode is None else _watched(step, mode)
        except RuntimeError as error:
            # Leaving a broken capture raises another error on top.
            if isinstance(error.__context__, RefusedError):
                raise error.__context__ from None
            raise
        self.graph.instantiate()
        self.memory_bytes = max(0, torch.cuda.memory_reserved() - before)
        """What the allocator took from the device for it."""

    def drop_result(self) -> None:
        """Lets go of what the step returned. A loss keeps autograd's nodes alive, which are bound
        to the stream of this capture: in a later one on another stream gradients would be handed
        from stream to stream, and torch would warn of it."""
        self.result = None

    def read(self) -> CapturedGraph:
        """Its nodes and edges, as the driver has them."""
        return read_graph(self.graph.raw_cuda_graph(), "graph-0")[0]

    def read_operands(self, reach: Reach) -> tuple[CapturedGraph, ...]:
        """The same and after it the bodies in it, with what their nodes may reach."""
        return read_graph_and_handles(self.graph.raw_cuda_graph(), "graph-0", reach)[0]

    def numbers_inside(self, storages: Mapping[int, torch.UntypedStorage]) -> list[int]:
        """The keys of those ``storages`` that lie in the memory that the capture took."""
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


def _watched(step: Step, mode: Mode) -> object:
    mode.start()
    with ExitStack() as undo:
        undo.callback(mode.abandon)
        with mode:
            result = step()
        mode.finish()
        undo.pop_all()
    return result


def time_replays(graphs: Sequence[StepGraph]) -> list[tuple[int, ...]]:
    """From launch to completion in ns, REPLAYS for each, in turns."""
    rows: list[list[int]] = [[] for _ in graphs]
    for each in graphs:
        for _ in range(3):
            each.graph.replay()
    torch.cuda.synchronize()
    for _ in range(REPLAYS):
        for row, each in zip(rows, graphs, strict=True):
            begin = time.perf_counter_ns()
            each.graph.replay()
            torch.cuda.synchronize()
            row.append(time.perf_counter_ns() - begin)
    return [tuple(row) for row in rows]


def median_ns(replays: Sequence[int]) -> float:
    """Their median."""
    return statistics.median(replays)
