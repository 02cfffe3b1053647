"""``moved-inputs``: trains on a batch of its own memory in each step, which no graph follows.

It is captured without an error, and every replay trains on the batch of the capture.
"""

from __future__ import annotations

import torch
from torch import nn

from collectors.workloads import Step
from collectors.workloads.mlp import BATCH, WIDTH

BATCHES = 64
"""Batches that lie side by side on the GPU and are taken in turn."""


def train() -> Step:
    """A step of a two-layer MLP on the next of 64 batches."""
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
