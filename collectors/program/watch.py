"""Notices captures and replays in a program that is not ours.

Everybody who captures through torch does so with ``torch.cuda.CUDAGraph``: torch.cuda.graph,
make_graphed_callables, the cudagraph trees of torch.compile, vLLM, Megatron. Its methods are
replaced in the class itself, so that names imported earlier and derived classes are covered. A
graph is read while its capture is still open, so that it is kept no longer than the program keeps
it; :mod:`collectors.passes.capture_listener` is for our own passes, which keep each one to time its
instantiation.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Protocol

import torch
from cuda.bindings import driver

from collectors.driver.topology import DriverError, call, read_graph
from graphviz_dash.model.graph import CapturedGraph

_SEEN: Final = "_graphviz_dash_seen"


class Seen:
    """What is counted of one graph. The graph holds it, never the other way round.

    ``replays``: how often it was launched. ``awake``: whether the watcher is told of each replay.
    """

    __slots__ = ("_graph", "awake", "id", "replays")

    def __init__(self, graph_id: str, graph: object | None) -> None:
        self.id = graph_id
        self.replays = 0
        self.awake = graph is not None
        self._graph = weakref.ref(graph) if graph is not None else None

    @property
    def alive(self) -> bool:
        """Whether the program still holds the graph."""
        return self._graph is not None and self._graph() is not None


class Watcher(Protocol):
    """What is told of captures and replays, in the thread that makes them."""

    def begins(self, graph: object) -> Seen:
        """A capture is about to begin; the answer is what counts for this graph from now on."""

    def ends(self, seen: Seen) -> None:
        """A capture is about to end on the current stream; its graph can be read."""

    def captured(self, seen: Seen) -> None:
        """A capture ended well."""

    def failed(self, seen: Seen, error: BaseException) -> None:
        """A capture could not be begun or ended; the program gets ``error``."""

    def replays(self, seen: Seen) -> None:
        """A graph that is awake is about to be replayed."""


class _Failing:
    """Tells the watcher of an error that passes by on its way to the program."""

    def __init__(self, watcher: Watcher, seen: Seen) -> None:
        self._watcher, self._seen = watcher, seen

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._watcher.failed(self._seen, error)


@contextmanager
def watching(watcher: Watcher, earlier: Seen) -> Iterator[None]:
    """While it lasts, ``watcher`` is told; then torch is as it was.

    Args:
        watcher: what it raises reaches the program.
        earlier: counts the replays of all graphs that were captured before.
    """
    graph_class = torch.cuda.CUDAGraph
    begin, end, original = (
        graph_class.capture_begin,
        graph_class.capture_end,
        graph_class.replay,
    )
    launch = _launch_of(graph_class)

    def capture_begin(self: Any, *args: Any, **kwargs: Any) -> None:
        seen = watcher.begins(self)
        setattr(self, _SEEN, seen)
        with _Failing(watcher, seen):
            begin(self, *args, **kwargs)

    def capture_end(self: Any) -> None:
        seen = getattr(self, _SEEN)
        watcher.ends(seen)
        with _Failing(watcher, seen):
            end(self)
        watcher.captured(seen)

    # The one method that runs again and again: a count and a flag, nothing else.
    def replay(self: Any) -> None:
        seen = self._graphviz_dash_seen
        seen.replays += 1
        if seen.awake:
            watcher.replays(seen)
        launch(self)

    setattr(graph_class, _SEEN, earlier)
    graph_class.capture_begin = capture_begin
    graph_class.capture_end = capture_end
    graph_class.replay = replay
    try:
        yield
    finally:
        graph_class.capture_begin, graph_class.capture_end = begin, end
        graph_class.replay = original
        delattr(graph_class, _SEEN)


def _launch_of(graph_class: Any) -> Any:
    """What launches a graph. torch's ``replay`` does nothing but call the method that it overrides;
    where that is so the count takes its place, and a replay costs what it cost before."""
    names = graph_class.replay.__code__.co_names
    return graph_class.__base__.replay if names == ("super", "replay") else graph_class.replay


def read_open_capture(graph_id: str) -> tuple[CapturedGraph, ...]:
    """The graph that the current stream is capturing, and the bodies in it.

    Raises:
        DriverError: the stream captures nothing, or what it captured is invalid already.
    """
    # The driver's calls, unlike the runtime's, leave no error behind for torch to stumble on.
    stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
    status, _, graph, *_ = call(driver.cuStreamGetCaptureInfo, stream)
    if status != driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE:
        raise DriverError("cuStreamGetCaptureInfo", status.name, int(status))
    # Queries that might load code lazily are refused to a thread that captures, unless relaxed.
    mode = call(
        driver.cuThreadExchangeStreamCaptureMode,
        driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED,
    )
    try:
        return read_graph(int(graph), graph_id)
    finally:
        call(driver.cuThreadExchangeStreamCaptureMode, mode)
