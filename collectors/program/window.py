"""Profile parts of a running program: a window of its steps, and its captures.

The marks are those of collected passes, so that recorded programs are displayed the same way.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import get_ident
from typing import Final

import torch
from torch.profiler import record_function

from collectors.guard import Guard
from collectors.passes.annotate import annotate_captures
from collectors.program.detach import reserve_variable
from collectors.program.files import Settings
from collectors.program.profiler_session import (
    BUSY_THREAD,
    Session,
    StoppedSession,
    TraceWriter,
    start_session,
)
from collectors.program.profiler_watch import ProfilerWatch
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.marks import CAPTURE, STEP
from graphviz_dash.model.recording import WindowEnd

SETTLE: Final = 3
"""Profiled steps before the marked ones: CUPTI allocates its buffers then."""

_CLOSE_S: Final = 1.0
"""Maximum wait in seconds for the traced thread to close the window."""

_EVENT_PAUSE_NS: Final = 25_000
"""Pause for each event when the window closes: torch stops the profiler, writes the trace and frees
it while it holds Python's lock. The longest measured on an H100 with 20,000 events; 14 µs are
common."""
_CLOSE_PAUSE_NS: Final = 20_000_000
"""Pause for any number of events, mostly to detach CUPTI."""
_OPEN_PAUSE_NS: Final = 20_000_000
"""Pause when the window opens, before it is known. Up to 122 ms were measured."""
_LONG_STEPS: Final = 20
"""Steps with too many events before the window is given up: a server may prefill in between."""

_EXTENSION_SHARE: Final = 4
"""Divisor of the event limit after the requested steps: stopping must not pause for long to trace
further sizes, which are timed without a profiler. Eager work between segments has up to 1.6 times
as many events as estimated."""

_CALL_EVENTS: Final = 3
"""Events of a graph launch besides its nodes."""
_OPERATOR_EVENTS: Final = 9
"""Events per allocation of eager work: operators, runtime calls and kernels."""
_UNKNOWN_NODES: Final = 1_000
_COUNT_NS: Final = 20_000_000
"""Minimum time between two queries of the allocator within a step."""

OTHER_THREADS: Final = "several threads launch graphs, which may run while CUPTI detaches"

UNUSED: Final = "the program has not used CUDA"


class TracedWindow:
    """A window of marked, synchronised steps. Call :meth:`end_step` between them.

    ``profiling``: True while the profiler runs. ``marked``: number of complete steps in the trace.
    ``done``: True if no more steps follow. ``refused``: reason for a missing trace, or None.
    ``open_ns`` and ``close_ns``: pauses of the program, None before. ``attached``: reason why CUPTI
    is still attached afterwards, or None. ``ended_by``: reason for the end of the window.
    ``thread_ends`` is called if the traced thread ends in it.
    """

    def __init__(
        self,
        settings: Settings,
        trace: Path,
        guard: Guard,
        on_mark: Callable[[int, int, int], None],
        thread_ends: Callable[[], None],
        profilers: ProfilerWatch,
    ) -> None:
        steps = settings.window
        self.profiling = False
        self.done = steps == 0
        self.marked = 0
        self.refused = "no traced window was asked for" if steps == 0 else None
        self.open_ns: int | None = None
        self._stop_ns: int | None = None
        self.attached: str | None = None
        self.ended_by: WindowEnd | None = None
        self.traces = TraceWriter(guard)
        self._settings = settings
        self._on_mark = on_mark
        self._thread_ends = thread_ends
        self._profilers = profilers
        self._opening = threading.Lock()
        self._request: tuple[WindowEnd | None, bool] | None = None
        self._closed = threading.Event()
        self._closed.set()
        self._taking = threading.Lock()
        self._began = self._marked_from = self._counted_at = 0
        self._events = self._allocations = 0
        self._limit = _compute_event_limit(settings, _OPEN_PAUSE_NS)
        self._total: int | None = None
        self._step_events = self._events_before = self._long_steps = 0
        self._trace = trace
        self._settled = 0
        self._threads: set[int] = set()
        self._session: Session | None = None
        self._step: record_function | None = None
        self._capture: record_function | None = None
        self._capturing = 0

    @property
    def close_ns(self) -> int | None:
        """Pause of the program for stopping the profiler and writing the trace, in ns."""
        if self._stop_ns is None:
            return None
        return self._stop_ns + self.traces.get_blocked_ns(self._trace)

    def prepare(self) -> None:
        """Prepare for a profiler at the start of the process."""
        reserve_variable()

    def measure_step(self, replay_events: int) -> bool:
        """Estimate the events of the step since the last call, before the window opens.

        Returns True if the window should wait for a step with fewer events.

        Args:
            replay_events: Events of all replays so far.
        """
        if not torch.cuda.is_initialized():
            return False
        total = replay_events + _OPERATOR_EVENTS * _count_allocations()
        self._step_events = 0 if self._total is None else max(0, total - self._total)
        self._total = total
        self._long_steps += self._step_events > self._limit
        return self._step_events > self._limit and self._long_steps < _LONG_STEPS

    def open(self) -> None:
        """Start the profiler, at a boundary between two steps."""
        if self._step_events > self._limit:
            self.refused, self.done = self._explain_long_step(), True
            return
        # Never released: the window opens once, in one thread.
        if not self._opening.acquire(blocking=False):
            return
        if not torch.cuda.is_initialized():
            self.refused, self.done = UNUSED, True
            return
        begin = time.perf_counter_ns()
        torch.cuda.synchronize()
        self._closed.clear()
        try:
            session = start_session(Fact.TRACED_PASS, False, self._thread_ends, self._profilers)
            if isinstance(session, Missing):
                self.refused, self.done = session.reason, True
                return
            self._session, self.profiling = session, True
        finally:
            if not self.profiling:
                self._closed.set()
        self._allocations = _count_allocations()
        self._began = self._counted_at = time.perf_counter_ns()
        self.open_ns = self._began - begin
        self._limit = _compute_event_limit(self._settings, self.open_ns)
        if self._step_events * SETTLE > self._limit:
            self._begin_step()

    def _explain_long_step(self) -> str:
        pause_s = (self._step_events * _EVENT_PAUSE_NS + _OPEN_PAUSE_NS + _CLOSE_PAUSE_NS) / 1e9
        return (
            f"one step has about {self._step_events:,} events, which would pause the program for "
            f"about {pause_s:.1f} s: --window-pause {math.ceil(2 * pause_s)}"
        )

    def _begin_step(self) -> None:
        self._step = record_function(f"{STEP}{self.marked}")
        self._marked_from = time.perf_counter_ns()
        self._step.__enter__()

    def end_step(self, covers: bool) -> None:
        """End a step in the window: mark the next one, or close after the last.

        ``covers``: the window contains all required graphs.
        """
        session = self._session
        if session is None:
            return
        if not session.is_owner:
            self._request = self._request or (WindowEnd.THREAD, True)
            return
        torch.cuda.synchronize()
        now = time.perf_counter_ns()
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None
            self._on_mark(self.marked, self._marked_from, now)
            self.marked += 1
        self._settled += 1
        self._add_allocations(now)
        self._step_events = self._events - self._events_before
        self._events_before = self._events
        end = self._find_limit(covers, now)
        if self._request is not None:
            self.close(*self._request)
        elif end is not None:
            self.close(end)
        elif self._settled >= SETTLE or self._exceeds_settling():
            self._begin_step()

    def count_replay(self, nodes: int | None) -> None:
        """Count a replay of a graph with ``nodes`` nodes, None if unknown, and check the limit."""
        self._threads.add(get_ident())
        self._events += count_replay_events(nodes)
        self.check_limit()

    def check_limit(self) -> None:
        """Close the window, in the traced thread, after too many events."""
        session = self._session
        if session is None or not session.is_owner:
            return
        if self._request is not None:
            torch.cuda.synchronize()
            self.close(*self._request)
            return
        now = time.perf_counter_ns()
        if now - self._counted_at > _COUNT_NS:
            self._add_allocations(now)
        if self._events >= self._limit:
            torch.cuda.synchronize()
            self.close(WindowEnd.EVENTS)

    def _add_allocations(self, now: int) -> None:
        """Estimate the events of eager work: most operators allocate their result."""
        self._counted_at = now
        allocations = _count_allocations()
        self._events += _OPERATOR_EVENTS * max(0, allocations - self._allocations)
        self._allocations = allocations

    def _exceeds_settling(self) -> bool:
        return self._events * 2 * SETTLE > self._limit

    def _find_limit(self, covers: bool, now: int) -> WindowEnd | None:
        settings = self._settings
        if self.marked >= settings.window and (covers or self.marked >= settings.window_replays):
            return WindowEnd.STEPS
        # Eager work is counted at the end of a step only, so the next one must fit.
        if self._events + (self._step_events if self.marked else 0) >= self._limit:
            return WindowEnd.EVENTS
        if self.marked < settings.window:
            return None
        if self._events * _EXTENSION_SHARE >= self._limit:
            return WindowEnd.EVENTS
        seconds = settings.window_seconds
        late = seconds is not None and now - self._began >= seconds * 1e9
        return WindowEnd.SECONDS if late else None

    def close(self, end: WindowEnd | None = None, detach: bool = True) -> None:
        """Stop the profiler, which ends the range of an unfinished step. Another thread waits a
        moment for the traced thread to close the window.

        Args:
            end: Reason. None if the program ends.
            detach: False if the program ends or starts a profiler.
        """
        session = self._session
        if not self._closed.is_set() and (session is None or not session.is_owner):
            # Without a session, another thread is opening or closing the window.
            self._request = end, detach
            self._closed.wait(_CLOSE_S)
        with self._taking:
            session, self._session = self._session, None
        if session is None:
            return
        self.profiling, self.done = False, True
        self.ended_by = end or WindowEnd.PROGRAM
        try:
            self._keep_result(
                session.stop(
                    self._trace, self.traces, self._set_refusal, detach, self._find_obstacle()
                )
            )
            if session.is_owner:
                self._end_ranges()
            else:
                self._profilers.keep_session(session)
        finally:
            self._closed.set()

    def _end_ranges(self) -> None:
        # A range that ended under the next profiler would write into freed memory.
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None
        self.end_capture()

    def _find_obstacle(self) -> str | None:
        # Detaching during a graph launch makes that launch fail.
        return OTHER_THREADS if len(self._threads) > 1 else None

    def _keep_result(self, stopped: StoppedSession) -> None:
        self.refused, self.attached = stopped.problem, stopped.attached_reason
        self._stop_ns = None if stopped.problem == BUSY_THREAD else stopped.close_ns

    def _set_refusal(self, problem: str) -> None:
        self.refused = problem

    def begin_capture(self, graph_id: str) -> None:
        """Mark a capture in the window, in the traced thread."""
        if self._session is not None and self._session.is_owner:
            self._capturing = get_ident()
            self._capture = record_function(CAPTURE + graph_id)
            self._capture.__enter__()

    def end_capture(self) -> None:
        """End the mark of a capture."""
        if self._capture is not None and self._capturing == get_ident():
            self._capture.__exit__(None, None, None)
            self._capture = None


class CaptureSession:
    """Profiler from the first capture until some steps have no further capture.

    One session only: before CUDA 13.1 Update 1, later sessions may report wrong graph launches. The
    traced window is the second session if both are requested; its launches were correct when
    measured (driver 580, CUDA 13.0). ``used``: True after the start. ``profiling``: True while it
    runs.
    """

    _QUIET = 2

    def __init__(
        self,
        is_enabled: bool,
        trace: Path,
        writer: TraceWriter,
        thread_ends: Callable[[], None],
        profilers: ProfilerWatch,
    ) -> None:
        self._thread_ends = thread_ends
        self._profilers = profilers
        self._writer = writer
        self.used = self.profiling = False
        self.attached: str | None = None
        """Reason why CUPTI is still attached afterwards, or None."""
        self._wanted = is_enabled
        self._trace = trace
        self._quiet = 0
        self._session: Session | None = None
        self._marks = ExitStack()
        self._capturing = 0

    def begin_capture(self, graph_id: str, compiled: bool) -> None:
        """Start the profiler at the first capture, and mark the capture in the trace.

        ``compiled`` captures are torch.compile's, whose compiler must not see the ranges.
        """
        if self._wanted and not self.used:
            session = start_session(Fact.CAPTURE_PASS, True, self._thread_ends, self._profilers)
            self.used = True
            self._session = None if isinstance(session, Missing) else session
            self.profiling = self._session is not None
        if self._session is not None:
            self._quiet = 0
        # Ranges of another thread would be missing in the trace, but end with those of this thread.
        if self._session is not None and self._session.is_owner:
            self._capturing = get_ident()
            self._marks.enter_context(record_function(CAPTURE + graph_id))
            if not compiled:
                self._marks.enter_context(annotate_captures())

    def end_capture(self) -> None:
        """End the marks of a capture."""
        if self._capturing == get_ident():
            self._marks.close()

    def count_step(self) -> None:
        """Count a step, and write the trace after some without a capture."""
        self._quiet += 1
        if self._quiet >= self._QUIET:
            self.close()

    def close(self, detach: bool = True) -> None:
        """Stop the profiler, if it runs.

        ``detach``: False if a profiler starts next, or the program ends.
        """
        if self._session is not None:
            session, self._session = self._session, None
            self.profiling = False
            stopped = session.stop(self._trace, self._writer, _discard_problem, detach)
            self.attached = stopped.attached_reason
            if session.is_owner:
                self.end_capture()
            else:
                self._profilers.keep_session(session)


def count_replay_events(nodes: int | None) -> int:
    """Estimate the events of a replay of a graph with ``nodes`` nodes, None if unknown."""
    return _CALL_EVENTS + (_UNKNOWN_NODES if nodes is None else nodes)


def _compute_event_limit(settings: Settings, open_ns: int) -> int:
    """Return the number of events at which the pause reaches its limit."""
    left_ns = settings.window_pause_s * 1e9 - open_ns - _CLOSE_PAUSE_NS
    return max(1, int(left_ns / _EVENT_PAUSE_NS))


def _discard_problem(_problem: str) -> None:
    """Ignore a missing capture trace."""


def _count_allocations() -> int:
    return int(torch.cuda.memory_stats().get("allocation.all.allocated", 0))
