"""Read the segments of torch's allocator, without its history."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch


@cache
def can_omit_history() -> bool:
    """Check if torch reads segments without converting its history of allocations each time."""
    return "include_traces" in inspect.signature(torch.cuda.memory_snapshot).parameters


def read_snapshot() -> list[Mapping[str, Any]]:
    """Return the segments of all devices, as ``torch.cuda.memory_snapshot``."""
    if can_omit_history():
        return list(torch.cuda.memory_snapshot(include_traces=False))
    return list(torch.cuda.memory_snapshot())
