"""One step of a small decoder under torch.compile, as one writes it first, and with three mends.

``0``: each layer prints, the scale lies on the CPU, the history is an argument that is written to.
``1``: nothing prints. ``2``: the scale lies on the GPU too. ``3``: the history is a buffer too.
"""

import sys

import torch
from torch import nn

from collectors import step as step_ended

fixed = int(sys.argv[1])


class Layer(nn.Module):
    """A residual block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.verbose = fixed < 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block's output."""
        y = self.down(torch.nn.functional.gelu(self.up(self.norm(x))))
        if self.verbose:
            print(end="")
        return x + y


class Decoder(nn.Module):
    """Four blocks that read a history."""

    def __init__(self, width: int = 512, depth: int = 4) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.register_buffer("history", torch.zeros(64, width))
        self.scale = torch.tensor(0.5)
        self.gpu_scale = nn.Parameter(torch.tensor(0.5), requires_grad=False)

    def forward(self, x: torch.Tensor, history: torch.Tensor) -> torch.Tensor:
        """The decoder's output; writes to the history."""
        if fixed >= 3:
            history = self.history
        history.mul_(0.9).add_(x)
        x = x + history * (self.gpu_scale if fixed >= 2 else self.scale)
        for layer in self.layers:
            x = layer(x)
        return x


torch.manual_seed(0)
model = Decoder().cuda()
run = torch.compile(model, mode="reduce-overhead")
x, history = torch.randn(64, 512, device="cuda"), torch.zeros(64, 512, device="cuda")
with torch.no_grad():
    for _ in range(120):
        run(x, history)
        step_ended()
