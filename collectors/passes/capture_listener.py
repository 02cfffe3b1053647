"""Notices every graph that is captured in this process, whoever captures it.

torch.cuda.graph, make_graphed_callables and the cudagraph trees of torch.compile all make
``torch.cuda.CUDAGraph`` objects; while the recorder is installed that name is a subclass, which
tells its listener of each capture and otherwise does what the original does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol
from weakref import WeakValueDictionary

import torch

_Original = torch.cuda.CUDAGraph


class Listener(Protocol):
    """What the recorder tells. ``graph_id`` counts captures in the order they begin."""

    def begins(self, graph_id: str) -> None:
        """A capture is about to begin."""

    def captured(self, graph_id: str, handle: int, capture_ns: int) -> None:
        """A capture ended; ``handle`` is the CUgraph, not yet instantiated."""

    def instantiated(self, graph_id: str, handle: int, instantiate_ns: int) -> None:
        """The graph of a capture was instantiated."""

    def launched(self, graph_id: str, call_ns: int, complete_ns: int) -> None:
        """The graph was launched for the first time: to the call's return, and to completion."""


def executable_of(graph: Any) -> int | None:
    """The CUgraphExec of a torch.cuda.CUDAGraph, None where this torch does not give it."""
    ask = getattr(graph, "raw_cuda_graph_exec", None)
    return None if ask is None else int(ask())


class NullListener:
    """A listener that does nothing with what it is told."""

    def begins(self, graph_id: str) -> None:
        """Nothing."""

    def captured(self, graph_id: str, handle: int, capture_ns: int) -> None:
        """Nothing."""

    def instantiated(self, graph_id: str, handle: int, instantiate_ns: int) -> None:
        """Nothing."""

    def launched(self, graph_id: str, call_ns: int, complete_ns: int) -> None:
        """Nothing."""


@contextmanager
def recording(listener: Listener) -> Iterator[Mapping[str, torch.cuda.CUDAGraph]]:
    """While it lasts, ``listener`` is told of every capture; the original class is put back.

    Yields the graphs by id, those that the program still holds.
    """
    count = 0
    graphs: WeakValueDictionary[str, torch.cuda.CUDAGraph] = WeakValueDictionary()

    class Recorded(_Original):  # type: ignore[misc,valid-type]  # torch may be without types
        """torch.cuda.CUDAGraph that keeps its graph until it is read, and is timed."""

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
            listener.begins(self._id)
            self._begin = time.perf_counter_ns()
            super().capture_begin(*args, **kwargs)

        def capture_end(self) -> None:
            super().capture_end()
            took = time.perf_counter_ns() - self._begin
            listener.captured(self._id, self.raw_cuda_graph(), took)
            if not self._kept_by_user:
                self.instantiate()

        def instantiate(self) -> None:
            begin = time.perf_counter_ns()
            super().instantiate()
            took = time.perf_counter_ns() - begin
            listener.instantiated(self._id, self.raw_cuda_graph(), took)

        def replay(self) -> None:
            torch.cuda.synchronize()
            begin = time.perf_counter_ns()
            super().replay()
            returned = time.perf_counter_ns()
            torch.cuda.synchronize()
            done = time.perf_counter_ns()
            listener.launched(self._id, returned - begin, done - begin)
            # Only the first launch is watched: later ones must cost what they cost without us.
            self.__dict__["replay"] = super().replay

    torch.cuda.CUDAGraph = Recorded
    torch.cuda.graphs.CUDAGraph = Recorded
    try:
        yield graphs
    finally:
        torch.cuda.CUDAGraph = _Original
        torch.cuda.graphs.CUDAGraph = _Original
