"""Notices captures and replays in a program that is not ours.

Everybody who captures through torch does so with ``torch.cuda.CUDAGraph``: torch.cuda.graph,
make_graphed_callables, the cudagraph trees of torch.compile, vLLM, Megatron; or, since torch
2.12, with ``torch.accelerator.Graph``. Their methods are replaced in the classes themselves, so
that names imported earlier and derived classes are covered. A graph is read while its capture is
still open, so that it is kept no longer than the program keeps it;
:mod:`collectors.passes.capture_listener` is for our own passes, which keep each one to time its
instantiation.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns
from typing import Any, Final, Protocol

import torch
from cuda.bindings import driver

from collectors.driver.capture_mode import relax_capture_mode
from collectors.driver.topology import DriverError, call, read_graph
from collectors.guard import HIDDEN_FRAME, hide_frame
from collectors.program.loop.events import EventKind, Note
from collectors.program.loop.gpu_times import ReplayTimer
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.loop import SAMPLING_INTERVAL

COUNTER: Final = "_graphviz_dash_counter"
"""The attribute of a graph that holds its counter."""


_REPLAY: Final = int(EventKind.REPLAY)
_FIRST_TIMED: Final = 2
_PAIR: Final = 3
_ROUND: Final = 2 * SAMPLING_INTERVAL
_LATER: Final = 512
_LATER_ROUND: Final = 16 * SAMPLING_INTERVAL


def next_timed(replays: int) -> int:
    """Which replay of a graph is timed on the GPU after that of number ``replays``: the second, not
    the first, which is not like the others; then two in a row of so many, so that a step is whole
    that replays a graph twice. A graph that has been replayed often is timed less often."""
    if replays < _PAIR or replays % _ROUND == _PAIR:
        return replays + 1
    spacing = _ROUND if replays < _LATER else _LATER_ROUND
    return (replays // spacing + 1) * spacing + _PAIR


class ReplayCounter:
    """What is counted of one graph. The graph holds it, never the other way round.

    ``replays``: how often it was launched. ``awake``: whether the watcher is told of each replay.
    ``note``: notes each launch, as an event of the graph ``number``; None: none does. ``timed_at``:
    which is timed on the GPU next.
    """

    __slots__ = ("_graph", "awake", "id", "note", "number", "replays", "timed_at")

    def __init__(
        self, graph_id: str, graph: object | None, number: int = 0, note: Note | None = None
    ) -> None:
        self.id = graph_id
        self.number = number
        self.note = note
        self.replays = 0
        self.timed_at = _FIRST_TIMED
        self.awake = graph is not None
        self._graph = weakref.ref(graph) if graph is not None else None

    @property
    def alive(self) -> bool:
        """Whether the program still holds the graph."""
        return self._graph is not None and self._graph() is not None


class Watcher(Protocol):
    """What is told of captures and replays, in the thread that makes them. It raises nothing."""

    def begins(self, graph: object, pool: Any) -> ReplayCounter | None:
        """A capture is about to begin into the memory pool ``pool``, None where the program names
        none; the answer is what counts for this graph from now on, which
        it has attached to the graph. None: this capture is not watched."""

    def ends(self, counter: ReplayCounter) -> None:
        """A capture is about to end on the current stream; its graph can be read."""

    def captured(self, counter: ReplayCounter, graph: object, took: int) -> None:
        """A capture ended well; the call that ends it and instantiates took so many ns."""

    def instantiated(self, counter: ReplayCounter, took: int) -> None:
        """The program instantiated a graph that it keeps."""

    def failed(self, counter: ReplayCounter, error: BaseException) -> None:
        """A capture could not be begun or ended; the program gets ``error``."""

    def replays(self, counter: ReplayCounter) -> None:
        """A graph that is awake is about to be replayed."""

    def timer(self, counter: ReplayCounter) -> ReplayTimer | None:
        """What times the replay that comes next on the GPU; None where nothing does."""


class _Passing:
    """Around torch's own part of a capture: an error goes on to the program without the frame of
    ours, and ``watcher`` is told of it where the capture is watched, by ``counter``."""

    __slots__ = ("_counter", "_watcher")

    def __init__(self, watcher: Watcher, counter: ReplayCounter | None) -> None:
        self._watcher = watcher
        self._counter = counter

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """The error goes on."""
        if error is None:
            return
        if self._counter is not None:
            self._watcher.failed(self._counter, error)
        hide_frame(error)


def attach(graph: object, counter: ReplayCounter) -> None:
    """Makes ``counter`` what counts the replays of ``graph``.

    Raises:
        AttributeError: the graph takes no attributes.
    """
    # Not by setattr, which a class of the program's may have made its own.
    object.__setattr__(graph, COUNTER, counter)


def watch_graphs(watcher: Watcher, earlier: ReplayCounter) -> Callable[[], None]:
    """Has ``watcher`` told from now on, until the function that is returned is called: then torch
    is as it was.

    Args:
        watcher: is told of captures and replays.
        earlier: counts the replays of all graphs that ``watcher`` knows nothing of.
    """
    stops = [_watch_class(graph_class, watcher, earlier) for graph_class in _graph_classes()]

    def stop() -> None:
        for stop_class in stops:
            stop_class()

    return stop


def _graph_classes() -> list[Any]:
    """torch's classes of graphs: since 2.12 there is one for every accelerator besides CUDA's."""
    anywhere = getattr(getattr(torch, "accelerator", None), "Graph", None)
    return [torch.cuda.CUDAGraph, *([] if anywhere is None else [anywhere])]


def _watch_class(graph_class: Any, watcher: Watcher, earlier: ReplayCounter) -> Callable[[], None]:
    ours = _watched_methods(graph_class, watcher, earlier)
    originals = {name: getattr(graph_class, name) for name in ours}
    setattr(graph_class, COUNTER, earlier)
    for name, method in ours.items():
        setattr(graph_class, name, method)

    def stop() -> None:
        for name, method in ours.items():
            # What the program has put over ours stays, and finds ours, which passes on.
            if getattr(graph_class, name) is method:
                setattr(graph_class, name, originals[name])
        delattr(graph_class, COUNTER)

    return stop


def _watched_methods(
    graph_class: Any, watcher: Watcher, earlier: ReplayCounter
) -> dict[str, Callable[..., None]]:
    """The methods of a graph as the program calls them while it is watched."""
    begin, end = graph_class.capture_begin, graph_class.capture_end

    def capture_begin(self: Any, *args: Any, **kwargs: Any) -> None:
        counter = watcher.begins(self, _pool_of(self, args, kwargs))
        with _Passing(watcher, counter):
            begin(self, *args, **kwargs)

    def capture_end(self: Any) -> None:
        counter = getattr(self, COUNTER, earlier)
        # One that began by a base class's method, or before the watcher was there, is not watched.
        is_watched = counter is not earlier
        if is_watched:
            watcher.ends(counter)
        began = perf_counter_ns()
        with _Passing(watcher, counter if is_watched else None):
            end(self)
        if is_watched:
            watcher.captured(counter, self, perf_counter_ns() - began)

    methods = {
        "capture_begin": capture_begin,
        "capture_end": capture_end,
        "replay": _watched_replay(graph_class, watcher, earlier),
    }
    if hasattr(graph_class, "instantiate"):
        methods["instantiate"] = _watched_instantiate(graph_class, watcher, earlier)
    return methods


def _watched_replay(
    graph_class: Any, watcher: Watcher, earlier: ReplayCounter
) -> Callable[..., None]:
    launch = _launch_of(graph_class)

    # The one method that runs again and again: a count, a flag and a note, nothing else.
    def replay(self: Any) -> None:
        try:
            counter = self._graphviz_dash_counter
        except AttributeError:
            # The watching is over, and the program has kept the method from before.
            counter = earlier
        counter.replays += 1
        note = counter.note
        if counter.awake:
            watcher.replays(counter)
        timer = None
        if note is not None:
            if counter.replays >= counter.timed_at:
                counter.timed_at = next_timed(counter.replays)
                timer = watcher.timer(counter)
            began = perf_counter_ns()
        # A context costs a replay a tenth. What torch makes of CUDA's answers and what a user at a
        # keyboard ends look as without us; whatever else comes goes on with one frame more.
        try:
            launch(self)
        except (RuntimeError, KeyboardInterrupt) as error:
            hide_frame(error)
            raise
        if note is not None:
            note((_REPLAY, counter.number, get_ident(), began, perf_counter_ns()))
        if timer is not None:
            timer.ended(began)

    return replay


def _watched_instantiate(
    graph_class: Any, watcher: Watcher, earlier: ReplayCounter
) -> Callable[..., None]:
    instantiate = graph_class.instantiate

    def timed_instantiate(self: Any, *args: Any, **kwargs: Any) -> None:
        began = perf_counter_ns()
        with HIDDEN_FRAME:
            instantiate(self, *args, **kwargs)
        counter = getattr(self, COUNTER, earlier)
        if counter is not earlier:
            watcher.instantiated(counter, perf_counter_ns() - began)

    return timed_instantiate


def _pool_of(graph: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The memory pool that the program names for a capture; None where it names none."""
    if hasattr(graph, "graph_pool"):
        return graph.graph_pool
    return args[0] if args else kwargs.get("pool")


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
    with relax_capture_mode():
        return read_graph(int(graph), graph_id)
