"""Parts of a running program under torch.profiler: a window of its steps, and its captures.

The marks are those of the collected passes, so whatever shows these shows a recorded program.
"""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import get_ident
from typing import Any, Final

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from collectors.passes.annotate import annotate_captures
from collectors.program.files import Settings
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.marks import CAPTURE, STEP

SETTLE: Final = 3
"""Steps under the profiler before the marked ones: CUPTI allocates its buffers then."""


_END_S: Final = 1.0
"""How long the end of a program waits for the end of a step in the thread that is traced."""


class _ThreadEnd:
    """Calls ``then`` when the thread that makes it ends, in that thread, unless it is cancelled:
    what a thread keeps for itself is freed as the last thing that it does."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then: Callable[[], None] | None = then
        # A forked child ends threads of its own, which were never traced.
        self._pid = os.getpid()
        self._local = threading.local()
        self._local.end = _Freed(self._thread_ends)

    def cancel(self) -> None:
        """Nothing is called any more."""
        self._then = None

    def _thread_ends(self) -> None:
        then, self._then = self._then, None
        if then is not None and os.getpid() == self._pid:
            then()


class _Freed:
    """Calls ``then`` when it is freed."""

    __slots__ = ("_then",)

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def __del__(self) -> None:
        self._then()


class _Session:
    """One session of the profiler, whose trace is written when it ends; ``thread_ends`` is called
    where the thread that began it ends before, for no other can stop it."""

    def __init__(self, trace: Path, shapes: bool, thread_ends: Callable[[], None]) -> None:
        self._trace = trace
        self._profiler: Any = profile(
            activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
            # No Python stacks: torch 2.11 crashed where they were begun amid a program of threads.
            record_shapes=shapes,
            # It would warn on the program's stderr that only one cycle is kept; there is only one.
            acc_events=True,
        )
        self._thread = get_ident()
        self._profiler.start()
        self._thread_end = _ThreadEnd(thread_ends)

    @property
    def is_ours(self) -> bool:
        """Whether this thread began it, and can end it."""
        return get_ident() == self._thread

    def end(self) -> str | None:
        """Writes the trace; why it could not be written, if so: the program must not notice."""
        part = self._trace.with_name(f"part-{self._trace.name}")
        self._thread_end.cancel()
        if not self.is_ours:
            return "the program ended within it, while the thread that it traced was waiting"
        try:
            self._profiler.stop()
            if _may_be_killed_by_writing():
                return "its trace could not be written: files are limited in size"
            self._profiler.export_chrome_trace(str(part))
            part.replace(self._trace)
        except (OSError, RuntimeError) as error:
            return f"its trace could not be written: {error}"
        return None


def _may_be_killed_by_writing() -> bool:
    """Whether a file that grows too large would end the program, or call a handler of its own.
    Python ignores that signal unless a program has it otherwise."""
    most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return most != resource.RLIM_INFINITY and signal.getsignal(signal.SIGXFSZ) != signal.SIG_IGN


def _begin(
    trace: Path, fact: Fact, shapes: bool, thread_ends: Callable[[], None]
) -> _Session | Missing:
    """A session for the pass ``fact``, or why there can be none now."""
    if torch.autograd._profiler_enabled():
        return Missing(fact, "a profiler of the program's own was running")
    try:
        return _Session(trace, shapes, thread_ends)
    except RuntimeError as error:
        return Missing(fact, f"torch.profiler would not start: {error}")


class TracedWindow:
    """Some steps, each marked and ended synchronised; :meth:`boundary` is called between them, and
    ``thread_ends`` where the thread that was traced ends within it.

    ``profiling``: the profiler runs for it now. ``marked``: whole steps in the trace so far.
    ``done``: no more will come. ``refused``: why there is no trace, None while there may be one.
    """

    def __init__(
        self,
        settings: Settings,
        trace: Path,
        on_mark: Callable[[int, int, int], None],
        thread_ends: Callable[[], None],
    ) -> None:
        steps = settings.window
        self.profiling = False
        self.done = steps == 0
        self.marked = 0
        self.refused = "no traced window was asked for" if steps == 0 else None
        self._settings = settings
        self._on_mark = on_mark
        self._thread_ends = thread_ends
        self._wanted_end = False
        self._ended = threading.Event()
        self._taking = threading.Lock()
        self._began = self._marked_from = 0
        self._trace = trace
        self._settled = 0
        self._session: _Session | None = None
        self._step: record_function | None = None
        self._capture: record_function | None = None
        self._capturing = 0

    def open(self) -> None:
        """Starts the profiler, at a boundary between two steps."""
        torch.cuda.synchronize()
        session = _begin(self._trace, Fact.TRACED_PASS, False, self._thread_ends)
        if isinstance(session, Missing):
            self.refused, self.done = session.reason, True
        else:
            self._session, self.profiling = session, True
            self._began = time.perf_counter_ns()

    def boundary(self, covers: bool) -> None:
        """A step ended while the window is open: marks the next, or closes after the last.

        Args:
            covers: every graph that ought to be in the window is.
        """
        torch.cuda.synchronize()
        now = time.perf_counter_ns()
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None
            self._on_mark(self.marked, self._marked_from, now)
            self.marked += 1
        self._settled += 1
        enough = self.marked >= self._settings.window and (covers or self._is_long(now))
        if enough or self._wanted_end:
            self.close()
        elif self._settled >= SETTLE:
            self._step = record_function(f"{STEP}{self.marked}")
            self._marked_from = now
            self._step.__enter__()

    def _is_long(self, now: int) -> bool:
        """Whether the bounds on the window are reached."""
        seconds = self._settings.window_seconds
        late = seconds is not None and now - self._began >= seconds * 1e9
        return late or self.marked >= self._settings.window_replays

    def close(self) -> None:
        """Stops the profiler and writes what it has; a step that has not ended stays unmarked. From
        another thread than the one that is traced: waits a moment for the next end of a step in
        that one."""
        session = self._session
        if session is not None and not session.is_ours:
            self._wanted_end = True
            self._ended.wait(_END_S)
        with self._taking:
            session, self._session = self._session, None
        if session is not None:
            self.profiling, self.done = False, True
            self.refused = session.end()
            self._ended.set()
        elif self._wanted_end:
            # The thread that is traced has begun to end it.
            self._ended.wait(_END_S)

    def capture_begins(self, graph_id: str) -> None:
        """Marks a capture that falls into the window, in the thread that is traced."""
        if self._session is not None and self._session.is_ours:
            self._capturing = get_ident()
            self._capture = record_function(CAPTURE + graph_id)
            self._capture.__enter__()

    def capture_ends(self) -> None:
        """Ends the mark of a capture."""
        if self._capture is not None and self._capturing == get_ident():
            self._capture.__exit__(None, None, None)
            self._capture = None


class CaptureSession:
    """The profiler from the program's first capture until steps have come without another.

    One session, for before CUDA 13.1 Update 1 each further one may be wrong about graph launches;
    the traced window is the second where both are asked for, and launches in it were right when
    that was measured (driver 580, CUDA 13.0). ``used``: it was begun once. ``profiling``: it runs
    now.
    """

    _QUIET = 2

    def __init__(self, wanted: bool, trace: Path, thread_ends: Callable[[], None]) -> None:
        self._thread_ends = thread_ends
        self.used = self.profiling = False
        self._wanted = wanted
        self._trace = trace
        self._quiet = 0
        self._session: _Session | None = None
        self._marks = ExitStack()
        self._capturing = 0

    def capture_begins(self, graph_id: str, compiled: bool) -> None:
        """Starts the profiler if this is the first capture, and marks it in the trace.

        Args:
            graph_id: the graph's id.
            compiled: torch.compile makes the capture; the compiler must not see our ranges.
        """
        if self._wanted and not self.used:
            session = _begin(self._trace, Fact.CAPTURE_PASS, True, self._thread_ends)
            self.used = True
            self._session = None if isinstance(session, Missing) else session
            self.profiling = self._session is not None
        if self._session is not None:
            self._quiet = 0
        # Ranges of another thread would be in no trace, and would end with those of this one.
        if self._session is not None and self._session.is_ours:
            self._capturing = get_ident()
            self._marks.enter_context(record_function(CAPTURE + graph_id))
            if not compiled:
                self._marks.enter_context(annotate_captures())

    def capture_ends(self) -> None:
        """Ends the marks of a capture."""
        if self._capturing == get_ident():
            self._marks.close()

    def step_ended(self) -> None:
        """A step ended; after some without a capture the trace is written."""
        self._quiet += 1
        if self._quiet >= self._QUIET:
            self.close()

    def close(self) -> None:
        """Stops the profiler, if it runs, and writes its trace."""
        if self._session is not None:
            session, self._session = self._session, None
            self.profiling = False
            session.end()
