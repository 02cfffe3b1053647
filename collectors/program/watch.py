"""Watch captures and replays in an unmodified program.

All captures through torch use ``torch.cuda.CUDAGraph`` or, since torch 2.12,
``torch.accelerator.Graph``. Their methods are replaced in the classes, which covers earlier imports
and derived classes. A graph is read while its capture is open, so that the program controls its
lifetime. :mod:`collectors.passes.capture_listener` serves our own passes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns
from typing import Any, Final, Protocol, TypeAlias

import torch
from cuda.bindings import driver

from collectors.driver.capture_mode import relax_capture_mode
from collectors.driver.topology import DriverError, call, read_graph
from collectors.guard import HIDDEN_FRAME, hide_frame
from collectors.program.loop.events import EventKind, Note
from collectors.program.loop.gpu_times import ReplayTimer
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.loop import SAMPLING_INTERVAL
from graphviz_dash.model.recording import BoundaryKind

COUNTER: Final = "_graphviz_dash_counter"

ReplayTick: TypeAlias = tuple[BoundaryKind, object, str]
"""Kind, candidate and description of an event that may end a step."""

_REPLAY: Final = int(EventKind.REPLAY)
_FIRST_TIMED: Final = 2
_PAIR: Final = 3
_ROUND: Final = 2 * SAMPLING_INTERVAL
_LATER: Final = 512
_LATER_ROUND: Final = 16 * SAMPLING_INTERVAL


def compute_next_timed(replays: int) -> int:
    """Return the number of the next replay to time on the GPU after number ``replays``.

    The first replay is special, so timing starts with the second. Later, two consecutive replays
    per round are timed, in case a step replays a graph twice. Rounds become longer.
    """
    if replays < _PAIR or replays % _ROUND == _PAIR:
        return replays + 1
    spacing = _ROUND if replays < _LATER else _LATER_ROUND
    return (replays // spacing + 1) * spacing + _PAIR


class ReplayCounter:
    """Counters of one graph. The graph refers to it, never the other way round.

    ``replays``: number of launches. ``awake``: True if the watcher handles each replay. ``note``:
    records each launch as an event of the graph ``number``, or None. ``timed_at``: next replay to
    time on the GPU. ``tick``: candidate for the end of a step if the replay follows that of
    ``follows``, or any if that is None. None if unknown. ``step``: number of the step in which it
    ticked last. ``end_plain_step``: ends a step at each replay, while no other graph's replays are
    handled, and returns False without doing so if more is needed. None otherwise.
    """

    __slots__ = (
        "_graph",
        "awake",
        "end_plain_step",
        "follows",
        "id",
        "note",
        "number",
        "replays",
        "step",
        "tick",
        "timed_at",
    )

    def __init__(
        self, graph_id: str, graph: object | None, number: int = 0, note: Note | None = None
    ) -> None:
        self.id = graph_id
        self.number = number
        self.note = note
        self.replays = 0
        self.timed_at = _FIRST_TIMED
        self.awake = graph is not None
        self.tick: ReplayTick | None = None
        self.step = -1
        self.follows: ReplayCounter | None = None
        self.end_plain_step: Callable[[Note], bool] | None = None
        self._graph = weakref.ref(graph) if graph is not None else None

    @property
    def alive(self) -> bool:
        """True if the program still holds the graph."""
        return self._graph is not None and self._graph() is not None


class Watcher(Protocol):
    """Handles captures and replays, in the threads of the program. Raises nothing."""

    def begin_capture(self, graph: object, pool: Any) -> ReplayCounter | None:
        """Handle the start of a capture into ``pool``, None if the program names none.

        Returns the counter, already attached to the graph, or None to ignore the capture.
        """

    def end_capture(self, counter: ReplayCounter) -> None:
        """Handle the end of a capture on the current stream; its graph can be read."""

    def record_capture(self, counter: ReplayCounter, graph: object, duration_ns: int) -> None:
        """Handle a finished capture whose ending and instantiating call lasted ``duration_ns``."""

    def record_instantiation(self, counter: ReplayCounter, start_ns: int, duration_ns: int) -> None:
        """Handle the instantiation of a graph that the program keeps; starts at ``start_ns`` by the
        performance counter."""

    def record_failure(self, counter: ReplayCounter, error: BaseException) -> None:
        """Handle a capture that could not start or end. The program receives ``error``."""

    record_replay: Callable[[ReplayCounter], None]
    """Handles the replay of an awake graph."""

    def record_first_launch(self, counter: ReplayCounter, start_ns: int, end: int) -> None:
        """Handle the first launch of a graph. Times are of the performance counter."""

    def create_timer(self, counter: ReplayCounter) -> ReplayTimer | None:
        """Create a timer for the next replay on the GPU, or None."""


class _Passing:
    """Context around torch's part of a capture: hides the recorder's frame from errors and reports
    them to ``watcher`` if the capture is watched, by ``counter``."""

    __slots__ = ("_counter", "_watcher")

    def __init__(self, watcher: Watcher, counter: ReplayCounter | None) -> None:
        self._watcher = watcher
        self._counter = counter

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None:
            return
        if self._counter is not None:
            self._watcher.record_failure(self._counter, error)
        hide_frame(error)


class _FirstLaunch:
    __slots__ = ("_counter", "_watcher")

    def __init__(self, watcher: Watcher, counter: ReplayCounter) -> None:
        self._watcher = watcher
        self._counter = counter

    def end(self, start_ns: int) -> None:
        self._watcher.record_first_launch(self._counter, start_ns, perf_counter_ns())


def attach(graph: object, counter: ReplayCounter) -> None:
    """Attach ``counter`` to ``graph``.

    Raises:
        AttributeError: The graph accepts no attributes.
    """
    # Without setattr, which a class of the program may override.
    object.__setattr__(graph, COUNTER, counter)


def watch_graphs(watcher: Watcher, earlier: ReplayCounter) -> Callable[[], None]:
    """Report captures and replays to ``watcher`` until the returned function restores torch.

    ``earlier`` counts the replays of graphs unknown to ``watcher``.
    """
    stops = [_watch_class(graph_class, watcher, earlier) for graph_class in _list_graph_classes()]

    def stop() -> None:
        for stop_class in stops:
            stop_class()

    return stop


def _list_graph_classes() -> list[Any]:
    """Return torch's graph classes: since 2.12 there is one for every accelerator besides
    CUDA's."""
    anywhere = getattr(getattr(torch, "accelerator", None), "Graph", None)
    return [torch.cuda.CUDAGraph, *([] if anywhere is None else [anywhere])]


def _watch_class(graph_class: Any, watcher: Watcher, earlier: ReplayCounter) -> Callable[[], None]:
    replacement = _build_methods(graph_class, watcher, earlier)
    originals = {name: getattr(graph_class, name) for name in replacement}
    for name, method in replacement.items():
        setattr(graph_class, name, method)

    def stop() -> None:
        for name, method in replacement.items():
            # A replacement by the program stays and calls this one, which passes the call on.
            if getattr(graph_class, name) is method:
                setattr(graph_class, name, originals[name])

    return stop


def _build_methods(
    graph_class: Any, watcher: Watcher, earlier: ReplayCounter
) -> dict[str, Callable[..., None]]:
    begin, end = graph_class.capture_begin, graph_class.capture_end

    def capture_begin(self: Any, *args: Any, **kwargs: Any) -> None:
        counter = watcher.begin_capture(self, _get_pool(self, args, kwargs))
        with _Passing(watcher, counter):
            begin(self, *args, **kwargs)

    def capture_end(self: Any) -> None:
        counter = getattr(self, COUNTER, earlier)
        # A capture started by a base class's method, or before the watcher, is not watched.
        is_watched = counter is not earlier
        if is_watched:
            watcher.end_capture(counter)
        start_ns = perf_counter_ns()
        with _Passing(watcher, counter if is_watched else None):
            end(self)
        if is_watched:
            watcher.record_capture(counter, self, perf_counter_ns() - start_ns)

    methods = {
        "capture_begin": capture_begin,
        "capture_end": capture_end,
        "replay": _build_replay(graph_class, watcher, earlier),
    }
    if hasattr(graph_class, "instantiate"):
        methods["instantiate"] = _build_instantiate(graph_class, watcher, earlier)
    return methods


def _build_replay(
    graph_class: Any, watcher: Watcher, earlier: ReplayCounter
) -> Callable[..., None]:
    launch = _find_launch(graph_class)

    # The only frequent method: a count, a flag and a note.
    def replay(self: Any) -> None:
        try:
            counter = self._graphviz_dash_counter
        except AttributeError:
            # A default in the class would prevent Python from caching where the attribute is.
            counter = earlier
        counter.replays = replays = counter.replays + 1
        note = counter.note
        timer: _FirstLaunch | ReplayTimer | None = None
        if counter.awake and (
            note is None or (end_step := counter.end_plain_step) is None or not end_step(note)
        ):
            watcher.record_replay(counter)
            if replays == 1 and note is not None:
                timer = _FirstLaunch(watcher, counter)
        if note is not None:
            if replays >= counter.timed_at:
                counter.timed_at = compute_next_timed(replays)
                timer = watcher.create_timer(counter)
            start_ns = perf_counter_ns()
        # A context adds a tenth to the cost of a replay. torch's CUDA errors and KeyboardInterrupt
        # are unchanged; other errors get an additional frame.
        try:
            launch(self)
        except (RuntimeError, KeyboardInterrupt) as error:
            hide_frame(error)
            raise
        if note is not None:
            note((_REPLAY, counter.number, get_ident(), start_ns, perf_counter_ns()))
        if timer is not None:
            timer.end(start_ns)

    return replay


def _build_instantiate(
    graph_class: Any, watcher: Watcher, earlier: ReplayCounter
) -> Callable[..., None]:
    instantiate = graph_class.instantiate

    def timed_instantiate(self: Any, *args: Any, **kwargs: Any) -> None:
        start_ns = perf_counter_ns()
        with HIDDEN_FRAME:
            instantiate(self, *args, **kwargs)
        duration_ns = perf_counter_ns() - start_ns
        counter = getattr(self, COUNTER, earlier)
        if counter is not earlier:
            watcher.record_instantiation(counter, start_ns, duration_ns)

    return timed_instantiate


def _get_pool(graph: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if hasattr(graph, "graph_pool"):
        return graph.graph_pool
    return args[0] if args else kwargs.get("pool")


def _find_launch(graph_class: Any) -> Any:
    """Return the method that launches a graph.

    If torch's ``replay`` only calls the method that it overrides, the count takes its place and a
    replay costs the same as before.
    """
    names = graph_class.replay.__code__.co_names
    return graph_class.__base__.replay if names == ("super", "replay") else graph_class.replay


def read_open_capture(graph_id: str) -> tuple[CapturedGraph, ...]:
    """Read the graph that the current stream captures, and its bodies.

    Raises:
        DriverError: The stream captures nothing, or the capture is invalid.
    """
    # The driver's calls, unlike the runtime's, leave no error behind for torch.
    stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
    status, _, graph, *_ = call(driver.cuStreamGetCaptureInfo, stream)
    if status != driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE:
        raise DriverError("cuStreamGetCaptureInfo", status.name, int(status))
    # A capturing thread in strict mode is denied queries that might load code lazily.
    with relax_capture_mode():
        return read_graph(int(graph), graph_id)
