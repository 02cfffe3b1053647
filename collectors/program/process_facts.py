"""What a recorded process says of itself: its rank, its machine, its memory."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from contextlib import suppress

import torch

from collectors.allocator.statistics import memory_use
from collectors.driver.topology import DriverError
from collectors.environment import read_environment
from collectors.program.files import ENVIRONMENT_FILE, MEMORY_FILE, Identity, ProcessFolder
from collectors.ranks import kept_settings
from graphviz_dash.errors import GraphvizDashError
from graphviz_dash.model.run import RankGroup


def process_identity(environment: Mapping[str, str], forked: bool) -> Identity:
    """The rank of this process, if a launcher such as torchrun gave it one."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    numbers = [environment.get(name, "") for name in names]
    if not all(number.isdecimal() for number in numbers):
        return Identity(None, None, str(torch.__version__), platform.python_version(), forked)
    rank, size, device = map(int, numbers)
    group = RankGroup(size, device, kept_settings(environment))
    return Identity(rank, group, str(torch.__version__), platform.python_version(), forked)


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
            folder.put(MEMORY_FILE, memory_use())
