from __future__ import annotations

import torch

from collectors.workloads import Step
from tests.gpu.hazards.steps import busy, data, hazard


@hazard
def write_through_a_view() -> Step:
    x, y = data(), data()

    def step() -> object:
        z = busy(x)
        late = z.sum()
        z.view(-1)[:64].mul_(2)
        return late, z + busy(y)

    return step


@hazard
def write_through_a_transpose() -> Step:
    x, y = data(), data()

    def step() -> object:
        z = busy(x)
        before = z @ y
        z.t().add_(1)
        return before, z, busy(y)

    return step


@hazard
def write_through_a_slice_of_a_slice() -> Step:
    x, y = data(), data()

    def step() -> object:
        z = busy(x)
        part = z[8:32][4:, ::2]
        before = part.sum()
        part.zero_()
        return before, z.sum(), busy(y)

    return step


@hazard
def write_through_diagonal() -> Step:
    x = data()

    def step() -> object:
        z = busy(x)
        before = busy(z)
        z.diagonal().fill_(3)
        return before, busy(z)

    return step


@hazard
def write_through_as_strided() -> Step:
    x = data()

    def step() -> object:
        z = busy(x)
        total = busy(z).sum()
        z.as_strided((16, 16), (128, 2), 3).mul_(-1)
        return total, z.sum()

    return step


@hazard
def write_through_a_view_as_another_type() -> Step:
    x = data()

    def step() -> object:
        z = busy(x)
        before = busy(z)
        z.view(torch.int32).bitwise_and_(-2)
        return before, busy(z)

    return step


@hazard
def write_through_detach() -> Step:
    x = data()

    def step() -> object:
        z = busy(x)
        before = busy(z)
        z.detach().add_(1)
        return before, busy(z)

    return step


@hazard
def two_views_that_do_not_overlap() -> Step:
    buffer, x, y = data(128, 64), data(), data()

    def step() -> object:
        buffer[:64].copy_(busy(x))
        buffer[64:].copy_(busy(y))
        return buffer.sum(), buffer.clone()

    return step


@hazard
def two_views_that_overlap() -> Step:
    buffer, x, y = data(128, 64), data(), data()

    def step() -> object:
        buffer[:80].copy_(busy(torch.cat([x, y[:16]])[:64]).repeat(2, 1)[:80])
        buffer[48:112].copy_(busy(y))
        return buffer.clone()

    return step


@hazard
def parts_of_fresh_memory_written_apart() -> Step:
    x, y = data(), data()

    def step() -> object:
        old = busy(x) + 1
        total = busy(old).sum()
        del old
        out = torch.empty(128, 64)
        out[:64] = busy(x)
        out[64:] = busy(y)
        return total, out

    return step
