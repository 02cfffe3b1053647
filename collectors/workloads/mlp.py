"""``mlp-train``: a training step of a small MLP, bound by launches."""

from __future__ import annotations

import torch
from torch import nn

from collectors.workloads import Step

WIDTH = 64
LAYERS = 4
BATCH = 64


def train() -> Step:
    """Build a launch-bound step of four 64-wide layers on a batch of 64 with Adam."""
    model = nn.Sequential()
    for _ in range(LAYERS - 1):
        model.extend([nn.Linear(WIDTH, WIDTH), nn.ReLU()])
    model.append(nn.Linear(WIDTH, WIDTH))
    model.cuda()
    loss_of = nn.MSELoss()
    # capturable keeps Adam's step count on the GPU; capture requires it.
    optimizer = torch.optim.Adam(model.parameters(), capturable=True)
    inputs = torch.randn(BATCH, WIDTH, device="cuda")
    targets = torch.randn(BATCH, WIDTH, device="cuda")

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss: torch.Tensor = loss_of(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss

    return step
