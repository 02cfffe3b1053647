"""What a recorded process says of itself: its rank, its machine, its memory."""

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
from collectors.driver.topology import DriverError
from collectors.program.files import (
    ENVIRONMENT_FILE,
    FAILURE_FILE,
    MEMORY_FILE,
    Identity,
    ProcessFolder,
)
from graphviz_dash.errors import GraphvizDashError
from graphviz_dash.model.recording import StartMethod
from graphviz_dash.model.run import Pass, RankGroup


def process_identity(environment: Mapping[str, str], forked: bool) -> Identity:
    """The rank of this process, if a launcher such as torchrun gave it one."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    numbers = [environment.get(name, "") for name in names]
    rank, group = None, None
    if all(number.isdecimal() for number in numbers):
        rank, size, device = map(int, numbers)
        group = RankGroup(size, device, get_recorded_settings(environment))
    torch_version, python = str(torch.__version__), platform.python_version()
    return with_origin(Identity(rank, group, torch_version, python, forked))


def with_origin(identity: Identity) -> Identity:
    """``identity`` with what this process is in the program, as far as that is known by now."""
    role, parent_pid, started_by = _origin(identity.forked)
    return replace(
        identity, role=role, pid=os.getpid(), parent_pid=parent_pid, started_by=started_by
    )


def _origin(forked: bool) -> tuple[str, int, StartMethod | None]:
    """The name of this process in the program, the number of its parent, and how it was started
    where multiprocessing or a fork tells. Nothing is imported that the program has not."""
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
    """Writes what ended the program."""
    folder.put(FAILURE_FILE, describe_failure(error, Pass.RECORDED))


def write_environment(folder: ProcessFolder) -> None:
    """Writes the environment, if there is a CUDA context to ask about."""
    if torch.cuda.is_initialized():
        # A context that an error has broken answers nothing; the parent asks another then.
        with suppress(GraphvizDashError, DriverError, RuntimeError):
            folder.put(ENVIRONMENT_FILE, read_environment(start_processes=False))


def write_memory(folder: ProcessFolder) -> None:
    """Writes what the allocator used, if there is a CUDA context."""
    if torch.cuda.is_initialized():
        with suppress(RuntimeError):
            folder.put(MEMORY_FILE, read_memory_use())
