"""GPU time of some replays, between two CUDA events.

The driver's own calls: torch's events ask for the current stream at each record, which takes longer
than all else here.
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
"""Replays whose events have not been reached; when there are so many, no further one is timed."""


class _Events(NamedTuple):
    """Two events of the driver, before a replay and after it."""

    before: Any
    after: Any


class ReplayTimer:
    """Times one replay: made right before its launch, ended right after it."""

    __slots__ = ("_stream", "_times", "begin", "events", "graph", "thread")

    def __init__(self, times: GpuTimes, events: _Events, graph: int, stream: int) -> None:
        self.events = events
        self.graph = graph
        self.thread = get_ident()
        self.begin = 0
        self._times = times
        self._stream = driver.CUstream(stream)
        call(driver.cuEventRecord, events.before, self._stream)

    def ended(self, begin: int) -> None:
        """The replay was launched, by a call that began at ``begin``; raises nothing."""
        # Not through ``call``: what the driver refuses is no error of the program's.
        if int(driver.cuEventRecord(self.events.after, self._stream)[0]) == 0:
            self.begin = begin
            self._times.pending.append(self)


class GpuTimes:
    """Makes timers, and notes what those say that the GPU has passed."""

    def __init__(self, log: LoopLog) -> None:
        self.pending: deque[ReplayTimer] = deque()
        """Timers whose replay was launched, in that order."""
        self._log = log
        self._free: deque[_Events] = deque()
        self._settling = Lock()

    def timer(self, graph: int) -> ReplayTimer | None:
        """A timer for a replay that is about to be launched on the current stream; None where too
        many are waited for, or the replay itself is being captured.

        Raises:
            DriverError: the driver refuses.
        """
        self.settle()
        if len(self.pending) >= _PENDING or torch.cuda.is_current_stream_capturing():
            return None
        try:
            events = self._free.pop()
        except IndexError:
            events = _Events(_event(), _event())
        return ReplayTimer(self, events, graph, _current_stream())

    def settle(self) -> None:
        """Notes the times that are known by now; waits for none, nor for another thread that does
        so.

        Raises:
            DriverError: the driver refuses.
        """
        if not self.pending or not self._settling.acquire(blocking=False):
            return
        try:
            self._settle()
        finally:
            self._settling.release()

    def _settle(self) -> None:
        # Asking an event would spoil a capture of another thread, unless this one is relaxed.
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
                took = call(driver.cuEventElapsedTime, *timer.events)
                self._log.add_gpu_time(timer.graph, timer.thread, timer.begin, round(took * 1e6))
                self._free.append(timer.events)


def _event() -> Any:
    return call(driver.cuEventCreate, int(driver.CUevent_flags.CU_EVENT_DEFAULT))


def _current_stream() -> int:
    return int(torch._C._cuda_getCurrentRawStream(torch.cuda.current_device()))
