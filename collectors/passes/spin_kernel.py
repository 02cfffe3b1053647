"""Measure GPU time without launch overhead by queueing work behind a spinning kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch

_CALIBRATION_CYCLES: Final = 2_000_000
_MARGIN_NS: Final = 100_000
_MAX_SPIN_NS: Final = 100_000_000


class SpinKernel:
    """Queues work behind a kernel that spins for a limited time, so it never deadlocks."""

    def __init__(self) -> None:
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._cycles_per_ns = 1.0
        # The first run loads the kernel.
        for _ in range(2):
            self._begin.record()
            torch.cuda._sleep(_CALIBRATION_CYCLES)
            self._end.record()
            torch.cuda.synchronize()
        duration_ns = self._begin.elapsed_time(self._end) * 1e6
        self._cycles_per_ns = _CALIBRATION_CYCLES / duration_ns

    def measure_device_ns(self, work: Callable[[], object], launch_ns: float) -> int | None:
        """Measure GPU time of ``work`` in ns, given the CPU time of its launch.

        Returns None if the launch outlasted the spinning kernel.
        """
        torch.cuda.synchronize()
        hold_ns = min(2 * launch_ns + _MARGIN_NS, _MAX_SPIN_NS)
        torch.cuda._sleep(int(hold_ns * self._cycles_per_ns))
        self._begin.record()
        work()
        late = self._begin.query()
        self._end.record()
        torch.cuda.synchronize()
        return None if late else round(self._begin.elapsed_time(self._end) * 1e6)
