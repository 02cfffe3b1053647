"""More steps that the planner of mode ``parallel`` has not seen, since its model of what kernels do
to each other was changed after a look at those of :mod:`evaluation.parallel.unseen`.

On a GPU, with torchvision::

    python -m evaluation.parallel.fresh OUT [NAME ...]

records them as that module does its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Final

import torch
from torch import nn
from torch.nn import functional

from evaluation.parallel.unseen import HALF, Step, inferred, record


def fire_modules() -> Step:
    """SqueezeNet 1.1 on one picture; fp16."""
    import torchvision

    model = torchvision.models.squeezenet1_1().to("cuda", HALF).eval()
    return inferred(model, torch.randn(1, 3, 224, 224, device="cuda", dtype=HALF))


def three_heads() -> Step:
    """MobileNetV3 with heads for classes, depth and edges; fp16."""
    import torchvision

    trunk = torchvision.models.mobilenet_v3_small().features.to("cuda", HALF).eval()
    heads = [
        nn.Sequential(
            nn.Conv2d(576, 128, 1),
            nn.ReLU(),
            nn.Conv2d(128, 128, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(128, channels, 1),
            nn.Upsample(scale_factor=8, mode="bilinear"),
        ).to("cuda", HALF)
        for channels in (21, 1, 1)
    ]
    x = torch.randn(1, 3, 256, 256, device="cuda", dtype=HALF)

    def step(x: torch.Tensor) -> list[torch.Tensor]:
        features = trunk(x)
        return [head(features) for head in heads]

    return inferred(step, x)


class ParallelBlock(nn.Module):
    """Attention and a gated perceptron side by side behind one norm, as in GPT-J and PaLM."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.gate, self.up = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One sequence of tokens by width."""
        y = self.norm(x)
        q, k, v = (
            part(y).unflatten(-1, (self.heads, -1)).transpose(0, 1).unsqueeze(0)
            for part in (self.query, self.key, self.value)
        )
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        joined = attended.squeeze(0).transpose(0, 1).flatten(1)
        mixed = self.down(functional.silu(self.gate(y)) * self.up(y))
        return x + self.out(joined) + mixed


def parallel_blocks() -> Step:
    """Six blocks of attention beside a perceptron, 8 tokens; fp16."""
    model = nn.Sequential(*[ParallelBlock(1024, 16) for _ in range(6)]).to("cuda", HALF).eval()
    return inferred(model, torch.randn(8, 1024, device="cuda", dtype=HALF))


class Branchformer(nn.Module):
    """Attention beside a gated convolution over time, joined by a product."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.inner = nn.Linear(width, 4 * width)
        self.norm = nn.LayerNorm(2 * width)
        self.time = nn.Conv1d(2 * width, 2 * width, 15, padding=7, groups=2 * width)
        self.outer = nn.Linear(2 * width, width)
        self.join = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Frames by width."""
        a, b = (norm(x) for norm in self.before)
        attended = self.attention(a, a, a, need_weights=False)[0]
        left, right = functional.gelu(self.inner(b)).chunk(2, dim=-1)
        gate = self.time(self.norm(right).transpose(1, 2)).transpose(1, 2)
        return x + self.join(torch.cat([attended, self.outer(left * gate)], dim=-1))


def branchformer() -> Step:
    """Four layers of attention beside a gated convolution over 200 frames."""
    model = nn.Sequential(*[Branchformer(256) for _ in range(4)]).to("cuda").eval()
    return inferred(model, torch.randn(1, 200, 256, device="cuda"))


def perceptron(*widths: int) -> nn.Sequential:
    """Linear layers with ReLUs between, on the GPU."""
    layers = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1]).to("cuda")


def twin_critics() -> Step:
    """An update of two critics, their targets and the actor, as soft actor-critic has it."""
    actor = perceptron(32, 256, 256, 8)
    critics = [perceptron(40, 256, 256, 1) for _ in range(2)]
    targets = [perceptron(40, 256, 256, 1) for _ in range(2)]
    weights = [weight for net in (actor, *critics) for weight in net.parameters()]
    now, then = (torch.randn(256, 32, device="cuda") for _ in range(2))
    action, reward = torch.randn(256, 8, device="cuda"), torch.randn(256, 1, device="cuda")

    def step() -> object:
        for weight in weights:
            weight.grad = None
        with torch.no_grad():
            ahead = torch.cat([then, actor(then).tanh()], 1)
            wanted = reward + 0.99 * torch.minimum(*[net(ahead) for net in targets])
        seen = torch.cat([now, action], 1)
        losses = [functional.mse_loss(net(seen), wanted) for net in critics]
        chosen = torch.cat([now, actor(now).tanh()], 1)
        losses.append(-torch.minimum(*[net(chosen) for net in critics]).mean())
        torch.stack(losses).sum().backward()
        return [weight.grad for weight in weights]

    return step


class GatedStack(nn.Module):
    """Dilated convolutions with a gate beside each, whose parts are summed, as in WaveNet."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList(
            nn.ModuleList(
                [
                    nn.Conv1d(width, width, 3, padding=2**at, dilation=2**at),
                    nn.Conv1d(width, width, 3, padding=2**at, dilation=2**at),
                    nn.Conv1d(width, width, 1),
                    nn.Conv1d(width, 2 * width, 1),
                ]
            )
            for at in range(depth)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A signal of width channels."""
        total = torch.zeros((), device=x.device, dtype=x.dtype)
        for filtered, gate, residual, skip in self.parts:  # type: ignore[misc]
            y = filtered(x).tanh() * gate(x).sigmoid()
            total = total + skip(y)
            x = x + residual(y)
        return total


def gated_waves() -> Step:
    """Ten dilated convolutions with gates and skips over 2,048 samples; fp16."""
    model = GatedStack(64, 10).to("cuda", HALF).eval()
    return inferred(model, torch.randn(1, 64, 2048, device="cuda", dtype=HALF))


def modalities() -> Step:
    """Three encoders whose means are joined, and three decoders, forward and backward."""
    widths = (784, 256, 64)
    encoders = [perceptron(width, 256, 64) for width in widths]
    decoders = [perceptron(64, 256, width) for width in widths]
    weights = [weight for net in (*encoders, *decoders) for weight in net.parameters()]
    inputs = [torch.randn(64, width, device="cuda") for width in widths]

    def step() -> object:
        for weight in weights:
            weight.grad = None
        code = torch.stack([net(x) for net, x in zip(encoders, inputs, strict=True)]).mean(0)
        losses = [
            functional.mse_loss(net(code), x) for net, x in zip(decoders, inputs, strict=True)
        ]
        torch.stack(losses).sum().backward()
        return [weight.grad for weight in weights]

    return step


def two_speeds() -> Step:
    """Frames at two rates through three-dimensional convolutions, as in SlowFast; fp16."""

    def path(width: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for a, b in ((3, width), (width, 2 * width), (2 * width, 4 * width)):
            layers += [nn.Conv3d(a, b, 3, stride=(1, 2, 2), padding=1), nn.BatchNorm3d(b)]
            layers += [nn.ReLU()]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten()).to("cuda", HALF).eval()

    slow, fast = path(32), path(8)
    head = nn.Linear(160, 100).to("cuda", HALF)
    clip = torch.randn(1, 3, 16, 96, 96, device="cuda", dtype=HALF)
    return inferred(lambda x: head(torch.cat([slow(x[:, :, ::4]), fast(x)], 1)), clip)


STEPS: Final[tuple[Callable[[], Step], ...]] = (
    fire_modules,
    three_heads,
    parallel_blocks,
    branchformer,
    twin_critics,
    gated_waves,
    modalities,
    two_speeds,
)


if __name__ == "__main__":
    record(STEPS, sys.argv[1:])
