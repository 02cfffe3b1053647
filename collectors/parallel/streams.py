"""The streams that operators are issued on, and the workspaces that cuBLAS has on them.

torch gives cuBLAS a workspace for each thread and stream, of the size that CUBLAS_WORKSPACE_CONFIG
says when it is first used there: 32 MiB on a Hopper GPU. Most of what runs beside other work needs
next to nothing of it, so there are two kinds of streams, wide and narrow ones; whatever would run
another kernel with less is kept on the wide ones. The streams are this process's for good, and no
other code has them: a workspace keeps its size, and is no one else's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import torch
from cuda.bindings import runtime

from collectors.driver.calls import call

_CONFIG: Final = "CUBLAS_WORKSPACE_CONFIG"
_NARROW: Final = ":1024:1"
"""1 MiB: with cuBLASLt's own of that size a stream's workspaces fill a segment of 2 MiB."""
_NARROW_DETERMINISTIC: Final = ":16:8"
"""The smallest that torch accepts where it is asked to be deterministic."""

_streams: dict[bool, list[torch.cuda.Stream]] = {True: [], False: []}
_workspace_bytes: dict[int, int] = {}


def streams_of(wide: Sequence[bool]) -> list[torch.cuda.Stream]:
    """A stream for each entry, wide or narrow, on the current device."""
    count = {True: 0, False: 0}
    chosen = []
    for kind in wide:
        own = _streams[kind]
        if count[kind] == len(own):
            handle = call(runtime.cudaStreamCreateWithFlags, runtime.cudaStreamNonBlocking)
            own.append(torch.cuda.ExternalStream(int(handle)))
        chosen.append(own[count[kind]])
        count[kind] += 1
    return chosen


@contextmanager
def on(stream: torch.cuda.Stream) -> Iterator[None]:
    """Makes one of the streams current, with the size of workspace that is its own."""
    narrow = stream in _streams[False]
    before = os.environ.get(_CONFIG)
    if narrow:
        deterministic = torch.are_deterministic_algorithms_enabled()
        os.environ[_CONFIG] = _NARROW_DETERMINISTIC if deterministic else _NARROW
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        if narrow:
            if before is None:
                del os.environ[_CONFIG]
            else:
                os.environ[_CONFIG] = before


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
