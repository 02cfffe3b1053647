"""Whether what a compiled step's parts cost sums to the measured step, on ten real models. Needs a
GPU with torch, torchvision, transformers and torch-geometric; each model is compiled in a process
of its own, all at the same time; then one is measured after another. One that fails is told.

    python -m evaluation.compile.sums [--steps 60] [--seconds 120] [MODEL...]

Each is timed without a profiler and then traced. Prints a line a model: the step, its parts in such
a step, what idle time in it is of the trace's, and how far their sum is off. It is off where the
GPU's work takes longer in the trace than the step, which nothing but the trace can tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from evaluation.compile.steps import (
    Apart,
    Outcome,
    arguments,
    folder_of,
    observed,
    wait_until_ready,
)
from evaluation.zoo.compiled_models import MODELS
from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.features.torch_compile.analysis.step_time import StepTime
from graphviz_dash.model.absence import Missing

STEPS: Final = 60
WITHIN: Final = 0.05

Measured = tuple[float, StepTime | Missing]


def measured(name: str, count: int) -> Iterator[Measured | None]:
    """Yield the step time in ns without a profiler, and the parts of traced steps."""
    with folder_of(name) as folder:
        observation = yield from observed(MODELS[name], count, folder)
    yield observation.step_ns, observation.time


def row(outcome: Outcome[Measured]) -> tuple[str, bool]:
    """Format a model; True if its parts sum to the step."""
    empty = " |" * (len(StepPart) + 3)
    if outcome.result is None:
        return f"| {outcome.name} | failed: {outcome.failure} |{empty}", False
    step_ns, time = outcome.result
    if isinstance(time, Missing):
        return f"| {outcome.name} | {step_ns / 1e3:.0f}: {time.reason} |{empty}", False
    parts = dict.fromkeys(StepPart, 0.0)
    for own in time.parts:
        parts[own.part] += time.compute_clean_ns(own, step_ns)
    off = sum(parts.values()) / step_ns - 1
    cells = " | ".join(f"{ns / 1e3:.0f}" for ns in parts.values())
    graphs = sum(call.replays for call in time.calls)
    # What the profiler adds to idle time is scaled away; far from 1 it is divided weakly.
    factor = time.compute_idle_scale(step_ns)
    return (
        f"| {outcome.name} | {step_ns / 1e3:.0f} | {graphs:.1f} | {cells} | {factor:.2f} | "
        f"{off:+.1%} |",
        abs(off) <= WITHIN,
    )


def started(names: Sequence[str], count: int) -> list[Apart[Measured]]:
    return [Apart(name, partial(measured, count=count)) for name in names]


def report(processes: Sequence[Apart[Measured]]) -> None:
    parts = " | ".join(part.value for part in StepPart)
    print(f"| model | step, µs | graphs | {parts} | idle in the step / traced | sum off |")
    print("| --- " * (len(StepPart) + 5) + "|", flush=True)
    within_count = 0
    for process in processes:
        line, row_within = row(process.measured())
        process.end()
        within_count += row_within
        print(line, flush=True)
    print(f"{within_count} of {len(processes)} within {WITHIN:.0%}", flush=True)


def main() -> None:
    options = arguments(__doc__, tuple(MODELS), steps=STEPS)
    processes = started(options.models or tuple(MODELS), options.steps)
    wait_until_ready(processes, options.seconds)
    report(processes)


if __name__ == "__main__":
    main()
