"""Steps of several ranks that may share one GPU: they meet on the CPU, over Gloo."""

from __future__ import annotations

import os
import signal
import time

import torch
import torch.distributed as dist

from collectors.workloads import Step


def _meeting_step(before: Step) -> Step:
    weight = torch.ones(64, 64, device="cuda")
    total = torch.ones(1)

    def step() -> torch.Tensor:
        before()
        dist.all_reduce(total)
        total.fill_(1)
        return weight @ weight

    return step


def healthy() -> Step:
    """All ranks meet in every step."""
    return _meeting_step(lambda: None)


def raises_on_rank_1() -> Step:
    """Rank 1 raises in its third step; rank 0 is left in a collective."""
    calls = 0

    def before() -> None:
        nonlocal calls
        calls += 1
        if dist.get_rank() == 1 and calls == 3:
            raise ValueError("rank 1 has had enough")

    return _meeting_step(before)


def killed_on_rank_1() -> Step:
    """Rank 1's process is killed in its step."""

    def before() -> None:
        if dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    return _meeting_step(before)


def sleeps_for_ever() -> Step:
    """Every rank hangs in its own code, where no collective can time out."""
    return _meeting_step(lambda: time.sleep(3600))


LATE_CYCLES = 60_000
"""Cycles of rank 1 before the third all-reduce of :func:`late_rank_1`: about 30 µs on an H200."""


def late_rank_1() -> Step:
    """Six all-reduces over NCCL with a product before each; rank 1 comes late to the third."""
    weight = torch.randn(512, 512, device="cuda")
    parts = [torch.randn(512, 512, device="cuda") for _ in range(6)]
    late = dist.get_rank() == 1

    def step() -> torch.Tensor:
        for place, part in enumerate(parts):
            torch.mm(weight, weight, out=part)
            if late and place == 2:
                torch.cuda._sleep(LATE_CYCLES)
            dist.all_reduce(part)
        return parts[-1]

    return step


def leaves_rank_0_in_nccl() -> Step:
    """Rank 1 raises in its fourth step while rank 0 waits on the GPU, in a collective of NCCL."""
    inner = late_rank_1()
    calls = 0

    def step() -> object:
        nonlocal calls
        calls += 1
        if dist.get_rank() == 1 and calls == 4:
            raise ValueError("rank 1 has had enough")
        return inner()

    return step
