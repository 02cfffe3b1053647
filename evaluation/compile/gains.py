"""Score the predicted gain from fixing the first cause, on models of the zoo.

Needs a GPU with torch, torchvision, transformers and torch-geometric::

    python -m evaluation.compile.gains [--steps 160] [--processes 3] [--seconds 120] [MODEL...]

Each model of :mod:`evaluation.zoo.defects` is compiled as written and fixed, each in several
processes, because two compilations of one step may differ by a tenth. Then the models are measured
one after another. The processes of a model are timed interleaved, without a profiler, on two cores
that nothing else uses. Those that run it as written are then traced and predict the gain.

Prints a line per model: the first cause with its line, the predicted gain of each process and their
median, and the measured gain with its standard error, or the reason for a failure. ``--seconds`` is
the limit for compiling five models. COMPILE_BENCHMARK_FOLDER keeps traces, times, accounts and the
printed lines.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from evaluation.compile.steps import (
    MOST_TO_COMPILE,
    WARM_UP,
    Apart,
    ObservedStep,
    Step,
    arguments,
    error_of_median,
    folder_of,
    observed,
    settled_times,
    timed,
    wait_until_ready,
)
from evaluation.zoo.defects import MODELS
from graphviz_dash.features.torch_compile.analysis.causes import find_compile_causes
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compilation import UserLine
from graphviz_dash.model.compile_rules import CompileRuleId

Build = Callable[[bool], Step]

STEPS: Final = 160
PROCESSES: Final = 3
_TURNS: Final = 2
_WITHIN: Final = 0.2
_AT_A_TIME: Final = 5
"""Models that have all their processes at the same time: each process takes a GiB."""


class Place(NamedTuple):
    """Identity of a cause across processes."""

    rule: CompileRuleId
    lines: tuple[UserLine, ...]

    @property
    def text(self) -> str:
        """Its line, where one is known."""
        return self.lines[0].text if self.lines else ""


@dataclass(frozen=True)
class Promise:
    """Predictions for the step as written."""

    place: Place
    """The first cause: the one that saves most, by the median over the processes."""
    each_ns: tuple[float, ...]
    """Predicted saving by each process in ns; 0 if a process does not report the cause."""

    @property
    def ns(self) -> float:
        """The scored prediction."""
        return statistics.median(self.each_ns)


Told = ObservedStep | list[int]


def promise(observations: Sequence[ObservedStep]) -> Promise | str:
    """Combine the predictions of processes that ran the step as written; without a saving, return
    the causes as text."""
    account = observations[0].compilation
    savings_by_process: list[dict[Place, float]] = []
    rule_names: dict[CompileRuleId, None] = {}
    for observation in observations:
        # Graphs from the first one's cache do not say why they are split: the account is its.
        causes = (
            find_compile_causes(account, observation.time, observation.step_ns) if account else ()
        )
        rule_names.update((cause.rule, None) for cause in causes)
        savings_by_process.append({})
        for cause in causes:
            if not isinstance(cause.gain_ns, Missing):
                savings_by_process[-1].setdefault(Place(cause.rule, cause.lines[:1]), cause.gain_ns)
    places = dict.fromkeys(place for causes_told in savings_by_process for place in causes_told)
    promises = [Promise(at, tuple(own.get(at, 0.0) for own in savings_by_process)) for at in places]
    first = max(promises, key=lambda observation: observation.ns, default=None)
    return first or ", ".join(rule.value for rule in rule_names) or "no cause"


def as_written(
    name: str, build: Build, count: int, caches: Path, number: int
) -> Iterator[Told | None]:
    """Yield times of the step in ns on request, and then its observation."""
    # A graph from an earlier cache does not say why it is split.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(caches)
    with folder_of(f"{name}/{number}") as folder:
        seen = yield from observed(lambda: build(False), count // _TURNS, folder, _TURNS)
    yield seen


def timed_alone(
    _: str, build: Callable[[], Step], count: int, caches: Path
) -> Iterator[Told | None]:
    """Yield times of a step in ns on request."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(caches)
    step = build()
    timed(step, WARM_UP)
    yield None
    while True:
        yield settled_times(step, count // _TURNS)


class Model:
    """Processes of a model; at first one as written and one fixed."""

    def __init__(self, name: str, build: Build, count: int, caches: Path) -> None:
        self.name = name
        self._build, self._count, self._caches = build, count, caches / name
        self.written: list[Apart[Told]] = []
        self.fixed: list[Apart[Told]] = []
        self._start_pair()

    @property
    def processes(self) -> list[Apart[Told]]:
        """All, in the order of timing."""
        return [
            run_pair for pair in zip(self.written, self.fixed, strict=True) for run_pair in pair
        ]

    def start_others(self, processes: int) -> None:
        """Start the other processes unless one of the first two failed to compile."""
        ready = [process.is_ready(MOST_TO_COMPILE) for process in self.processes]
        for _ in range(processes - 1 if all(ready) else 0):
            self._start_pair()

    def _start_pair(self) -> None:
        written_start = partial(
            as_written,
            build=self._build,
            count=self._count,
            caches=self._caches / "written",
            number=len(self.written),
        )
        fixed_start = partial(
            timed_alone,
            build=partial(self._build, True),
            count=self._count,
            caches=self._caches / "fixed",
        )
        self.written.append(Apart(self.name, written_start))
        self.fixed.append(Apart(self.name, fixed_start))


@dataclass(frozen=True)
class Tried:
    """Prediction and measurement of a model."""

    name: str
    promise: Promise | str
    written_ns: tuple[float, ...]
    """Time of the step as written by process: the lowest median of a turn, because disturbances
    only add time."""
    fixed_ns: tuple[float, ...]
    """The same, fixed."""

    @property
    def saved_ns(self) -> float:
        """The difference of the medians over the processes."""
        return statistics.median(self.written_ns) - statistics.median(self.fixed_ns)

    @property
    def off(self) -> float:
        """Prediction divided by saving, less 1."""
        if isinstance(self.promise, str) or self.saved_ns <= 0:
            return float("inf")
        return self.promise.ns / self.saved_ns - 1

    @property
    def is_kept(self) -> bool:
        return abs(self.off) <= _WITHIN

    @property
    def line(self) -> str:
        error = math.hypot(error_of_median(self.written_ns), error_of_median(self.fixed_ns))
        cells = [self.name]
        if isinstance(self.promise, str):
            cells += [f"none with a saving ({self.promise})", ""]
        else:
            cells += [self.promise.place.rule.value, self.promise.place.text]
        cells.append(f"{statistics.median(self.written_ns) / 1e3:.0f}")
        off = ""
        if isinstance(self.promise, str):
            cells += ["", ""]
        else:
            off = f"{self.off:+.0%}"
            times_text = ", ".join(f"{ns / 1e3:.0f}" for ns in self.promise.each_ns)
            cells += [f"{self.promise.ns / 1e3:.0f}", times_text]
        cells += [f"{self.saved_ns / 1e3:.0f} ± {error / 1e3:.0f}", off]
        cells.append(f"{len(self.written_ns)}+{len(self.fixed_ns)}")
        return f"| {' | '.join(cells)} |"


def tried(model: Model) -> Tried | str:
    """Measure a model; return the reason of a failure."""
    medians: dict[Apart[Told], list[float]] = {process: [] for process in model.processes}
    for _ in range(_TURNS):
        for process, process_medians in medians.items():
            result = process.measured().result
            if isinstance(result, list):
                process_medians.append(statistics.median(result))
    for process in model.written:
        process.measured()
        process.ask()  # it reads its trace while the next is traced
    outcomes = [process.measured() for process in model.written]
    observed_results = [
        outcome.result for outcome in outcomes if isinstance(outcome.result, ObservedStep)
    ]
    written_median, fixed_median = (
        tuple(min(medians[process]) for process in side if medians[process])
        for side in (model.written, model.fixed)
    )
    if observed_results and written_median and fixed_median:
        return Tried(model.name, promise(observed_results), written_median, fixed_median)
    outcomes += [process.measured() for process in model.fixed]
    return next((outcome.failure for outcome in outcomes if outcome.failure), "nothing was traced")


def report(models: Iterable[Model], output_folder: str | None = None) -> tuple[int, int]:
    """Print a line per model; return how many predictions were right, and of how many."""
    kept_count = count = 0
    for model in models:
        result = tried(model)
        for process in model.processes:
            process.end()
        count += 1
        kept_count += isinstance(result, Tried) and result.is_kept
        failure_line = f"| {model.name} | failed: {result} | | | | | | | |"
        line = result.line if isinstance(result, Tried) else failure_line
        print(line, flush=True)
        if output_folder is not None:
            with Path(output_folder, "lines.md").open("a") as file:
                file.write(f"{line}\n")
    return kept_count, count


def print_head() -> None:
    print(
        "| model | first cause | line | before, µs | promised | by each process | saved | off "
        "| processes |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        flush=True,
    )


def main() -> None:
    options = arguments(__doc__, tuple(MODELS), steps=STEPS, processes=PROCESSES)
    start_time = time.monotonic()
    kept_count = count = 0
    with TemporaryDirectory() as caches:
        waiting = [
            Model(name, MODELS[name], options.steps, Path(caches))
            for name in options.models or MODELS
        ]
        print_head()
        while waiting:
            batch, waiting = waiting[:_AT_A_TIME], waiting[_AT_A_TIME:]
            for model in batch:
                model.start_others(options.processes)
            all_processes = chain.from_iterable(model.processes for model in batch)
            wait_until_ready(all_processes, options.seconds)
            own, of = report(batch, os.environ.get("COMPILE_BENCHMARK_FOLDER"))
            kept_count, count = kept_count + own, count + of
    print(f"{kept_count} of {count} within {_WITHIN:.0%}", flush=True)
    print(f"in {time.monotonic() - start_time:.0f} s", flush=True)


if __name__ == "__main__":
    main()
