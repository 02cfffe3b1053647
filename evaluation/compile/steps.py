"""Shared parts of the torch.compile benchmarks."""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import statistics
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec
import torch

from collectors.compiled.account import record_compilation
from collectors.passes.traced_steps import trace_steps
from graphviz_dash.analysis.trace.steps import find_steps
from graphviz_dash.features.torch_compile.analysis.step_time import StepTime, compute_step_time
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
SETTLE_S: Final = 0.0 if DEVICE == "cpu" else 0.2
"""Seconds of warm-up before timing."""
TRACED: Final = 2 if DEVICE == "cpu" else 8
MOST_TO_COMPILE: Final = 120.0
"""Limit for the first compilation of a model, in seconds."""
MOST_TO_MEASURE: Final = 30.0
"""Limit for one measurement, in seconds."""

_CORES: Final = sorted(os.sched_getaffinity(0))
_ARE_MANY: Final = len(_CORES) >= 8
_MEASURED_ON: Final = _CORES[-2:] if _ARE_MANY else _CORES
"""Two cores: of a training step the backward has a thread of its own."""
_OTHER_CORES: Final = _CORES[:-2] if _ARE_MANY else _CORES


@dataclass(frozen=True)
class ObservedStep:
    compilation: Compilation | None
    """Facts of torch.compile; None if nothing was compiled."""
    time: StepTime | Missing
    step_ns: float
    """Time in ns without the profiler: the lowest median of several turns."""


@dataclass(frozen=True)
class Outcome(Generic[Result]):
    name: str
    result: Result | None
    """None after a failure."""
    failure: str | None = None
    """Reason on one line; None without a failure."""


def graphed(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """``function`` compiled so that CUDA graphs are recorded."""
    if DEVICE == "cpu":
        return torch.compile(function, backend="eager", **options)
    return torch.compile(function, mode="reduce-overhead", **options)


def random(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, device=DEVICE)


def inference(function: Callable[..., Any], *inputs: Any) -> Step:
    """A step that calls ``function``, compiled, without gradients."""
    compiled_function = graphed(function)

    def step() -> object:
        with torch.no_grad():
            return compiled_function(*inputs)

    return step


def timed(step: Step, count: int) -> list[int]:
    """Times of synchronised steps, in ns."""
    times = []
    for _ in range(count):
        start_time = time.perf_counter_ns()
        result = step()
        torch.cuda.synchronize()
        times.append(time.perf_counter_ns() - start_time)
        del result
    return times


def settled_times(step: Step, count: int) -> list[int]:
    """Times of ``count`` synchronised steps in ns, after a warm-up of GPU and CPU."""
    with quiet_cores():
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            timed(step, 1)
        return timed(step, count)


@contextmanager
def quiet_cores() -> Iterator[None]:
    """Keep all threads of this process on the two measuring cores, which :class:`Apart` keeps free
    of compiling and reading traces."""
    _keep_on(_MEASURED_ON)
    try:
        yield
    finally:
        _keep_on(_OTHER_CORES)


def _keep_on(cores: Collection[int]) -> None:
    """Pin all threads to ``cores`` if the system allows it."""
    for thread in os.listdir("/proc/self/task"):
        with suppress(OSError):
            os.sched_setaffinity(int(thread), cores)


def error_of_median(values: Sequence[float]) -> float:
    """The standard error of the median of normal values; nan of fewer than two."""
    if len(values) < 2:
        return math.nan
    return math.sqrt(math.pi / 2 / len(values)) * statistics.stdev(values)


@contextmanager
def folder_of(name: str) -> Iterator[Path]:
    """Yield a folder for a model's trace; COMPILE_BENCHMARK_FOLDER keeps it."""
    output_folder = os.environ.get("COMPILE_BENCHMARK_FOLDER")
    if output_folder is None:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    else:
        path = Path(output_folder, name)
        path.mkdir(parents=True, exist_ok=True)
        yield path


def observed(
    build: Callable[[], Step], count: int, folder: Path, turns: int = 0
) -> Generator[list[int] | None, None, ObservedStep]:
    """Time a step ``count`` times, then trace it into ``folder`` with its time and account. Nothing
    is timed after the trace, because CUPTI stays attached.

    Yields None once the step is compiled. With ``turns``, yields ``count`` times on each request,
    and None after the trace, before reading it.
    """
    medians: list[float] = []
    with record_compilation() as account:
        step = build()
        timed(step, WARM_UP)
        yield None
        account.read_trees(lambda _: None)
        for _ in range(turns or 1):
            plain_times = settled_times(step, count)
            medians.append(statistics.median(plain_times))
            if turns:
                yield plain_times
        compilation = account.get_result()
    path = folder / "trace.json.gz"
    with quiet_cores():
        trace_steps(step, TRACED, path)
    if turns:
        yield None
    step_ns = min(medians)
    (folder / "step.json").write_bytes(msgspec.json.encode((step_ns, compilation)))
    trace = read_trace(path)
    return ObservedStep(
        compilation, compute_step_time(trace, find_steps(trace), compilation), step_ns
    )


class Apart(Generic[Result]):
    """Measurements in a forked process; the parent must not have used the GPU.

    ``measure`` first yields once everything is compiled, and then a measurement per request. A
    waiting process uses neither CPU nor GPU.
    """

    def __init__(self, name: str, measure: Callable[[str], Iterator[Result | None]]) -> None:
        forks = multiprocessing.get_context("fork")
        self.name = name
        self._mine, child_end = forks.Pipe()
        self._process = forks.Process(target=_answer, args=(child_end, measure, name), daemon=True)
        self._process.start()
        child_end.close()
        self._failure: str | None = None
        self._ready = False
        self._is_asked = False

    @property
    def has_failed(self) -> bool:
        return self._failure is not None

    def is_ready(self, seconds: float) -> bool:
        """Wait at most this long; a late or failed process measures nothing."""
        if not self._ready:
            self._ready = self._received(seconds).failure is None
        return self._ready

    def measured(self) -> Outcome[Result]:
        self.ask()
        self._is_asked = False
        return self._received(MOST_TO_MEASURE)

    def ask(self) -> None:
        """Begin the next measurement, which :meth:`measured` returns."""
        if self._failure is None and not self._is_asked:
            with suppress(BrokenPipeError):  # it has died: there is no answer
                self._mine.send(None)
        self._is_asked = True

    def end(self) -> None:
        self._process.kill()
        self._process.join()

    def _received(self, seconds: float) -> Outcome[Result]:
        result: Result | None = None
        if self._failure is None:
            try:
                if self._mine.poll(seconds):
                    result, self._failure = self._mine.recv()
                else:
                    self._failure = f"took longer than {seconds:.3g} s"
            except (EOFError, ConnectionResetError):
                self._process.join()
                self._failure = f"its process ended with {self._process.exitcode}"
        if self._failure is not None:
            self.end()
        return Outcome(self.name, result, self._failure)


def wait_until_ready(processes: Iterable[Apart[Any]], seconds: float) -> None:
    """Wait until all are ready; end those that are late."""
    deadline = time.monotonic() + seconds
    for process in processes:
        process.is_ready(max(0.0, deadline - time.monotonic()))


def _answer(connection: Connection, measure: Callable[[str], Iterator[object]], name: str) -> None:
    try:
        _keep_on(_OTHER_CORES)
        for item in measure(name):
            connection.send((item, None))
            connection.recv()
    except Exception as error:  # whatever a library raises is told in its row
        connection.send((None, _told(error)))


def _told(error: Exception) -> str:
    """Describe an error by its first line and the innermost line of a benchmark."""
    message = " ".join(str(error).split())[:400]
    frames = traceback.extract_tb(error.__traceback__)
    frames_of_ours = [f for f in frames if "evaluation" in f.filename and f.filename != __file__]
    location_text = (
        f" at {Path(frames_of_ours[-1].filename).name}:{frames_of_ours[-1].lineno}"
        if frames_of_ours
        else ""
    )
    return f"{type(error).__name__}{location_text}: {message}"


def arguments(description: str, names: Collection[str], **numbers: int) -> argparse.Namespace:
    """Parse the command line: ``names`` of models, ``numbers`` with their defaults, and the limit
    for compiling."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("models", nargs="*", choices=[[], *names])
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seconds", type=float, default=120, help="Most until all are compiled.")
    return parser.parse_args()
