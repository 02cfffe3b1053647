"""Observe every graph capture in this process.

While installed, ``torch.cuda.CUDAGraph`` is a subclass that notifies its listener. This covers
torch.cuda.graph, make_graphed_callables and torch.compile's CUDA graph trees.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

import torch

_Original = torch.cuda.CUDAGraph


class CaptureListener:
    """Callbacks of the recorder, which do nothing by default.

    ``graph_id`` counts captures in start order.
    """

    def on_capture_start(self, graph_id: str) -> None:
        """Called before a capture."""

    def on_capture_end(self, graph_id: str, handle: int, capture_ns: int) -> None:
        """Called after a capture; ``handle`` is the CUgraph, not yet instantiated."""

    def on_instantiation(self, graph_id: str, handle: int, instantiate_ns: int) -> None:
        """Called after instantiation."""

    def on_first_launch(self, graph_id: str, call_ns: int, complete_ns: int) -> None:
        """Called after the first launch, with times until return and until completion."""


def get_executable(graph: Any) -> int | None:
    """Return the CUgraphExec of a torch.cuda.CUDAGraph, or None if torch does not expose it."""
    getter = getattr(graph, "raw_cuda_graph_exec", None)
    return None if getter is None else int(getter())


@contextmanager
def record_captures(listener: CaptureListener) -> Iterator[Mapping[str, torch.cuda.CUDAGraph]]:
    """Notify ``listener`` of every capture; restores the original class on exit.

    Yields the live graphs by id.
    """
    count = 0
    graphs: WeakValueDictionary[str, torch.cuda.CUDAGraph] = WeakValueDictionary()

    class Recorded(_Original):  # type: ignore[misc,valid-type]  # torch may be without types
        """torch.cuda.CUDAGraph that keeps its graph for reading and is timed."""

        def __new__(cls, keep_graph: bool = False) -> Any:
            return super().__new__(cls, True)

        def __init__(self, keep_graph: bool = False) -> None:
            super().__init__(True)
            self._kept_by_user = keep_graph
            self._id = ""
            self._begin = 0

        def capture_begin(self, *args: Any, **kwargs: Any) -> None:
            nonlocal count
            self._id = f"graph-{count}"
            graphs[self._id] = self
            count += 1
            listener.on_capture_start(self._id)
            self._begin = time.perf_counter_ns()
            super().capture_begin(*args, **kwargs)

        def capture_end(self) -> None:
            super().capture_end()
            duration = time.perf_counter_ns() - self._begin
            listener.on_capture_end(self._id, self.raw_cuda_graph(), duration)
            if not self._kept_by_user:
                self.instantiate()

        def instantiate(self) -> None:
            begin = time.perf_counter_ns()
            super().instantiate()
            duration = time.perf_counter_ns() - begin
            listener.on_instantiation(self._id, self.raw_cuda_graph(), duration)

        def replay(self) -> None:
            torch.cuda.synchronize()
            begin = time.perf_counter_ns()
            super().replay()
            returned = time.perf_counter_ns()
            torch.cuda.synchronize()
            finish = time.perf_counter_ns()
            listener.on_first_launch(self._id, returned - begin, finish - begin)
            # Observe only the first launch; later launches must not be slowed down.
            self.__dict__["replay"] = super().replay

    torch.cuda.CUDAGraph = Recorded
    torch.cuda.graphs.CUDAGraph = Recorded
    try:
        yield graphs
    finally:
        torch.cuda.CUDAGraph = _Original
        torch.cuda.graphs.CUDAGraph = _Original
