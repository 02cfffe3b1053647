"""Import the program's modules once for all passes, in a process whose forks can use a GPU.

The import runs in a fork, because it may start threads or initialise CUDA, after which forks cannot
use a GPU. Such a fork ends, and each pass imports the modules itself.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NoReturn

from collectors.process.lifeline import PARENT, exit_with_parent

IMPORT_S: Final = 300
"""Time limit of the import."""

_NVML_CHECK: Final = "PYTORCH_NVML_BASED_CUDA_CHECK"
"""Makes ``torch.cuda.is_available()``, which many modules call on import, leave CUDA alone."""
_UNUSABLE_STATUS: Final = 3
"""CUDA_ERROR_NOT_INITIALIZED, the result of cuInit in a fork of a process that used CUDA."""
_JEMALLOC_THREAD: Final = "jemalloc_bg_thd"
_READY: Final = b"."
_MAX_REASON_BYTES: Final = 1_000


def fork_with_modules(load: Callable[[], object]) -> str | None:
    """Continue in a fork that has run ``load``, and return None there.

    Returns the reason in this process if the fork failed or cannot fork users of a GPU. Otherwise
    this process waits for the fork and ends with it.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        with ExitStack() as failure:
            failure.push(lambda kind, *_: _refuse(writer, f"raises {kind and kind.__name__}"))
            os.environ[PARENT] = str(os.getppid())
            exit_with_parent()
            refusal = _load_safely(load)
            failure.pop_all()
        if refusal is not None:
            _refuse(writer, refusal)
        os.write(writer, _READY)
        os.close(writer)
        return None
    os.close(writer)
    answer = os.read(reader, _MAX_REASON_BYTES)
    os.close(reader)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if answer == _READY:
        os._exit(max(code, 0))
    if code == -signal.SIGALRM:
        return f"takes more than {IMPORT_S} s"
    return answer.decode() or f"ends the process with code {code}"


def _refuse(writer: int, reason: str) -> NoReturn:
    os.write(writer, reason.encode()[:_MAX_REASON_BYTES])
    os._exit(1)


def _load_safely(load: Callable[[], object]) -> str | None:
    """Run ``load``; return why forks of this process cannot use a GPU, None if they can."""
    threads = _count_threads()
    # Without a handler, the signal ends a fork that imports for too long.
    signal.alarm(IMPORT_S)
    previous = os.environ.get(_NVML_CHECK)
    os.environ[_NVML_CHECK] = "1"
    load()
    if previous is None:
        del os.environ[_NVML_CHECK]
    else:
        os.environ[_NVML_CHECK] = previous
    signal.alarm(0)
    # The fork ends the threads of BLAS, which start again when needed.
    if not _can_forks_use_gpu():
        return "initialises CUDA"
    return None if _count_threads() <= threads else "starts threads"


def _count_threads() -> int:
    """Count the threads except those of jemalloc (in pyarrow), which prepares itself for forks."""
    if sys.platform != "linux":
        return 1
    names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    return sum(name != _JEMALLOC_THREAD for name in names)


def _can_forks_use_gpu() -> bool:
    """Initialise CUDA in a fork."""
    pid = os.fork()
    if pid == 0:
        status = 0
        # Without a driver, CUDA was not initialised.
        with suppress(OSError, AttributeError):
            status = ctypes.CDLL("libcuda.so.1").cuInit(0)
        os._exit(status == _UNUSABLE_STATUS)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) == 0
