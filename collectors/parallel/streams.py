"""The streams that operators are issued on, and the workspaces that cuBLAS has on them.

torch gives cuBLAS a workspace for each thread and stream, of the size that CUBLAS_WORKSPACE_CONFIG
says when it is first used there: 32 MiB on a Hopper GPU. Most of what runs beside other work needs
next to nothing of it, so there are narrow streams, with little; whatever would run another kernel
with less is kept on wide ones. The streams are this process's for good, and no other code has them:
a workspace keeps its size, and is no one else's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import torch
from cuda.bindings import runtime

from collectors.driver.calls import call

NARROW_KIB: Final = 1000
"""With cuBLASLt's own of that size a stream's workspaces fit one of the allocator's segments."""
MIDDLE_KIB: Final = 10 * 1024
"""The least of which the allocator takes no more from the device than it is."""

_CONFIG: Final = "CUBLAS_WORKSPACE_CONFIG"
_DETERMINISTIC: Final = {NARROW_KIB: ":16:8", MIDDLE_KIB: ":4096:8"}
"""What torch accepts where it is asked to be deterministic."""

_streams: dict[int | None, list[torch.cuda.Stream]] = {}
_kib: dict[int, int | None] = {}
_workspace_bytes: dict[int, int] = {}
_before: list[str | None] = []
"""The setting before each of the streams that are current, the first of which is the program's."""


def streams_of(kib: Sequence[int | None]) -> list[torch.cuda.Stream]:
    """A stream for each entry, with a workspace of so many KiB (None: as any other stream has), on
    the current device."""
    count: dict[int | None, int] = {}
    chosen = []
    for size in kib:
        own = _streams.setdefault(size, [])
        position = count.get(size, 0)
        if position == len(own):
            handle = int(call(runtime.cudaStreamCreateWithFlags, runtime.cudaStreamNonBlocking))
            own.append(torch.cuda.ExternalStream(handle))
            _kib[own[-1].cuda_stream] = size
        chosen.append(own[position])
        count[size] = position + 1
    return chosen


@contextmanager
def on(stream: torch.cuda.Stream) -> Iterator[None]:
    """Makes one of the streams current, with the workspace that is its own; nests."""
    size = _kib[stream.cuda_stream]
    _before.append(os.environ.get(_CONFIG))
    if size is None:
        _configure(_before[0])
    elif torch.are_deterministic_algorithms_enabled():
        _configure(_DETERMINISTIC[size])
    else:
        _configure(f":{size}:1")
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        _configure(_before.pop())


def _configure(setting: str | None) -> None:
    if setting is None:
        os.environ.pop(_CONFIG, None)
    else:
        os.environ[_CONFIG] = setting


def make_workspaces(streams: Sequence[torch.cuda.Stream]) -> int:
    """Lets cuBLAS have its workspaces on ``streams``, outside any graph's memory; their bytes as
    torch's allocator holds them."""
    total = 0
    for stream in streams:
        handle = stream.cuda_stream
        if handle not in _workspace_bytes:
            torch.cuda.empty_cache()
            before = torch.cuda.memory_reserved()
            with on(stream):
                _use_workspaces()
            stream.synchronize()
            torch.cuda.empty_cache()
            _workspace_bytes[handle] = max(0, torch.cuda.memory_reserved() - before)
        total += _workspace_bytes[handle]
    return total


def _use_workspaces() -> None:
    square = torch.ones(8, 8, device="cuda", dtype=torch.half)
    torch.mm(square, square)
    torch.addmm(square[0], square, square)
