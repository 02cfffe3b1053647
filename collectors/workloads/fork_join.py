"""``fork-join``: parallel branches over streams, a set before them and a copy to the host after."""

from __future__ import annotations

import torch
from torch import nn

from collectors.workloads import Step

WIDTH = 512
BRANCHES = 3
DEPTH = 6


class Branch(nn.Module):
    """A short run of matrix products, each with an activation."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x``: (rows, width), as is the result."""
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


def fork_join() -> Step:
    """Three branches on three streams, summed on the first, read back into pinned memory."""
    branches = nn.ModuleList(Branch() for _ in range(BRANCHES)).cuda().eval()
    streams = [torch.cuda.Stream() for _ in range(BRANCHES)]
    inputs = torch.randn(256, WIDTH, device="cuda")
    total = torch.empty(256, WIDTH, device="cuda")
    on_host = torch.empty(256, WIDTH, pin_memory=True)

    @torch.no_grad()
    def step() -> torch.Tensor:
        total.zero_()
        main = torch.cuda.current_stream()
        results = []
        for branch, stream in zip(branches, streams, strict=True):
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                results.append(branch(inputs))
        for result, stream in zip(results, streams, strict=True):
            main.wait_stream(stream)
            total.add_(result)
            # Made on another stream: its memory must not be handed out again before this use.
            result.record_stream(main)
        on_host.copy_(total, non_blocking=True)
        return on_host

    return step
