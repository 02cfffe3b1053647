"""A step for each rule that breaks it, and sound ones. ``# BREAKS <rule>`` marks the line."""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch
from cuda.bindings import runtime
from torch import nn

Step = Callable[[], object]


def inputs() -> torch.Tensor:
    return torch.arange(64 * 64, device="cuda", dtype=torch.float32).reshape(64, 64) / 4096


def healthy() -> Step:
    x, total = inputs(), torch.zeros(64, device="cuda")

    def step() -> torch.Tensor:
        total.add_((x @ x).relu().sum(0))
        return total.mean()

    return step


def healthy_training() -> Step:
    model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5), nn.Linear(64, 8)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), capturable=True)
    x = inputs()

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def sync_value() -> Step:
    x = inputs()

    def step() -> float:
        total = (x * 2).sum()
        return total.item()  # BREAKS sync-value

    return step


def sync_shape() -> Step:
    x = inputs()

    def step() -> torch.Tensor:
        return x[x > 0.5].sum()  # BREAKS sync-shape

    return step


def sync_copy() -> Step:
    x = inputs()

    def step() -> torch.Tensor:
        return (x * 2).cpu()  # BREAKS sync-copy

    return step


def sync_call() -> Step:
    x = inputs()

    def step() -> torch.Tensor:
        y = x * 2
        torch.cuda.synchronize()  # BREAKS sync-call
        return y

    return step


def control_flow() -> Step:
    x = inputs()

    def step() -> torch.Tensor:
        y = x * 2
        if y.sum() > 3:  # BREAKS control-flow
            y = y * 0.5
        return y

    return step


def control_flow_silent() -> Step:
    x = inputs()
    calls = iter(range(1000))

    def step() -> torch.Tensor:
        if next(calls) % 2:
            return (x * 2).sum()
        return x.sum()  # BREAKS control-flow

    return step


def unpinned_copy() -> Step:
    batch = torch.ones(64, 64)

    def step() -> torch.Tensor:
        x = batch.cuda()  # BREAKS unpinned-copy
        return x * 2

    return step


def unpinned_constant() -> Step:
    x = inputs()

    def step() -> torch.Tensor:
        scale = torch.tensor([2.0, 3.0], device="cuda")  # BREAKS unpinned-copy
        return x * scale.sum()

    return step


def generator() -> Step:
    source = torch.Generator("cuda")

    def step() -> torch.Tensor:
        return torch.randn(64, device="cuda", generator=source)  # BREAKS generator

    return step


def two_captures() -> Step:
    x = inputs()

    def step() -> torch.Tensor:
        y = x * 2
        other = torch.cuda.CUDAGraph()
        with torch.cuda.graph(other):  # BREAKS two-captures
            z = x + 1
        other.replay()
        return y + z

    return step


def other_thread() -> Step:
    x = inputs()
    size = iter(range(1, 1000))

    def prefetch() -> None:
        torch.empty(next(size) << 26, device="cuda")  # BREAKS other-thread

    def step() -> torch.Tensor:
        worker = threading.Thread(target=prefetch, name="prefetch")
        worker.start()
        worker.join()
        return x * 2

    return step


def unjoined_stream() -> Step:
    x, out = inputs(), torch.empty(64, 64, device="cuda")
    side = torch.cuda.Stream()

    def step() -> torch.Tensor:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.mul(x, 2, out=out)  # BREAKS unjoined-stream
        return x + 1

    return step


def optimizer_capturable() -> Step:
    model = nn.Linear(64, 8).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    x = inputs()

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()  # BREAKS optimizer-capturable
        return loss

    return step


def forbidden_call() -> Step:
    x = inputs()

    def step() -> torch.Tensor:
        y = x * 2
        _, pointer = runtime.cudaMalloc(1 << 20)  # BREAKS forbidden-call
        if pointer is not None:
            runtime.cudaFree(pointer)
        return y + 1

    return step


def moved_input() -> Step:
    batches = [inputs() + number for number in range(50)]

    def step() -> torch.Tensor:
        x = batches.pop()
        return (x * 2).sum(0)  # BREAKS moved-input

    return step


def changing_shape() -> Step:
    x = inputs()
    lengths = iter(range(10, 1000))

    def step() -> torch.Tensor:
        length = next(lengths) % 32 + 8
        return (x[:length] * 2).sum(0)  # BREAKS changing-shape

    return step


def changing_scalar() -> Step:
    weights, slope = torch.zeros(64, device="cuda"), torch.ones(64, device="cuda")
    rates = iter(0.1 / (1 + number) for number in range(1000))

    def step() -> torch.Tensor:
        rate = next(rates)
        return weights.add_(slope, alpha=-rate)  # BREAKS changing-scalar

    return step


def cpu_work() -> Step:
    x = inputs()
    history = torch.zeros(8)
    count = 0

    def step() -> torch.Tensor:
        nonlocal count
        count += 1
        history.mul_(0.9)  # BREAKS cpu-work
        return x * 2

    return step


def escaped_work() -> Step:
    x, out = inputs(), torch.zeros(64, 64, device="cuda")

    def step() -> torch.Tensor:
        y = x * 2
        with torch.cuda.stream(torch.cuda.default_stream()):
            out.add_(1)  # BREAKS escaped-work
        return y

    return step


def empty_capture() -> Step:
    x = torch.ones(8)

    def step() -> torch.Tensor:
        return x * 2  # BREAKS empty-capture

    return step


def replay_differs() -> Step:
    """Takes another way when it is captured, as some libraries do."""
    x = inputs()

    def step() -> torch.Tensor:
        if torch.cuda.is_current_stream_capturing():
            return x * 3
        return x * 2

    return step


def not_the_same_twice() -> Step:
    """Copies from another place each time, by a call that torch does not see."""
    x, out = inputs(), torch.empty(64, 64, device="cuda")
    sizes = iter(range(1000))

    def step() -> torch.Tensor:
        y = torch.mul(x, 2, out=out)
        offset = next(sizes) * 4
        stream = torch.cuda.current_stream().cuda_stream
        kind = runtime.cudaMemcpyKind.cudaMemcpyDeviceToDevice
        runtime.cudaMemcpyAsync(out.data_ptr(), x.data_ptr() + offset, 4096, kind, stream)
        return y

    return step


def several() -> Step:
    """Breaks five rules in one step, in this order."""
    x, batch = inputs(), torch.ones(64, 64)
    side = torch.cuda.Stream()
    out = torch.empty(64, 64, device="cuda")

    def step() -> torch.Tensor:
        y = x + batch.cuda()  # BREAKS 1 unpinned-copy
        scale = float(y.max())  # BREAKS 2 sync-value
        y = y / scale
        torch.cuda.synchronize()  # BREAKS 3 sync-call
        rows = y.sum(1).nonzero()  # BREAKS 4 sync-shape
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.mul(x, 2, out=out)  # BREAKS 5 unjoined-stream
        return y[:, 0] + rows.shape[0]

    return step


def in_backward() -> Step:
    """Wait in the backward of a custom function, on autograd's thread."""

    class Clip(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: object, slope: torch.Tensor) -> torch.Tensor:
            return slope / max(1.0, slope.norm().item())  # BREAKS sync-value

    x = inputs().requires_grad_()

    def step() -> torch.Tensor:
        x.grad = None
        loss = Clip.apply(x).sum()
        loss.backward()
        return loss

    return step
