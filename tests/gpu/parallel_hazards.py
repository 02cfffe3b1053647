"""Small steps whose operators must keep an order that is easily lost; each runs two branches, so
that a planner has something to set apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import torch
from torch import nn
from torch.nn import functional as fn
from torch.utils._pytree import tree_leaves

from collectors.workloads import Step

Hazard: TypeAlias = Callable[[], Step]

HAZARDS: Final[dict[str, Hazard]] = {}
"""By name, a factory of a step."""


def hazard(factory: Hazard) -> Hazard:
    """Adds a factory to the hazards."""
    HAZARDS[factory.__name__.replace("_", " ")] = factory
    return factory


def data(*shape: int) -> torch.Tensor:
    """Values on the device that is the default."""
    return torch.randn(*(shape or (64, 64)))


def busy(x: torch.Tensor, times: int = 3) -> torch.Tensor:
    """Work that takes a while and depends on ``x``."""
    for _ in range(times):
        x = torch.tanh(x @ x * 0.1)
    return x


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
    def hidden(x: torch.Tensor) -> torch.Tensor:
        _HIDDEN[0].copy_(x)
        return x.sum()


_HIDDEN: list[torch.Tensor] = []


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
    _HIDDEN[:] = [data()]
    x = data()

    def step() -> object:
        before = busy(_HIDDEN[0])
        total = torch.ops.hazards.hidden(busy(x))
        return before, total, busy(_HIDDEN[0])

    return step


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


@hazard
def memory_given_back_and_taken_again() -> Step:
    x, y = data(256, 256), data(256, 256)

    def step() -> object:
        total = torch.zeros(())
        for k in range(8):
            a = torch.tanh(x * (k + 1))
            b = torch.tanh(y - k)
            total = total + (a @ b).sum()
            del a, b
        return total, (x @ y).sum()

    return step


@hazard
def a_tensor_freed_before_its_reader_ran() -> Step:
    xs = [data(512, 64) for _ in range(6)]

    def step() -> object:
        sums = []
        for x in xs:
            slow = busy(torch.tanh(x[:64]), 5)
            wide = torch.tanh(x)
            sums.append((slow @ wide.t()).sum())
            del slow, wide
        return sums

    return step


@hazard
def a_result_that_is_an_input() -> Step:
    x = data()

    def step() -> object:
        a = busy(x)
        x.sub_(0.01)
        return x, a

    return step


@hazard
def a_tensor_resized_and_filled() -> Step:
    x = data()

    def step() -> object:
        out = torch.empty(0)
        torch.mm(busy(x), x, out=out)
        first = busy(out)
        out.add_(1)
        return first, out

    return step


@hazard
def a_call_on_the_host() -> Step:
    x = data()
    calls: list[int] = []

    def step() -> object:
        calls.append(1)
        return busy(x) * len(calls)

    return step


@hazard
def streams_of_its_own() -> Step:
    x, y = data(), data()
    side = torch.cuda.Stream()

    def step() -> object:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            a = busy(x)
        b = busy(y)
        torch.cuda.current_stream().wait_stream(side)
        return a + b

    return step


def hazard_results(result: object) -> list[torch.Tensor]:
    """The tensors that a step returned."""
    return [leaf.detach().clone() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
