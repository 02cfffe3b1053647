"""What a compiled step costs with the recorder on and no traced window, against without it, and
whether its results are equal. Needs a GPU with torch and torchvision.

    python -m benchmarks.compile_recorder [--blocks 5] [--steps 300]

Blocks with and without the recorder take turns in one process, so that clocks and neighbours change
for both alike; the step is compiled anew in each block, as a program that is recorded would. Every
figure is the median over the blocks of each block's median; the goal is 2%.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import torch
from torch import nn

from benchmarks.compile_steps import (
    DEVICE,
    Outcome,
    Step,
    each_apart,
    graphed,
    inference,
    random,
    timed,
)
from benchmarks.compile_sums import vision
from collectors.program.files import ProcessFolder, Settings
from collectors.program.process_watcher import ProcessWatcher
from collectors.program.recorder import KEPT

GOAL: Final = 0.02
_TRIED: Final = 10
"""Steps of a try on the CPU, where the recorder's own timed steps are not waited for."""


def small() -> Step:
    """A few tiny layers: one short graph, in which every microsecond shows."""
    own = nn.Sequential(*(nn.Linear(256, 256) for _ in range(4))).to(DEVICE)
    return inference(own, random(16, 256))


def broken() -> Step:
    """Four graphs with prints between them."""
    own = nn.ModuleList(nn.Linear(256, 256) for _ in range(4)).to(DEVICE)

    def forward(x: torch.Tensor) -> torch.Tensor:
        for layer in own:
            x = torch.relu(layer(x))
            print(end="")
        return x

    return inference(forward, random(16, 256))


def training() -> Step:
    """ResNet-18 forward and backward, and an optimizer that is not compiled."""
    own = vision("resnet18").train()
    optimizer = torch.optim.SGD(own.parameters(), lr=1e-5)
    compiled, x = graphed(own), random(8, 3, 96, 96)

    def step() -> object:
        torch.compiler.cudagraph_mark_step_begin()
        loss = compiled(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        return loss.detach().clone()

    return step


STEPS: Final[dict[str, Callable[[], Step]]] = {
    "small": small,
    "broken": broken,
    "training": training,
}


def block(build: Callable[[], Step], count: int, is_recorded: bool) -> tuple[float, torch.Tensor]:
    """The median of a compiled step's times in ns, and what the last one gave."""
    from torch._inductor.cudagraph_trees import reset_cudagraph_trees

    torch._dynamo.reset()
    if DEVICE != "cpu":
        reset_cudagraph_trees()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        if is_recorded:
            watcher = ProcessWatcher(Settings(skip=0, window=0), ProcessFolder(Path(folder)))
            stack.enter_context(watcher.watching())
        step = build()
        # The recorder times so many steps at first.
        timed(step, _TRIED if DEVICE == "cpu" else KEPT + 10)
        gc.collect()
        took = statistics.median(timed(step, count))
        result = step()
        assert isinstance(result, torch.Tensor)
        return took, result.detach().cpu().clone()


def measured(name: str, blocks: int, count: int) -> str:
    """The line of a step."""
    gc.disable()
    begun = time.perf_counter()
    took: dict[bool, list[float]] = {False: [], True: []}
    results = []
    for _ in range(blocks):
        for is_recorded in (True, False):
            median, result = block(STEPS[name], count, is_recorded)
            took[is_recorded].append(median)
            results.append(result)
    without, recorded = (statistics.median(took[each]) for each in (False, True))
    spread = f"{min(took[False]) / 1e3:.1f} to {max(took[False]) / 1e3:.1f}"
    equal = all(torch.equal(results[0], result) for result in results[1:])
    cost = recorded / without - 1
    return (
        f"| {name} | {without / 1e3:.1f} ({spread}) | {recorded / 1e3:.1f} | {cost:+.2%} | "
        f"{'ok' if cost <= GOAL else 'OVER'} | {'equal' if equal else 'DIFFERENT'} | "
        f"{time.perf_counter() - begun:.0f} s |"
    )


def row(outcome: Outcome[str]) -> str:
    """The line of a step, or why it failed."""
    return outcome.result or f"| {outcome.name} | failed: {outcome.failure} | | | | | |"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=120, help="Most for each step.")
    chosen = parser.parse_args()
    measure = partial(measured, blocks=chosen.blocks, count=chosen.steps)
    print("| step | without, µs | recorded | cost | at most 2% | results | took |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for outcome in each_apart(tuple(STEPS), measure, chosen.seconds):
        print(row(outcome), flush=True)


if __name__ == "__main__":
    main()
