"""``experts``: a dense mixture of experts in fp16, independent work that the program serializes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from collectors.workloads import Step


@dataclass(frozen=True)
class MixtureSize:
    """Size of the layers."""

    layers: int = 2
    experts: int = 8
    tokens: int = 32
    hidden: int = 512
    """Width of a token; experts are internally twice as wide."""


class Mixture(nn.Module):
    """Sum of expert outputs per token, weighted by a gate."""

    def __init__(self, size: MixtureSize) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size.hidden)
        self.gate = nn.Linear(size.hidden, size.experts)
        self.experts = nn.ModuleList(
            nn.Sequential(
                nn.Linear(size.hidden, 2 * size.hidden),
                nn.GELU(),
                nn.Linear(2 * size.hidden, size.hidden),
            )
            for _ in range(size.experts)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x``: (tokens, hidden)."""
        tokens = self.norm(x)
        weights = self.gate(tokens).softmax(-1)
        parts = [
            expert(tokens) * weights[:, index : index + 1]
            for index, expert in enumerate(self.experts)
        ]
        return x + torch.stack(parts).sum(0)


def infer(size: MixtureSize) -> Step:
    """One pass through all layers."""
    layers = nn.Sequential(*(Mixture(size) for _ in range(size.layers))).cuda().half().eval()
    x = torch.randn(size.tokens, size.hidden, device="cuda", dtype=torch.half)

    @torch.no_grad()
    def step() -> object:
        return layers(x)

    return step
