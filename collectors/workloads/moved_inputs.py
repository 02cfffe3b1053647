"""``moved-inputs``: trains on a batch at a different address in each step, which no graph follows.

The capture succeeds, but every replay trains on the captured batch.
"""

from __future__ import annotations

import torch
from torch import nn

from collectors.workloads import Step
from collectors.workloads.mlp import BATCH, WIDTH

BATCHES = 64
"""Number of batches on the GPU, used in rotation."""


def train() -> Step:
    """Build a step of a two-layer MLP on the next of 64 batches."""
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)).cuda()
    loss_of = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), capturable=True)
    batches = [torch.randn(BATCH, WIDTH, device="cuda") for _ in range(BATCHES)]
    steps_done = 0

    def step() -> torch.Tensor:
        nonlocal steps_done
        inputs = batches[steps_done % BATCHES]
        steps_done += 1
        optimizer.zero_grad(set_to_none=True)
        loss: torch.Tensor = loss_of(model(inputs), inputs)
        loss.backward()
        optimizer.step()
        return loss

    return step
