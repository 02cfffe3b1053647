"""Compiled steps under the recorder's account, the clock and the profiler: what the benchmarks of
torch.compile share.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import torch

from collectors.compiled.account import compile_account
from collectors.passes.traced_steps import trace_steps
from graphviz_dash.analysis.compiled.step_time import StepTime, step_time
from graphviz_dash.analysis.trace.steps import steps
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compilation import Compilation

Step = Callable[[], object]
Result = TypeVar("Result")

DEVICE: Final = os.environ.get("COMPILE_BENCHMARK_DEVICE", "cuda")
"""``cpu`` tries a benchmark where there is no GPU: everything runs, and nothing is divided."""

if DEVICE == "cpu":
    torch.cuda.synchronize = lambda: None

WARM_UP: Final = 2 if DEVICE == "cpu" else 15
TRACED: Final = 2 if DEVICE == "cpu" else 8


@dataclass(frozen=True)
class ObservedStep:
    """What was seen of one step."""

    compilation: Compilation | None
    """What torch.compile did; None where nothing was compiled."""
    time: StepTime | Missing
    """Where the time of its traced steps goes."""
    step_ns: float
    """The median of its times before the profiler, in ns."""
    step: Step
    """The step itself, compiled."""


@dataclass(frozen=True)
class Outcome(Generic[Result]):
    """What came of one model."""

    name: str
    """The model's."""
    result: Result | None
    """What was measured; None where it failed."""
    failure: str | None = None
    """Why it failed, in a line; None where it did not."""


def graphed(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """``function`` compiled so that CUDA graphs are recorded."""
    if DEVICE == "cpu":
        return torch.compile(function, backend="eager", **options)
    return torch.compile(function, mode="reduce-overhead", **options)


def random(*sizes: int) -> torch.Tensor:
    """Random numbers on the device."""
    return torch.randn(*sizes, device=DEVICE)


def inference(function: Callable[..., Any], *inputs: Any) -> Step:
    """A step that calls ``function``, compiled, without gradients."""
    compiled = graphed(function)

    def step() -> object:
        with torch.no_grad():
            return compiled(*inputs)

    return step


def timed(step: Step, count: int) -> list[int]:
    """Times of synchronised steps, in ns."""
    times = []
    for _ in range(count):
        begun = time.perf_counter_ns()
        result = step()
        torch.cuda.synchronize()
        times.append(time.perf_counter_ns() - begun)
        del result
    return times


def observed(build: Callable[[], Step], count: int, folder: Path) -> ObservedStep:
    """The step that ``build`` makes, timed ``count`` times and then traced into ``folder``."""
    with compile_account() as account:
        step = build()
        timed(step, WARM_UP)
        account.read(lambda _: None)
        times = timed(step, count)
        compilation = account.result()
    path = folder / "trace.json.gz"
    trace_steps(step, TRACED, path)
    trace = read_trace(path)
    divided = step_time(trace, steps(trace), compilation)
    return ObservedStep(compilation, divided, statistics.median(times), step)


def each_apart(
    names: Sequence[str], measure: Callable[[str], Result], seconds: float
) -> Iterator[Outcome[Result]]:
    """``measure`` of each name in a process of its own, a fork of this one, which must not have
    used the GPU: one that fails, dies or takes longer is told, and the next one begins fresh."""
    forks = multiprocessing.get_context("fork")
    for name in names:
        mine, its = forks.Pipe(duplex=False)
        process = forks.Process(target=_send, args=(its, measure, name))
        process.start()
        its.close()
        try:
            outcome = (
                mine.recv()
                if mine.poll(seconds)
                else _failed(name, f"took longer than {seconds:g} s")
            )
        except EOFError:
            process.join()
            outcome = _failed(name, f"its process ended with {process.exitcode}")
        process.kill()
        process.join()
        yield outcome


def _failed(name: str, why: str) -> Outcome[Any]:
    return Outcome(name, None, why)


def _send(connection: Connection, measure: Callable[[str], Any], name: str) -> None:
    try:
        outcome = Outcome(name, measure(name))
    except Exception as error:  # whatever a library raises is told in its row
        first = (str(error).strip().splitlines() or [""])[0][:120]
        outcome = _failed(name, f"{type(error).__name__}: {first}")
    connection.send(outcome)
    connection.close()
