"""Facts of a recorded process: its rank, machine and memory."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from msgspec.structs import replace

from collectors.allocator.statistics import read_memory_use
from collectors.collection.environment import read_environment
from collectors.collection.failures import describe_failure
from collectors.collection.ranks import get_recorded_settings
from collectors.cupti.code_files import list_code_files
from collectors.driver.topology import DriverError
from collectors.program.files import (
    CODE_FILE,
    ENVIRONMENT_FILE,
    FAILURE_FILE,
    MEMORY_FILE,
    Identity,
    ProcessFolder,
)
from graphviz_dash.errors import GraphvizDashError
from graphviz_dash.model.recording import StartMethod
from graphviz_dash.model.run import Pass, RankGroup


def read_identity(environment: Mapping[str, str], forked: bool) -> Identity:
    """Read the rank of this process from a launcher such as torchrun."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    numbers = [environment.get(name, "") for name in names]
    rank, group = None, None
    if all(number.isdecimal() for number in numbers):
        rank, size, device = map(int, numbers)
        group = RankGroup(size, device, get_recorded_settings(environment))
    torch_version, python = str(torch.__version__), platform.python_version()
    return add_origin(Identity(rank, group, torch_version, python, forked))


def add_origin(identity: Identity) -> Identity:
    """Add the origin of this process in the program to ``identity``, as far as known."""
    role, parent_pid, start_method = _find_origin(identity.forked)
    return replace(
        identity, role=role, pid=os.getpid(), parent_pid=parent_pid, start_method=start_method
    )


def _find_origin(forked: bool) -> tuple[str, int, StartMethod | None]:
    """Return name, parent id and start method from multiprocessing or a fork. Imports nothing
    more."""
    script = Path(sys.argv[0]).name if sys.argv else ""
    processes: Any = sys.modules.get("multiprocessing.process")
    parent = processes.parent_process() if processes is not None else None
    if parent is None:
        return script, os.getppid(), StartMethod.FORK if forked else None
    name = processes.current_process().name
    if parent.pid != os.getppid():
        return name, parent.pid, StartMethod.FORKSERVER
    return name, parent.pid, StartMethod.FORK if forked else StartMethod.SPAWN


def write_failure(folder: ProcessFolder, error: BaseException) -> None:
    """Write the error that ended the program."""
    folder.put(FAILURE_FILE, describe_failure(error, Pass.RECORDED))


def write_environment(folder: ProcessFolder) -> None:
    """Write the environment if there is a CUDA context."""
    if torch.cuda.is_initialized():
        # A context with an error cannot be queried; the parent queries another one.
        with suppress(GraphvizDashError, DriverError, RuntimeError):
            folder.put(ENVIRONMENT_FILE, read_environment())


def write_memory(folder: ProcessFolder) -> None:
    """Write the memory use of the allocator if there is a CUDA context."""
    if torch.cuda.is_initialized():
        with suppress(RuntimeError):
            folder.put(MEMORY_FILE, read_memory_use())


def write_code_files(folder: ProcessFolder) -> None:
    """Write the paths of the files with the code of kernels."""
    folder.put(CODE_FILE, list_code_files())
