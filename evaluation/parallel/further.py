"""Ten more steps of other kinds, written after those of :mod:`evaluation.parallel.held_out` had
been looked at, and before anybody had predicted them.

On a GPU::

    python -m evaluation.parallel.further OUT [NAME ...]

records them as :mod:`evaluation.parallel.unseen` does its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import torch
from torch import nn
from torch.nn import functional

from evaluation.parallel.fresh import perceptron
from evaluation.parallel.held_out import Block, trained
from evaluation.parallel.unseen import HALF, Step, inferred, record


def coarse_and_fine() -> Step:
    """Densities and colours of a ray's samples by a coarse and a fine network, as in NeRF; fp16."""
    networks = [perceptron(60, 256, 256, 256, 256, 4).to(HALF) for _ in range(2)]
    samples = [torch.randn(64 * count, 60, device="cuda", dtype=HALF) for count in (32, 64)]

    def run() -> list[torch.Tensor]:
        colours = []
        for network, rays in zip(networks, samples, strict=True):
            seen = network(rays).unflatten(0, (64, -1))
            opaque = 1 - (-functional.relu(seen[..., 3])).exp()
            light = (1 - opaque + 1e-3).log().cumsum(1).exp()
            colours.append(((light * opaque).unsqueeze(-1) * seen[..., :3].sigmoid()).sum(1))
        return colours

    return inferred(run)


def weighted_pyramid() -> Step:
    """A neck that joins maps of four sizes upwards and downwards, as EfficientDet's; fp16."""

    def join() -> nn.Sequential:
        depthwise = nn.Conv2d(88, 88, 3, padding=1, groups=88)
        layers = (nn.SiLU(), depthwise, nn.Conv2d(88, 88, 1), nn.BatchNorm2d(88))
        return nn.Sequential(*layers).to("cuda", HALF).eval()

    up, down = [join() for _ in range(3)], [join() for _ in range(3)]
    maps = [torch.randn(1, 88, 64 >> k, 64 >> k, device="cuda", dtype=HALF) for k in range(4)]

    def run() -> list[torch.Tensor]:
        above = [maps[3]]
        for layer, own in zip(up, reversed(maps[:3]), strict=True):
            above.append(layer(own + functional.interpolate(above[-1], scale_factor=2.0)))
        above.reverse()
        below = [above[0]]
        for layer, own, middle in zip(down, maps[1:], above[1:], strict=True):
            below.append(layer(own + middle + functional.max_pool2d(below[-1], 2)))
        return below

    return inferred(run)


def two_discriminators() -> Step:
    """A generator's step against two discriminators of its pictures, forward and backward."""
    generator = nn.Sequential(
        *(nn.Linear(64, 128 * 64), nn.ReLU(), nn.Unflatten(1, (128, 8, 8))),
        *(nn.ConvTranspose2d(128, 64, 4, stride=2, padding=1), nn.ReLU()),
        *(nn.ConvTranspose2d(64, 3, 4, stride=2, padding=1), nn.Tanh()),
    ).cuda()

    def discriminator() -> nn.Sequential:
        return nn.Sequential(
            *(nn.Conv2d(3, 32, 4, stride=2, padding=1), nn.LeakyReLU(0.2)),
            *(nn.Conv2d(32, 64, 4, stride=2, padding=1), nn.LeakyReLU(0.2)),
            *(nn.Flatten(), nn.LazyLinear(1)),
        ).cuda()

    whole, half = discriminator(), discriminator()
    noise = torch.randn(32, 64, device="cuda")
    with torch.no_grad():
        pictures = generator(noise)
        whole(pictures), half(functional.avg_pool2d(pictures, 2))

    def loss() -> torch.Tensor:
        pictures = generator(noise)
        return -whole(pictures).mean() - half(functional.avg_pool2d(pictures, 2)).mean()

    return trained([generator], loss)


def side_network() -> Step:
    """A copy of an encoder that adds to a network's levels what a control asks for; fp16."""

    def level(a: int, b: int, stride: int) -> nn.Sequential:
        return nn.Sequential(
            *(nn.Conv2d(a, b, 3, stride=stride, padding=1), nn.GroupNorm(8, b), nn.SiLU()),
            *(nn.Conv2d(b, b, 3, padding=1), nn.SiLU()),
        ).to("cuda", HALF)

    widths = (32, 64, 128)
    encoders = [
        [level(a, b, 1 + (a > 4)) for a, b in zip((4, *widths), widths, strict=False)]
        for _ in range(2)
    ]
    zeros = [nn.Conv2d(width, width, 1).to("cuda", HALF) for width in widths]
    decoder = [level(128, 64, 1), level(64, 32, 1), nn.Conv2d(32, 4, 3, padding=1)]
    decoder[-1].to("cuda", HALF)
    picture, control = (torch.randn(1, 4, 32, 32, device="cuda", dtype=HALF) for _ in range(2))

    def run() -> torch.Tensor:
        levels, beside = [picture], [picture + control]
        for own, copy in zip(*encoders, strict=True):
            levels.append(own(levels[-1]))
            beside.append(copy(beside[-1]))
        added = [zero(x) for zero, x in zip(zeros, beside[1:], strict=True)]
        x = levels[-1] + added[-1]
        for at, layer in enumerate(decoder):
            x = layer(x)
            if at < 2:
                x = functional.interpolate(x, scale_factor=2.0) + levels[2 - at] + added[1 - at]
        return x

    return inferred(run)


def nodes_and_edges() -> Step:
    """Three layers of attention between 64 nodes, whose scores are biased by edges of their own."""
    layers = [
        (
            perceptron(128, 3 * 128),
            perceptron(128, 256, 128),
            perceptron(32, 4),
            perceptron(32, 64, 32),
        )
        for _ in range(3)
    ]

    def run(nodes: torch.Tensor, edges: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        for project, think, bias, along in layers:
            q, k, v = (
                part.unflatten(-1, (4, 32)).transpose(0, 1) for part in project(nodes).chunk(3, -1)
            )
            scores = (q @ k.transpose(1, 2) / 32**0.5 + bias(edges).permute(2, 0, 1)).softmax(-1)
            nodes = nodes + (scores @ v).transpose(0, 1).flatten(1)
            nodes = nodes + think(nodes)
            edges = edges + along(edges)
        return nodes, edges

    nodes = torch.randn(64, 128, device="cuda")
    return inferred(run, nodes, torch.randn(64, 64, 32, device="cuda"))


def columns_of_a_table() -> Step:
    """Twelve columns, each embedded by its own network, through two layers of attention."""
    own = [perceptron(1, 64, 64) for _ in range(12)]
    layer = nn.TransformerEncoderLayer(64, 4, 128, 0.0, batch_first=True, norm_first=True)
    mix = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).cuda().eval()
    head = perceptron(12 * 64, 128, 1)

    def run(rows: torch.Tensor) -> torch.Tensor:
        columns = [net(x) for net, x in zip(own, rows.split(1, -1), strict=True)]
        return head(mix(torch.stack(columns, 1)).flatten(1))

    return inferred(run, torch.randn(256, 12, device="cuda"))


def stacks_of_a_series() -> Step:
    """Trend, season and rest of 64 series, each a stack of two blocks, forward and backward."""
    stacks = [[perceptron(96, 256, 256, 96 + 24) for _ in range(2)] for _ in range(3)]
    series, wanted = torch.randn(64, 96, device="cuda"), torch.randn(64, 24, device="cuda")

    def loss() -> torch.Tensor:
        total = torch.zeros(64, 24, device="cuda")
        for stack in stacks:
            left = series
            for block in stack:
                back, ahead = block(left).split((96, 24), -1)
                left, total = left - back, total + ahead
        return functional.mse_loss(total, wanted)

    return trained([block for stack in stacks for block in stack], loss)


def draft_beside_target() -> Step:
    """Three tokens of a small decoder beside eight of a large one that verifies the last; fp16."""
    target = [Block(768, 12).to("cuda", HALF).eval() for _ in range(3)]
    draft = [Block(256, 4).to("cuda", HALF).eval() for _ in range(2)]
    words = torch.randn(4096, 256, device="cuda", dtype=HALF)
    masks = [torch.zeros(n, n, device="cuda", dtype=HALF) for n in (8, 1)]

    def run(tokens: torch.Tensor, begin: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        for block in target:
            tokens = block(tokens, masks[0])
        drafted, x = [], begin
        for _ in range(3):
            for block in draft:
                x = block(x, masks[1])
            x = ((x @ words.t()) / 16).softmax(-1) @ words
            drafted.append(x)
        return tokens, torch.cat(drafted)

    inputs = [torch.randn(n, w, device="cuda", dtype=HALF) for n, w in ((8, 768), (1, 256))]
    return inferred(run, *inputs)


def gates_of_a_mixer() -> Step:
    """Four blocks of a convolution along time beside a gate, as Mamba without its scan; fp16."""
    blocks = [
        nn.ModuleList(
            [
                nn.Linear(384, 768),
                nn.Conv1d(768, 768, 4, padding=3, groups=768),
                nn.Linear(384, 768),
                nn.Linear(768, 384),
            ]
        ).to("cuda", HALF)
        for _ in range(4)
    ]

    def run(x: torch.Tensor) -> torch.Tensor:
        for enter, along, gate, leave in blocks:
            y = functional.layer_norm(x, (384,))
            seen = along(enter(y).transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)
            x = x + leave(functional.silu(seen) * functional.silu(gate(y)))
        return x

    return inferred(run, torch.randn(1, 64, 384, device="cuda", dtype=HALF))


def many_answers() -> Step:
    """A network that answers five questions about its input, and learns from all; and its loss."""
    trunk = perceptron(256, 512, 256)
    heads = [perceptron(256, 128, size) for size in (2, 10, 50, 1, 4)]
    x = torch.randn(128, 256, device="cuda")
    wanted = [torch.randn(128, size, device="cuda").softmax(-1) for size in (2, 10, 50, 1, 4)]

    def loss() -> torch.Tensor:
        y = trunk(x).relu()
        losses = [
            -(head(y).log_softmax(-1) * goal).sum(-1).mean()
            for head, goal in zip(heads, wanted, strict=True)
        ]
        return torch.stack(losses).sum()

    return trained([trunk, *heads], loss)


STEPS: Final[tuple[Callable[[], Step], ...]] = (
    coarse_and_fine,
    two_discriminators,
    weighted_pyramid,
    columns_of_a_table,
    stacks_of_a_series,
    side_network,
    nodes_and_edges,
    draft_beside_target,
    gates_of_a_mixer,
    many_answers,
)


if __name__ == "__main__":
    record(STEPS, sys.argv[1:])
