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
from typing import Final

from collectors.process.lifeline import PARENT, exit_with_parent

IMPORT_S: Final = 300
"""Time limit of the import."""

_NVML_CHECK: Final = "PYTORCH_NVML_BASED_CUDA_CHECK"
"""Makes ``torch.cuda.is_available()``, which many modules call on import, leave CUDA alone."""
_UNUSABLE_STATUS: Final = 3
"""CUDA_ERROR_NOT_INITIALIZED, the result of cuInit in a fork of a process that used CUDA."""
_JEMALLOC_THREAD: Final = "jemalloc_bg_thd"
_READY: Final = b"."


def fork_with_modules(load: Callable[[], object]) -> bool:
    """Continue in a fork that has run ``load``, and return True there.

    Returns False in this process if the fork failed or cannot fork users of a GPU. Otherwise this
    process waits for the fork and ends with it.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        with ExitStack() as failure:
            failure.callback(os._exit, 1)
            os.environ[PARENT] = str(os.getppid())
            exit_with_parent()
            if _load_safely(load):
                failure.pop_all()
        os.write(writer, _READY)
        os.close(writer)
        return True
    os.close(writer)
    is_ready = os.read(reader, 1) == _READY
    os.close(reader)
    _, status = os.waitpid(pid, 0)
    if is_ready:
        os._exit(max(os.waitstatus_to_exitcode(status), 0))
    return False


def _load_safely(load: Callable[[], object]) -> bool:
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
    return _can_forks_use_gpu() and _count_threads() <= threads


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
