from __future__ import annotations

import torch
from torch import nn

from collectors.workloads import Step
from tests.gpu.hazards.steps import busy, data, hazard


@hazard
def gradients_that_add_up() -> Step:
    x, w = data(), data().requires_grad_()

    def step() -> object:
        w.grad = None
        a, b, c = (torch.tanh(x @ w * k) for k in (0.1, 0.2, 0.3))
        (a.sum() + b.square().sum() + (c @ w).sum()).backward()
        return w.grad

    return step


@hazard
def gradients_added_to_those_of_before() -> Step:
    x, w = data(), data().requires_grad_()
    w.grad = torch.zeros(64, 64)

    def step() -> object:
        (torch.tanh(x @ w).sum() + (x.t() @ w).square().mean()).backward()
        assert w.grad is not None
        return w.grad.clone(), busy(x)

    return step


@hazard
def an_optimizer_in_place() -> Step:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x = data()

    def step() -> object:
        optimizer.zero_grad()
        loss = model(x).square().mean() + model(x * 0.5).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@hazard
def batch_norm_statistics_of_two_passes() -> Step:
    norm = nn.BatchNorm1d(64).requires_grad_(False)
    x, y = data(), data()

    def step() -> object:
        return norm(busy(x)), norm(busy(y)), norm.running_mean.clone()  # type: ignore[union-attr]

    return step
