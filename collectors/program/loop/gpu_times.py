"""GPU time of some replays, between two CUDA events.

Uses the driver's calls: torch's events request the current stream at each record, which takes
longer than everything else here.
"""

from __future__ import annotations

from collections import deque
from threading import Lock, get_ident
from typing import Any, Final, NamedTuple

import torch
from cuda.bindings import driver

from collectors.driver.calls import DriverError, call
from collectors.driver.capture_mode import relax_capture_mode
from collectors.program.loop.events import LoopLog

_PENDING: Final = 64
"""Maximum number of pending replays; further ones are not timed."""


class _Events(NamedTuple):
    before: Any
    after: Any


class ReplayTimer:
    """Times one replay. Create right before its launch and end right after it."""

    __slots__ = ("_stream", "_times", "begin", "events", "graph", "thread")

    def __init__(self, times: GpuTimes, events: _Events, graph: int, stream: int) -> None:
        self.events = events
        self.graph = graph
        self.thread = get_ident()
        self.begin = 0
        self._times = times
        self._stream = driver.CUstream(stream)
        call(driver.cuEventRecord, events.before, self._stream)

    def end(self, begin: int) -> None:
        """End the timing of a replay whose launch started at ``begin``. Raises nothing."""
        # Without ``call``: a refusal of the driver is not an error of the program.
        if int(driver.cuEventRecord(self.events.after, self._stream)[0]) == 0:
            self.begin = begin
            self._times.pending.append(self)


class GpuTimes:
    """Creates timers and records the times that the GPU has reached."""

    def __init__(self, log: LoopLog) -> None:
        self.pending: deque[ReplayTimer] = deque()
        self._log = log
        self._free: deque[_Events] = deque()
        self._settling = Lock()

    def create_timer(self, graph: int) -> ReplayTimer | None:
        """Create a timer for the next replay on the current stream.

        None if too many are pending or the replay is being captured.

        Raises:
            DriverError: A driver call fails.
        """
        self.record_available()
        if len(self.pending) >= _PENDING or torch.cuda.is_current_stream_capturing():
            return None
        try:
            events = self._free.pop()
        except IndexError:
            events = _Events(_create_event(), _create_event())
        return ReplayTimer(self, events, graph, _get_current_stream())

    def record_available(self) -> None:
        """Record available times. Waits for neither the GPU nor another thread that does the same.

        Raises:
            DriverError: A driver call fails.
        """
        if not self.pending or not self._settling.acquire(blocking=False):
            return
        try:
            self._record_available()
        finally:
            self._settling.release()

    def _record_available(self) -> None:
        # Querying an event would invalidate a capture of another thread in strict mode.
        with relax_capture_mode():
            while self.pending:
                timer = self.pending[0]
                try:
                    call(driver.cuEventQuery, timer.events.after)
                except DriverError as error:
                    if error.status == "CUDA_ERROR_NOT_READY":
                        return
                    raise
                self.pending.popleft()
                duration_ms = call(driver.cuEventElapsedTime, *timer.events)
                self._log.add_gpu_time(
                    timer.graph, timer.thread, timer.begin, round(duration_ms * 1e6)
                )
                self._free.append(timer.events)


def _create_event() -> Any:
    return call(driver.cuEventCreate, int(driver.CUevent_flags.CU_EVENT_DEFAULT))


def _get_current_stream() -> int:
    return int(torch._C._cuda_getCurrentRawStream(torch.cuda.current_device()))
