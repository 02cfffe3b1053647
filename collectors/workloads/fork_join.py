"""``fork-join``: parallel branches on streams, then a set, a sum and a copy to the host."""

from __future__ import annotations

import torch
from torch import nn

from collectors.workloads import Step

WIDTH = 512
BRANCHES = ((256, 4), (512, 6), (1024, 8))
"""Width and depth of each branch, unequal so that one is the critical path."""


class Branch(nn.Module):
    """A sequence of matrix products with activations."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        inner = (nn.Linear(width, width) for _ in range(depth - 2))
        self.layers = nn.ModuleList([nn.Linear(WIDTH, width), *inner, nn.Linear(width, WIDTH)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``x``, (rows, WIDTH), to the same shape."""
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


def fork_join() -> Step:
    """Three branches on three streams; their sum, its checksum, and a copy in pinned memory."""
    branches = nn.ModuleList(Branch(width, depth) for width, depth in BRANCHES).cuda().eval()
    streams = [torch.cuda.Stream() for _ in BRANCHES]
    inputs = torch.randn(256, WIDTH, device="cuda")
    total = torch.empty(256, WIDTH, device="cuda")
    checksum = torch.empty((), device="cuda")
    on_host = torch.empty(256, WIDTH, pin_memory=True)

    @torch.no_grad()
    def step() -> torch.Tensor:
        main = torch.cuda.current_stream()
        results = []
        for branch, stream in zip(branches, streams, strict=True):
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                results.append(branch(inputs))
        for stream in streams:
            main.wait_stream(stream)
        torch.add(results[0], results[1], out=total)
        for result in results[2:]:
            total.add_(result)
        # The next step's streams wait for this one before they reuse the memory of the results.
        # A sum over the whole array first clears its semaphores with a memset.
        torch.sum(total, (0, 1), out=checksum)
        on_host.copy_(total, non_blocking=True)
        return on_host

    return step
