"""Streams for operators, with their cuBLAS workspaces.

torch allocates a cuBLAS workspace per thread and stream, sized by CUBLAS_WORKSPACE_CONFIG on first
use: 32 MiB on a Hopper GPU. Narrow streams have small workspaces; operators that would run other
kernels there stay on wide streams. Intermediate sizes do not help.

A fitted wide stream allocates as much as its kernels were observed to write, while cuBLAS still
receives the full size. Only this module uses the streams, so workspaces keep their size.
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
from collectors.parallel.state import view_as_tensor, wrap_memory
from graphviz_dash.model.memory import DEFAULT_POOL

_CONFIG: Final = "CUBLAS_WORKSPACE_CONFIG"
_NARROW: Final = ":1024:1"
"""cuBLASLt's default. Both workspaces of a stream fit one small allocator segment."""
_DETERMINISTIC: Final = ":16:8"
"""Setting that torch accepts in deterministic mode."""

_MIN_FITTED: Final = 1 << 20
"""Fills one small allocator segment together with cuBLASLt's workspace."""
_LARGE_BLOCK: Final = 10 << 20
"""From this size up, torch's allocator reserves exactly the block, below it twice as much."""
_LARGE_STEP: Final = 2 << 20


@dataclass(frozen=True)
class _StreamKind:
    is_wide: bool
    """cuBLAS uses the program's workspace size."""
    fitted_bytes: int | None = None
    """Allocated bytes if less than cuBLAS receives, else None."""


_streams: dict[_StreamKind, list[torch.cuda.Stream]] = {}
_kinds: dict[int, _StreamKind] = {}
_workspace_bytes: dict[int, int] = {}
_saved_settings: list[str | None] = []
"""Setting before each nested stream; the first is the program's."""


def get_streams(wide: Sequence[bool], fitted_bytes: int | None = None) -> list[torch.cuda.Stream]:
    """Return a stream per entry on the current device.

    Wide streams have the usual workspace, or ``fitted_bytes`` unless None.
    """
    count: Counter[_StreamKind] = Counter()
    streams = []
    for is_wide in wide:
        kind = _StreamKind(is_wide, fitted_bytes if is_wide else None)
        pool = _streams.setdefault(kind, [])
        if count[kind] == len(pool):
            handle = int(call(runtime.cudaStreamCreateWithFlags, runtime.cudaStreamNonBlocking))
            pool.append(torch.cuda.ExternalStream(handle))
            _kinds[pool[-1].cuda_stream] = kind
        streams.append(pool[count[kind]])
        count[kind] += 1
    return streams


def compute_fitted_bytes(used_bytes: int, full_bytes: int) -> int | None:
    """Return the workspace bytes for kernels that write ``used_bytes``; None without savings."""
    if used_bytes <= _MIN_FITTED:
        fitted = _MIN_FITTED
    else:
        fitted = max(_LARGE_BLOCK, -(-used_bytes // _LARGE_STEP) * _LARGE_STEP)
    # Deterministic mode in torch requires its own settings.
    is_less = fitted < full_bytes and not torch.are_deterministic_algorithms_enabled()
    return fitted if is_less else None


@contextmanager
def use_stream(stream: torch.cuda.Stream) -> Iterator[None]:
    """Make a stream current, with its workspace setting; nests."""
    _saved_settings.append(os.environ.get(_CONFIG))
    if _kinds[stream.cuda_stream].is_wide:
        _set_config(_saved_settings[0])
    elif torch.are_deterministic_algorithms_enabled():
        _set_config(_DETERMINISTIC)
    else:
        _set_config(_NARROW)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        _set_config(_saved_settings.pop())


def _set_config(setting: str | None) -> None:
    if setting is None:
        os.environ.pop(_CONFIG, None)
    else:
        os.environ[_CONFIG] = setting


def allocate_workspaces(streams: Sequence[torch.cuda.Stream]) -> int:
    """Make cuBLAS allocate workspaces on ``streams``, outside graph memory; return their bytes."""
    total = 0
    for stream in streams:
        handle = stream.cuda_stream
        if handle not in _workspace_bytes:
            square = torch.ones(8, 8, device="cuda", dtype=torch.half)
            result = torch.empty_like(square)
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            before = torch.cuda.memory_reserved()
            with use_stream(stream), torch.no_grad():
                fitted = _kinds[handle].fitted_bytes
                if fitted is not None:
                    _set_config(f":{fitted >> 10}:1")
                _run_products(square, result)
            stream.synchronize()
            torch.cuda.empty_cache()
            _workspace_bytes[handle] = max(0, torch.cuda.memory_reserved() - before)
        total += _workspace_bytes[handle]
    return total


def find_workspace(stream: torch.cuda.Stream) -> torch.Tensor | None:
    """Return cuBLAS's workspace on a stream as bytes, or None."""
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
    # cuBLAS allocates before cuBLASLt, whose workspace may be as large.
    size, address = min(blocks)
    return view_as_tensor(wrap_memory(address, address - size), torch.uint8)


def _run_products(square: torch.Tensor, result: torch.Tensor) -> None:
    """Run a cuBLAS and a cuBLASLt product with no other memory on the stream."""
    with warnings.catch_warnings():
        # Hide torch's warning about cuBLASLt's larger workspace, intended on narrow streams.
        warnings.simplefilter("ignore")
        torch.mm(square, square, out=result)
        torch.addmm(square[0], square, square, out=result)
