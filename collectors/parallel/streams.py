"""The streams that operators are issued on, and the workspaces that cuBLAS has on them.

torch gives cuBLAS a workspace for each thread and stream, of the size that CUBLAS_WORKSPACE_CONFIG
says when it is first used there: 32 MiB on a Hopper GPU. Most of what runs beside other work needs
next to nothing of it, so there are narrow streams, with little; whatever would run another kernel
with less is kept on wide ones. There is nothing between: whatever ran another kernel with 1 MiB did
so with 16. Yet such a kernel writes little of what it was chosen for. So a wide stream can be
fitted: it has as much memory as the kernels were seen to write, while cuBLAS is told of as much as
ever, which torch does at each call. The streams are this process's for good, and no other code has
them: a workspace keeps its size, and is no one else's.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import torch
from cuda.bindings import runtime

from collectors.driver.calls import call
from collectors.parallel.state import as_tensor, storage_at
from graphviz_dash.model.memory import DEFAULT_POOL

_CONFIG: Final = "CUBLAS_WORKSPACE_CONFIG"
_NARROW: Final = ":1024:1"
"""What cuBLASLt has by default: the two workspaces of a stream fill one of the allocator's small
segments, and torch does not warn that cuBLASLt's is the larger."""
_DETERMINISTIC: Final = ":16:8"
"""What torch accepts where it is asked to be deterministic."""

_LEAST_FITTED: Final = 1 << 20
"""With cuBLASLt's it fills one of the allocator's small segments."""
_LARGE_BLOCK: Final = 10 << 20
"""What torch's allocator takes from the device for a block of this size and more is no more than
the block; it takes twice as much for one between this and the small ones."""
_LARGE_STEP: Final = 2 << 20


@dataclass(frozen=True)
class _Kind:
    """What a stream has of workspace."""

    is_wide: bool
    """Whether cuBLAS is told of as much as on any stream of the program."""
    fitted_bytes: int | None = None
    """What there is of it, if not all that it is told of."""


_streams: dict[_Kind, list[torch.cuda.Stream]] = {}
_kinds: dict[int, _Kind] = {}
_workspace_bytes: dict[int, int] = {}
_before: list[str | None] = []
"""The setting before each of the streams that are current, the first of which is the program's."""


def streams_of(wide: Sequence[bool], fitted_bytes: int | None = None) -> list[torch.cuda.Stream]:
    """A stream for each entry, on the current device: with a workspace as any other stream has
    where that is true, of which there are ``fitted_bytes`` unless that is None."""
    count: Counter[_Kind] = Counter()
    chosen = []
    for is_wide in wide:
        kind = _Kind(is_wide, fitted_bytes if is_wide else None)
        own = _streams.setdefault(kind, [])
        if count[kind] == len(own):
            handle = int(call(runtime.cudaStreamCreateWithFlags, runtime.cudaStreamNonBlocking))
            own.append(torch.cuda.ExternalStream(handle))
            _kinds[own[-1].cuda_stream] = kind
        chosen.append(own[count[kind]])
        count[kind] += 1
    return chosen


def fitted_bytes(used_bytes: int, whole_bytes: int) -> int | None:
    """The workspace of a stream whose kernels write ``used_bytes`` of ``whole_bytes``; None where
    it would be no less than all."""
    if used_bytes <= _LEAST_FITTED:
        fitted = _LEAST_FITTED
    else:
        fitted = max(_LARGE_BLOCK, -(-used_bytes // _LARGE_STEP) * _LARGE_STEP)
    # torch wants settings of its own where it is asked to be deterministic.
    is_less = fitted < whole_bytes and not torch.are_deterministic_algorithms_enabled()
    return fitted if is_less else None


@contextmanager
def on(stream: torch.cuda.Stream) -> Iterator[None]:
    """Makes one of the streams current, with the workspace that is its own; nests."""
    _before.append(os.environ.get(_CONFIG))
    if _kinds[stream.cuda_stream].is_wide:
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
            square = torch.ones(8, 8, device="cuda", dtype=torch.half)
            result = torch.empty_like(square)
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            before = torch.cuda.memory_reserved()
            with on(stream), torch.no_grad():
                fitted = _kinds[handle].fitted_bytes
                if fitted is not None:
                    _configure(f":{fitted >> 10}:1")
                _use_workspaces(square, result)
            stream.synchronize()
            torch.cuda.empty_cache()
            _workspace_bytes[handle] = max(0, torch.cuda.memory_reserved() - before)
        total += _workspace_bytes[handle]
    return total


def workspace(stream: torch.cuda.Stream) -> torch.Tensor | None:
    """cuBLAS's workspace on one of the streams, as bytes: the first of the largest blocks that the
    stream holds outside of graphs. None where it has none."""
    blocks = [
        (-block["size"], block["address"])
        for segment in torch.cuda.memory_snapshot()
        if segment["stream"] == stream.cuda_stream
        and tuple(segment["segment_pool_id"]) == DEFAULT_POOL
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    ]
    if not blocks:
        return None
    # cuBLAS takes its own before cuBLASLt's, which may be as large.
    size, address = min(blocks)
    return as_tensor(storage_at(address, address - size), torch.uint8)


def _use_workspaces(square: torch.Tensor, result: torch.Tensor) -> None:
    """Has a product by cuBLAS and one by cuBLASLt, with no memory of the stream but theirs."""
    with warnings.catch_warnings():
        # Where cuBLASLt was given more than a narrow stream has: meant, and no news to a program.
        warnings.simplefilter("ignore")
        torch.mm(square, square, out=result)
        torch.addmm(square[0], square, square, out=result)
