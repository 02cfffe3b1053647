"""Start, monitor and kill the process of a pass."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

GRACE_S: Final = 10.0
"""Time for a worker to report its own cause after another rank failed."""

TIMED_OUT: Final = "TimedOut"

CANCELLED: Final = "Ended"
"""Error of a worker that was killed because another rank failed."""

POLL_S: Final = 0.2


class WorkerLimit:
    """Decides when a worker must be killed: it timed out, or another rank failed some time ago.

    ``failed`` returns the cause of another rank's failure, or None. ``reason`` and ``error``
    explain the kill.
    """

    def __init__(
        self,
        timeout_s: int | None,
        failed: Callable[[], str | None] | None = None,
        grace_s: float = GRACE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._failed = failed
        self._timeout_s = timeout_s
        self._grace_s = grace_s
        self._clock = clock
        self._begun = clock()
        self._alone_since: float | None = None
        self.reason: str | None = None
        self.error = TIMED_OUT

    def check(self) -> bool:
        """Check if the worker must be killed now."""
        now = self._clock()
        if self._timeout_s is not None and now - self._begun > self._timeout_s:
            self.reason = f"the pass exceeded {self._timeout_s} s and was killed"
        elif self._failed is not None and (cause := self._failed()) is not None:
            self._alone_since = now if self._alone_since is None else self._alone_since
            if now - self._alone_since > self._grace_s:
                self.reason = f"killed to avoid waiting forever: {cause}"
                self.error = CANCELLED
        return self.reason is not None


def run_worker(
    command: Sequence[str], environment: Mapping[str, str], limit: WorkerLimit
) -> subprocess.CompletedProcess[str]:
    """Run a worker to its end; kill it at its limit or on interrupt."""
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=dict(environment),
    ) as process:
        try:
            while True:
                try:
                    _, stderr = process.communicate(timeout=POLL_S)
                    break
                except subprocess.TimeoutExpired:
                    if limit.check():
                        process.kill()
        finally:
            # On interrupt, end the worker. Killing a finished one has no effect.
            process.kill()
    return subprocess.CompletedProcess(command, process.returncode, None, stderr)


def describe_exit(code: int) -> str:
    """Describe an exit code; negative codes are signals."""
    if code < 0:
        name = signal.Signals(-code).name
        # Linux kills the largest process when host memory is full.
        memory = ", possibly because host memory ran out" if name == "SIGKILL" else ""
        return f"the process was ended by signal {name}{memory}"
    return f"the process ended with exit code {code}"


def find_last_line(text: str) -> str:
    """Return the last non-empty line, or an empty string."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
