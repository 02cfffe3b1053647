"""What a compiled step costs with the recorder on and no traced window, against without it, and
whether its results are equal. Needs a GPU with torch and torchvision.

    python -m evaluation.compile.recorder [--processes 3] [--steps 400] [STEP...]

A step is compiled and recorded in several processes. In each it is timed, then the recorder ends,
and the same compiled step is timed again: two compilations of one step may differ by more than what
is looked for. A process that goes on is itself a few percent slower or quicker than before; so as
many processes that were never recorded are timed twice in the same way, in turns with the others.
The cost is what the median of the recorded ones changed by more than theirs, with its standard
error; the goal is 2%. The results should be what the others give, which are deterministic.
"""

from __future__ import annotations

import gc
import math
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Final

import torch
from torch import nn
from torch._inductor import config as inductor

from collectors.program.files import ProcessFolder, Settings
from collectors.program.process_watcher import ProcessWatcher
from collectors.program.recorder import KEPT
from evaluation.compile.steps import (
    DEVICE,
    Apart,
    Step,
    arguments,
    error_of_median,
    graphed,
    inference,
    quiet_cores,
    random,
    settled_times,
    timed,
    wait_until_ready,
)
from evaluation.zoo.compiled_models import vision

GOAL: Final = 0.02
PROCESSES: Final = 3
COUNT: Final = 400
_TURNS: Final = 4
_TRIED: Final = 10
"""Steps of a try on the CPU, where the recorder's own timed steps are not waited for."""


def small() -> Step:
    """A few tiny layers: one short graph, in which every microsecond shows."""
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(4))).to(DEVICE)
    return inference(model, random(16, 256))


def broken() -> Step:
    """Four graphs with prints between them."""
    model = nn.ModuleList(nn.Linear(256, 256) for _ in range(4)).to(DEVICE)

    def forward(x: torch.Tensor) -> torch.Tensor:
        for layer in model:
            x = torch.relu(layer(x))
            print(end="")
        return x

    return inference(forward, random(16, 256))


def training() -> Step:
    """ResNet-18 forward and backward, and an optimizer that is not compiled."""
    model = vision("resnet18").train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    compiled_model, x = graphed(model), random(8, 3, 96, 96)

    def step() -> object:
        torch.compiler.cudagraph_mark_step_begin()
        loss = compiled_model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach().clone()

    return step


STEPS: Final[dict[str, Callable[[], Step]]] = {
    "small": small,
    "broken": broken,
    "training": training,
}


@dataclass(frozen=True)
class Took:
    """Times of a compiled step in one process."""

    first_ns: float
    """Median time in ns, with the recorder on unless never recorded."""
    then_ns: float
    """The same after the recorder ended, with the same code and graphs."""
    result: str
    """A digest of what a step gave at first."""

    @property
    def change(self) -> float:
        """Relative excess of the first time."""
        return self.first_ns / self.then_ns - 1


def recorded(name: str, count: int) -> Iterator[Took | None]:
    """Time a step with the recorder, then without."""
    with tempfile.TemporaryDirectory() as folder:
        watcher = ProcessWatcher(Settings(skip=0, window=0), ProcessFolder(Path(folder)))
        with watcher.watch():
            step = compiled(name)
            digest = result_of(step)
            yield None
            median_ns = settled_median(step, count)
        yield Took(median_ns, settled_median(step, count), digest)


def unrecorded(name: str, count: int) -> Iterator[Took | None]:
    """Time a step twice without the recorder."""
    step = compiled(name)
    digest = result_of(step)
    yield None
    median_ns = settled_median(step, count)
    yield Took(median_ns, settled_median(step, count), digest)


def compiled(name: str) -> Step:
    """Compile a step and call it until the recorder times no more calls."""
    # Else cuDNN and cuBLAS may add in another order in each process.
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Nor may kernels be chosen by how long they take (torch 2.10).
    if hasattr(inductor, "deterministic"):
        inductor.deterministic = True
    torch.manual_seed(0)
    step = STEPS[name]()
    timed(step, _TRIED if DEVICE == "cpu" else KEPT + 10)
    return step


def settled_median(step: Step, count: int) -> float:
    """Lowest median of several turns in ns, because disturbances only add time."""
    gc.collect()
    gc.disable()
    settled_times(step, 1)
    with quiet_cores():
        return min(statistics.median(timed(step, count // _TURNS)) for _ in range(_TURNS))


def result_of(step: Step) -> str:
    """A digest of what the step gives."""
    result = step()
    assert isinstance(result, torch.Tensor)
    return sha256(result.detach().cpu().numpy().tobytes()).hexdigest()


Group = tuple[Apart[Took], ...]


def started(names: Sequence[str], processes: int, count: int) -> list[Group]:
    """Start the processes of each step, alternately unrecorded and recorded."""
    return [
        tuple(
            Apart(name, partial(measure, count=count))
            for _ in range(processes)
            for measure in (unrecorded, recorded)
        )
        for name in names
    ]


def row(group: Group) -> str:
    outcomes = []
    for process in group:
        outcomes.append(process.measured())
        process.end()
    failure = next((each.failure for each in outcomes if each.failure is not None), None)
    if failure is not None:
        return f"| {group[0].name} | failed: {failure} | | | | | |"
    results = [each.result for each in outcomes if each.result is not None]
    never, recorded_results = results[::2], results[1::2]
    cost, drift = (
        statistics.median(each.change for each in own) for own in (recorded_results, never)
    )
    cost -= drift
    error = math.hypot(
        *(error_of_median([each.change for each in own]) for own in (recorded_results, never))
    )
    then, first = (
        statistics.median(times) / 1e3
        for times in ([t.then_ns for t in recorded_results], [t.first_ns for t in recorded_results])
    )
    equal = "equal" if len({each.result for each in results}) == 1 else "DIFFERENT"
    if equal != "equal" and len({each.result for each in never}) > 1:
        equal = "differ without it too"
    return (
        f"| {group[0].name} | {then:.1f} | {first:.1f} | {drift:+.2%} | "
        f"{cost:+.2%} ± {error:.2%} | {'ok' if cost <= GOAL else 'OVER'} | {equal} |"
    )


def report(groups: Sequence[Group]) -> None:
    """Prints the table, one process measured after another."""
    print("| step | without, µs | recorded | never recorded | cost | at most 2% | results |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for group in groups:
        print(row(group), flush=True)


def main() -> None:
    options = arguments(__doc__, tuple(STEPS), processes=PROCESSES, steps=COUNT)
    groups = started(options.models or tuple(STEPS), options.processes, options.steps)
    wait_until_ready(chain.from_iterable(groups), options.seconds)
    report(groups)


if __name__ == "__main__":
    main()
