from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as fn

from collectors.workloads import Step
from tests.gpu.hazards.steps import busy, data, hazard


@hazard
def random_numbers_in_two_branches() -> Step:
    x, y = data(), data()

    def step() -> object:
        return fn.dropout(busy(x), 0.5), fn.dropout(busy(y), 0.3), torch.rand(64, 64) + x

    return step


@hazard
def random_numbers_in_place() -> Step:
    x, noise = data(), data()

    def step() -> object:
        noise.normal_()
        a = busy(x) + noise
        noise.uniform_()
        return a, busy(x + 1) + noise

    return step


@hazard
def random_numbers_of_two_generators() -> Step:
    x = data()

    def step() -> object:
        a = torch.bernoulli(torch.sigmoid(busy(x)))
        b = torch.randperm(64)
        return a, b, torch.randn_like(busy(x + 1))

    return step


@hazard
def workspaces_of_products_side_by_side() -> Step:
    xs = [data(16, 1024) for _ in range(6)]
    ws = [data(1024, 1024) * 0.03 for _ in range(6)]

    def step() -> object:
        outs = []
        for x, w in zip(xs, ws, strict=True):
            for _ in range(4):
                x = torch.tanh(x @ w)  # noqa: PLW2901  # a chain
            outs.append(x)
        return outs

    return step


@hazard
def workspaces_of_convolutions_side_by_side() -> Step:
    layers = [nn.Conv2d(32, 32, k, padding=k // 2).requires_grad_(False) for k in (1, 3, 5)]
    x = data(2, 32, 24, 24)

    def step() -> object:
        return [layer(torch.relu(layer(x))) for layer in layers]

    return step


@hazard
def sorting_and_scanning_side_by_side() -> Step:
    x, y = data(64, 512), data(64, 512)

    def step() -> object:
        return (
            torch.sort(torch.tanh(x), dim=1)[0],
            torch.cumsum(torch.tanh(y), 1),
            torch.topk(x + y, 9)[0],
            torch.fft.rfft(x).abs(),
        )

    return step


def _library() -> None:
    if hasattr(torch.ops, "hazards") and hasattr(torch.ops.hazards, "declared"):
        return

    @torch.library.custom_op("hazards::declared", mutates_args=("x",))
    def declared(x: torch.Tensor) -> torch.Tensor:
        x.mul_(0.5)
        return x.sum()

    @torch.library.custom_op("hazards::undeclared", mutates_args=())
    def undeclared(x: torch.Tensor) -> torch.Tensor:
        x.detach().mul_(0.5)
        return x.sum()

    @torch.library.custom_op("hazards::hidden", mutates_args=())
    def hidden(x: torch.Tensor, place: int) -> torch.Tensor:
        _HIDDEN[place].copy_(x)
        return x.sum()

    @torch.library.custom_op("hazards::average", mutates_args=())
    def average(x: torch.Tensor, place: int) -> torch.Tensor:
        return _HIDDEN[place].mul_(0.5).add_(x).clone()


_HIDDEN: list[torch.Tensor] = []
"""Hidden tensors of custom operators, one per step; a graph uses the tensor of its step for its
lifetime.
"""


@hazard
def a_custom_operator_that_writes_its_input() -> Step:
    _library()
    x = data()

    def step() -> object:
        z = busy(x)
        before = busy(z)
        return before, torch.ops.hazards.declared(z), busy(z)

    return step


@hazard
def a_custom_operator_that_does_not_say_what_it_writes() -> Step:
    _library()
    x = data()

    def step() -> object:
        z = busy(x)
        before = busy(z)
        return before, torch.ops.hazards.undeclared(z), busy(z)

    return step


@hazard
def a_custom_operator_with_a_hidden_tensor() -> Step:
    _library()
    place = len(_HIDDEN)
    _HIDDEN.append(data())
    x = data()

    def step() -> object:
        before = busy(_HIDDEN[place])
        total = torch.ops.hazards.hidden(busy(x), place)
        return before, total, busy(_HIDDEN[place])

    return step


@hazard
def a_custom_operator_that_keeps_an_average() -> Step:
    _library()
    place = len(_HIDDEN)
    _HIDDEN.append(data())
    x, y = data(), data()

    def step() -> object:
        return busy(y), torch.ops.hazards.average(busy(x), place)

    return step
