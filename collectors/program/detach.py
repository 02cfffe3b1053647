"""Detach CUPTI from the process when the profiler stops.

CUPTI stays attached after torch.profiler stops, which slows down all later graph launches. Kineto
detaches CUPTI if the environment variable ``TEARDOWN_CUPTI`` is 1 while the profiler stops: it
starts a thread that waits for the next call of the CUDA runtime and calls ``cuptiFinalize`` at the
end of that call (libkineto/src/CuptiActivityApi.cpp, ``teardownContext``). Kineto uses ``getenv``,
so the variable is set in the C environment for that moment only.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch

TEARDOWN: Final = "TEARDOWN_CUPTI"
_NO_REINIT: Final = "DISABLE_CUPTI_LAZY_REINIT"

_FIRST_CUDA: Final = (12, 6)
"""Older versions crash when CUPTI attaches again to a process with graphs, according to
torch.profiler's source."""

_WAIT_S: Final = 1.0
"""Longest wait for Kineto's thread, which needs a few milliseconds."""
_POLL_S: Final = 0.0005


def find_obstacle() -> str | None:
    """Explain why CUPTI must stay attached, or return None."""
    if not sys.platform.startswith("linux"):
        return "CUPTI can be detached on Linux only"
    value = os.environ.get(TEARDOWN)
    if value not in (None, "1"):
        return f"the program's environment has {TEARDOWN}={value}"
    if _NO_REINIT in os.environ:
        return f"the program's environment has {_NO_REINIT}"
    version = _parse_cuda_version()
    if version is None:
        return "this torch was not built for CUDA"
    if version < _FIRST_CUDA:
        return "CUPTI can be detached from a process with graphs since CUDA 12.6"
    return None


def reserve_variable() -> None:
    """Reserve space for the variable in the C environment early in the process.

    Growing the environment moves it, which is unsafe while other threads read it.
    """
    if TEARDOWN not in os.environ:
        with request_teardown():
            pass


@contextmanager
def request_teardown() -> Iterator[None]:
    """Ask Kineto to detach CUPTI when a profiler stops inside the block."""
    if TEARDOWN in os.environ:
        yield
        return
    libc: Any = ctypes.CDLL(None)
    libc.setenv(TEARDOWN.encode(), b"1", 1)
    try:
        yield
    finally:
        libc.unsetenv(TEARDOWN.encode())


class TeardownWait:
    """Waits until Kineto's thread has detached CUPTI. Create it before the profiler stops."""

    def __init__(self) -> None:
        self._before = _list_threads()

    def finish(self) -> bool:
        """Call the CUDA runtime until the thread has ended. False after a second.

        Raises:
            RuntimeError: CUDA fails.
        """
        new_threads = _list_threads() - self._before
        end = time.monotonic() + _WAIT_S
        while True:
            # CUPTI detaches when a call of the runtime returns. This call is cheap, and allowed
            # during captures of other threads.
            torch.cuda.current_device()
            if not new_threads & _list_threads():
                return True
            if time.monotonic() >= end:
                return False
            time.sleep(_POLL_S)


def _list_threads() -> set[str]:
    try:
        return set(os.listdir("/proc/self/task"))
    except OSError:
        return set()


def _parse_cuda_version() -> tuple[int, int] | None:
    numbers = (torch.version.cuda or "").split(".")[:2]
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        return None
    return int(numbers[0]), int(numbers[1])
