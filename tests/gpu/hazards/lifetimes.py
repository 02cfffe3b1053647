from __future__ import annotations

import torch

from collectors.workloads import Step
from tests.gpu.hazards.steps import busy, data, hazard


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
