"""The streams that operators are issued on, and the workspaces that cuBLAS has on them.

torch gives cuBLAS a workspace for each thread and stream, of the size that CUBLAS_WORKSPACE_CONFIG
says when it is first used there: 32 MiB on a Hopper GPU. Most of what runs beside other work needs
next to nothing of it, so there are narrow streams, with little; whatever would run another kernel
with less is kept on wide ones. There is nothing between: whatever ran another kernel with 1 MiB did
so with 16. The streams are this process's for good, and no other code has them: a workspace keeps
its size, and is no one else's.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import torch
from cuda.bindings import runtime

from collectors.driver.calls import call

_CONFIG: Final = "CUBLAS_WORKSPACE_CONFIG"
_NARROW: Final = ":1024:1"
"""What cuBLASLt has by default: the two workspaces of a stream fill one of the allocator's small
segments, and torch does not warn that cuBLASLt's is the larger."""
_DETERMINISTIC: Final = ":16:8"
"""What torch accepts where it is asked to be deterministic."""

_streams: dict[bool, list[torch.cuda.Stream]] = {True: [], False: []}
_is_wide: dict[int, bool] = {}
_workspace_bytes: dict[int, int] = {}
_before: list[str | None] = []
"""The setting before each of the streams that are current, the first of which is the program's."""


def streams_of(wide: Sequence[bool]) -> list[torch.cuda.Stream]:
    """A stream for each entry, with a workspace as any other stream has where that is true, on the
    current device."""
    count = {True: 0, False: 0}
    chosen = []
    for is_wide in wide:
        own = _streams[is_wide]
        position = count[is_wide]
        if position == len(own):
            handle = int(call(runtime.cudaStreamCreateWithFlags, runtime.cudaStreamNonBlocking))
            own.append(torch.cuda.ExternalStream(handle))
            _is_wide[own[-1].cuda_stream] = is_wide
        chosen.append(own[position])
        count[is_wide] = position + 1
    return chosen


@contextmanager
def on(stream: torch.cuda.Stream) -> Iterator[None]:
    """Makes one of the streams current, with the workspace that is its own; nests."""
    _before.append(os.environ.get(_CONFIG))
    if _is_wide[stream.cuda_stream]:
        _configure(_before[0])
    elif torch.are_deterministic_algorithms_enabled():
        _configure(_DETERMINISTIC)
    else:
        _configure(_NARROW)
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
    with warnings.catch_warnings():
        # Where cuBLASLt was given more than a narrow stream has: meant, and no news to a program.
        warnings.simplefilter("ignore")
        torch.mm(square, square)
        torch.addmm(square[0], square, square)
