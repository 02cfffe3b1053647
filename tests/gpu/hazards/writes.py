from __future__ import annotations

import torch

from collectors.workloads import Step
from tests.gpu.hazards.steps import busy, data, hazard


@hazard
def an_out_argument() -> Step:
    x, y, out = data(), data(), data()

    def step() -> object:
        torch.mm(busy(x), y, out=out)
        first = out.sum()
        torch.mm(busy(y), x, out=out)
        return first, out.clone()

    return step


@hazard
def an_out_argument_that_is_a_view() -> Step:
    x, y, out = data(), data(), data(128, 64)

    def step() -> object:
        torch.mm(busy(x), y, out=out[:64])
        torch.add(busy(y), 1, out=out[64:])
        first = out.sum()
        torch.mul(out[:64], 2, out=out[32:96].clone())
        torch.sub(x, y, out=out[32:96])
        return first, out.clone()

    return step


@hazard
def an_out_argument_that_is_an_input() -> Step:
    x, y = data(), data()

    def step() -> object:
        z = busy(x)
        other = busy(z)
        torch.add(z, y, out=z)
        return other, busy(z)

    return step


@hazard
def several_out_arguments() -> Step:
    x, values = data(), data(64)
    places = torch.zeros(64, dtype=torch.long)

    def step() -> object:
        torch.max(busy(x), 1, out=(values, places))
        first = values.sum()
        torch.min(busy(x + 1), 1, out=(values, places))
        return first, values.clone(), places.clone()

    return step


@hazard
def inputs_that_are_one_tensor() -> Step:
    x = data()
    same = x.view(64, 64)

    def step() -> object:
        a = busy(x)
        same.mul_(0.5)
        b = busy(x)
        x.add_(0.1)
        return a, b, same.clone()

    return step


@hazard
def inputs_that_share_memory_without_a_storage() -> Step:
    x = data()
    other = torch.from_dlpack(x.detach())

    def step() -> object:
        a = busy(x)
        other.mul_(0.5)
        return a, busy(x)

    return step


@hazard
def memory_shared_within_the_step() -> Step:
    x = data()

    def step() -> object:
        z = busy(x)
        alias = torch.from_dlpack(z)
        a = busy(z)
        alias.add_(1)
        return a, busy(z)

    return step


@hazard
def a_state_that_each_step_changes() -> Step:
    state, x = data(), data()

    def step() -> object:
        seen = busy(state)
        state.mul_(0.9).add_(busy(x), alpha=0.1)
        return seen, state.clone()

    return step


@hazard
def a_write_after_slow_readers() -> Step:
    x, y = data(256, 256), data(256, 256)

    def step() -> object:
        a, b, c = busy(x, 6), busy(x + 1, 6), x.sum()
        x.copy_(y)
        return a, b, c, x.sum()

    return step


@hazard
def a_write_over_a_write() -> Step:
    out, x, y = data(), data(), data()

    def step() -> object:
        out.copy_(busy(x, 6))
        out.copy_(y)
        return out.clone(), busy(y)

    return step


@hazard
def an_index_put_that_accumulates() -> Step:
    table, x = data(), data()
    rows = torch.arange(64) % 7

    def step() -> object:
        before = busy(table)
        table.index_put_((rows,), busy(x), accumulate=True)
        return before, table.clone()

    return step


@hazard
def a_scatter_into_what_is_read() -> Step:
    cache, x = data(), data(8, 64)
    place = torch.arange(8).unsqueeze(1).expand(8, 64) * 3

    def step() -> object:
        attended = busy(cache)
        cache.scatter_(0, place, torch.tanh(x))
        return attended, busy(cache)

    return step


@hazard
def a_masked_write() -> Step:
    x = data()

    def step() -> object:
        z = busy(x)
        before = busy(z)
        z.masked_fill_(z > 0.1, 0)
        return before, busy(z)

    return step


@hazard
def a_foreach_write() -> Step:
    xs, ys = [data() for _ in range(4)], [data() for _ in range(4)]

    def step() -> object:
        before = [busy(x) for x in xs]
        torch._foreach_mul_(xs, 0.9)
        torch._foreach_add_(xs, ys, alpha=0.1)
        return before, [busy(x) for x in xs]

    return step
