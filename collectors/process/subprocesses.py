"""The process of a pass, as the collector sees it: started, watched, and killed when it must be."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

GRACE_S: Final = 10.0
"""How long a worker may go on after another rank's failed: it may fail with a cause of its own."""

TIMED_OUT: Final = "TimedOut"
"""The error of a worker that took too long."""

ENDED: Final = "Ended"
"""The error of a worker that was killed because another rank's had failed."""

POLL_S: Final = 0.2
"""How often a worker's limit is looked at."""


class Limit:
    """Says when a worker must be ended: it takes too long, or another rank failed a while ago.

    ``failed`` tells how another rank failed, or None. ``reason`` is why the worker was ended, once
    it was, and ``error`` TIMED_OUT or ENDED.
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

    def reached(self) -> bool:
        """Whether the worker must be ended now."""
        now = self._clock()
        if self._timeout_s is not None and now - self._begun > self._timeout_s:
            self.reason = f"the pass took longer than {self._timeout_s} s and was ended"
        elif self._failed is not None and (cause := self._failed()) is not None:
            self._alone_since = now if self._alone_since is None else self._alone_since
            if now - self._alone_since > self._grace_s:
                self.reason = f"ended, for it would have waited for ever: {cause}"
                self.error = ENDED
        return self.reason is not None


def run_worker(
    command: Sequence[str], environment: Mapping[str, str], limit: Limit
) -> subprocess.CompletedProcess[str]:
    """Runs a worker to its end; kills it when its limit is reached, or we are interrupted."""
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
                    if limit.reached():
                        process.kill()
        finally:
            # Interrupted: the worker must not outlive us. One that has ended is not killed again.
            process.kill()
    return subprocess.CompletedProcess(command, process.returncode, None, stderr)
