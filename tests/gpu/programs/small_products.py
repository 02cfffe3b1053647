"""Eight layers of three products with the same input, which one product could replace."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

LAYERS = 8
WIDTH = 1024


def qkv(merged: bool = False) -> Callable[[], torch.Tensor]:
    """Build the step; ``merged`` replaces the three products by one."""
    inputs = torch.randn(16, WIDTH, device="cuda", dtype=torch.bfloat16)
    parts = 1 if merged else 3
    products = [
        nn.Linear(WIDTH, WIDTH * (3 // parts), bias=False).to("cuda", torch.bfloat16)
        for _ in range(parts * LAYERS)
    ]

    @torch.no_grad()
    def step() -> torch.Tensor:
        result = inputs
        for layer in range(LAYERS):
            if merged:
                query, key, value = products[layer](result).chunk(3, -1)
            else:
                query, key, value = (
                    product(result) for product in products[3 * layer : 3 * layer + 3]
                )
            result = query * torch.sigmoid(key) + value
        return result

    return step
