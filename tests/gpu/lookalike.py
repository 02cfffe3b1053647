"""Workloads with equal parallel branches, which only node ids distinguish."""

from __future__ import annotations

from functools import partial

import torch

from collectors.workloads import Step


def _branches(count: int, first_on_main: bool, tail: int = 0) -> Step:
    """A fork into ``count`` branches of the same five kernels each, and a join.

    ``first_on_main``: the capture's own stream runs the first of them. ``tail`` kernels follow in a
    second fork of half as many branches.
    """
    given = [torch.randn(256, 256, device="cuda") for _ in range(count)]
    streams = [torch.cuda.Stream() for _ in range(count)]

    def fork(branches: int, length: int) -> None:
        main = torch.cuda.current_stream()
        begun = main.record_event()
        for place in range(branches):
            stream = main if first_on_main and place == 0 else streams[place]
            if stream is not main:
                stream.wait_event(begun)
            with torch.cuda.stream(stream):
                one = given[place]
                for _ in range(length):
                    one = torch.tanh(one @ given[place])
            if stream is not main:
                main.wait_stream(stream)

    def step() -> None:
        given[0].add_(0)
        fork(count, 3)
        given[0].mul_(1)
        if tail:
            fork(max(2, count // 2), tail)
            given[0].mul_(1)

    return step


two = partial(_branches, 2, True)
four = partial(_branches, 4, True)
four_beside = partial(_branches, 4, False)
eight = partial(_branches, 8, True)
twice = partial(_branches, 6, True, 2)
