"""Steps of public reports whose replays are wrong or lose memory."""

from __future__ import annotations

from collections.abc import Callable

import torch

Step = Callable[[], object]


def stray_kernel() -> Step:
    """R14: an operator on the default stream while another stream is captured."""
    x, total = torch.ones(64, device="cuda"), torch.zeros(64, device="cuda")

    def step() -> torch.Tensor:
        y = x * 2
        with torch.cuda.stream(torch.cuda.default_stream()):
            total.add_(1)  # STRAY
        return y + total

    return step


def deferred_free() -> Step:
    """R4: memory used on a side stream with ``record_stream``."""
    side = torch.cuda.Stream()
    x = torch.ones(1 << 20, device="cuda")

    def step() -> torch.Tensor:
        total = torch.zeros((), device="cuda")
        current = torch.cuda.current_stream()
        for _ in range(8):
            block = x * 2
            side.wait_stream(current)
            with torch.cuda.stream(side):
                part = block.sum()
                block.record_stream(side)  # DEFERRED
            current.wait_stream(side)
            total = total + part
            del block
        return total

    return step


def copy_512_mib() -> Step:
    """R12: a copy that is slower in a capture."""
    return _copy(512 << 20)


def copy_508_mib() -> Step:
    """R12: the largest copy of the report that is not."""
    return _copy(508 << 20)


def _copy(size: int) -> Step:
    source = torch.ones(size, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)
