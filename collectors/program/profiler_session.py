"""Session of torch.profiler in a program, with minimal pauses at its start and end.

torch.profiler.profile imports torch._inductor when it starts (3 s and 900 modules unless already
imported), builds a Python object of every event when it stops, and compresses the trace in the
program's thread. A session uses the layer below, writes the trace later, and the bundle's writer
compresses it. Stopping and writing hold Python's lock, so both are pauses of the program.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import get_ident
from typing import Any, Final

import torch
from msgspec import Struct
from torch.autograd.profiler import _run_on_profiler_stop, profile

from collectors.guard import Guard
from collectors.program.detach import TeardownWait, find_obstacle, request_teardown
from collectors.program.profiler_watch import ProfilerWatch, mark_own_profiler
from graphviz_dash.model.absence import Fact, Missing

_NO_ANSWER: Final = "CUPTI did not detach within a second"
BUSY_THREAD: Final = "the traced thread was waiting when the window had to close"


class StoppedSession(Struct, frozen=True):
    """Result of stopping a session."""

    close_ns: int
    """Pause of the program's thread."""
    attached_reason: str | None
    """Reason why CUPTI stays attached against the request, or None."""
    problem: str | None = None
    """Reason for a missing trace, or None."""


class _ThreadEnd:
    """Calls ``callback`` at the end of the thread that creates it, unless cancelled.

    A thread frees its local data last.
    """

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback
        # A forked child also ends the threads that it inherited, which were never traced there.
        self._pid = os.getpid()
        self._local = threading.local()
        self._local.end = _FreeCallback(self._handle_thread_end)

    def cancel(self) -> None:
        self._callback = None

    def _handle_thread_end(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None and os.getpid() == self._pid:
            callback()


class _FreeCallback:
    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback

    def __del__(self) -> None:
        self._callback()


class TraceWriter:
    """Writes traces of stopped profilers outside the program's thread."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._pending: list[tuple[Any, Path, Callable[[str], None]]] = []
        self._blocked_ns: dict[Path, int] = {}
        self._lock = threading.Lock()

    def add(self, result: Any, trace: Path, on_problem: Callable[[str], None]) -> None:
        """Write the profiler's ``result`` to ``trace`` at the next :meth:`write`."""
        self._pending.append((result, trace, on_problem))

    def discard(self) -> None:
        """Drop all traces in a forked child: they belong to the parent."""
        self._pending.clear()
        self._lock = threading.Lock()

    @property
    def has_work(self) -> bool:
        """True if a trace is pending."""
        return bool(self._pending)

    def write(self, *, after_end: bool = False) -> None:
        """Write all pending traces. ``after_end``: the program has ended, and nothing waits."""
        with self._lock:
            while self._pending:
                begin = time.perf_counter_ns()
                trace = self._write_next()
                if not after_end:
                    self._blocked_ns[trace] = time.perf_counter_ns() - begin

    def get_blocked_ns(self, trace: Path) -> int:
        """Return the time for which writing ``trace`` blocked the running program, in ns.

        torch holds Python's lock while it writes and frees a result, which stops all threads.
        """
        return self._blocked_ns.get(trace, 0)

    def _write_next(self) -> Path:
        result, trace, on_problem = self._pending[0]
        problem: str | None = "its trace could not be written"
        with self._guard:
            problem = _write(result, trace)
        if problem is not None:
            on_problem(problem)
        del self._pending[0]
        return trace


def _write(result: Any, trace: Path) -> str | None:
    part = trace.with_name(f"part-{trace.name}")
    if _has_fatal_size_limit():
        return "its trace could not be written: files are limited in size"
    try:
        result.save(str(part))
        part.replace(trace)
    except (OSError, RuntimeError) as error:
        return f"its trace could not be written: {error}"
    return None


def _has_fatal_size_limit() -> bool:
    """Check if a file above the size limit would end the program or call its signal handler.

    Python ignores that signal unless a program changes it.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return limit != resource.RLIM_INFINITY and signal.getsignal(signal.SIGXFSZ) != signal.SIG_IGN


class Session:
    """One session of the profiler. Only the thread that starts it can stop it.

    Args:
        thread_ends: Called if the thread that starts it ends first.

    Raises:
        RuntimeError: The profiler does not start.
    """

    def __init__(self, shapes: bool, thread_ends: Callable[[], None]) -> None:
        begin = time.perf_counter_ns()
        # No Python stacks: torch 2.11 crashed when they started next to running threads.
        self._profiler: Any = profile(use_device="cuda", use_kineto=True, record_shapes=shapes)
        self._thread = get_ident()
        # The first profiler of a process registers Kineto, which prints an error if this is not the
        # thread that imported torch, and then skips a hook for MTIA devices only. To register it in
        # that thread would attach CUPTI before the clean steps (libkineto/src/init.cpp).
        with mark_own_profiler():
            self._profiler.__enter__()
        self._result: Any = None
        _add_rank()
        self._thread_end = _ThreadEnd(thread_ends)
        self.open_ns = time.perf_counter_ns() - begin

    @property
    def is_owner(self) -> bool:
        """True in the thread that started it."""
        return get_ident() == self._thread

    def stop(
        self,
        trace: Path,
        writer: TraceWriter,
        on_problem: Callable[[str], None],
        detach: bool,
        obstacle: str | None = None,
    ) -> StoppedSession:
        """Stop the profiler, and detach CUPTI if ``detach``.

        Args:
            trace: File of the trace, which ``writer`` writes later.
            on_problem: Receives the reason if the trace cannot be written.
            detach: False if the program ends or starts another profiler.
            obstacle: Known reason why CUPTI must stay attached.
        """
        begin = time.perf_counter_ns()
        self._thread_end.cancel()
        if not self.is_owner:
            return StoppedSession(0, None, BUSY_THREAD)
        reason = (obstacle or find_obstacle()) if detach else None
        try:
            if detach and reason is None:
                reason = self._stop_and_detach()
            else:
                self._stop()
        except RuntimeError as error:
            duration_ns = time.perf_counter_ns() - begin
            return StoppedSession(
                duration_ns, reason, f"the profiler could not be stopped: {error}"
            )
        writer.add(self._result, trace, on_problem)
        return StoppedSession(time.perf_counter_ns() - begin, reason)

    def _stop_and_detach(self) -> str | None:
        """Return the reason why CUPTI is still attached, or None."""
        wait = TeardownWait()
        with request_teardown():
            self._stop()
            try:
                success = wait.finish()
            except RuntimeError as error:
                return f"CUPTI did not detach: {error}"
        return None if success else _NO_ANSWER

    def _stop(self) -> None:
        # The profiler's own exit builds Python objects of all events before torch 2.7.
        torch.cuda.synchronize()
        with mark_own_profiler():
            self._result = torch.autograd._disable_profiler()
        _run_on_profiler_stop()

    def discard(self) -> None:
        """Stop the profiler without a trace, in the thread that started it, after Kineto has
        cancelled its session for another one."""
        with suppress(RuntimeError), mark_own_profiler():
            # torch 2.11 crashes when it stops a profiler and Kineto has no session.
            self._profiler._prepare_trace()
            torch.autograd._disable_profiler()


def _add_rank() -> None:
    dist = torch.distributed
    if dist.is_available() and dist.is_initialized():
        rank = {"rank": dist.get_rank(), "world_size": dist.get_world_size()}
        torch.autograd._add_metadata_json("distributedInfo", json.dumps(rank))


def start_session(
    fact: Fact, shapes: bool, thread_ends: Callable[[], None], profilers: ProfilerWatch
) -> Session | Missing:
    """Start a session for the pass ``fact``, or return the reason if that is impossible now."""
    with profilers.hold_starts() as busy:
        if busy or torch.autograd._profiler_enabled():
            return Missing(fact, "a profiler of the program was running")
        try:
            return Session(shapes, thread_ends)
        except RuntimeError as error:
            return Missing(fact, f"torch.profiler did not start: {error}")
