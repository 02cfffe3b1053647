"""What is read of the shipped samples, and compared, once in a process: nobody changes them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.ingest import cache, load
from graphviz_dash.ingest.limits import Limits
from graphviz_dash.model.run import Experiment, Run
from graphviz_dash.model.trace import Trace

SAMPLES: Final = Path(__file__).resolve().parents[1] / "sample_traces"


def _is_of_samples(path: Path) -> bool:
    return path.resolve().is_relative_to(SAMPLES)


@contextmanager
def samples_once() -> Iterator[None]:
    """Until the block ends traces and bundles of samples are read once, and runs that were read
    from them compared once; what reads others reads them anew."""
    with pytest.MonkeyPatch.context() as patched:
        _read_traces_once(patched)
        runs = _load_runs_once(patched)
        _compare_once(patched, runs)
        yield


def _read_traces_once(patched: pytest.MonkeyPatch) -> None:
    read, tables = cache.read_trace, dict[Any, Trace]()

    def read_once(path: Path, limits: Limits) -> Trace:
        if not _is_of_samples(path):
            return read(path, limits)
        key = path, limits
        if key not in tables:
            tables[key] = read(path, limits)
        return tables[key]

    patched.setattr(cache, "read_trace", read_once)


def _load_runs_once(patched: pytest.MonkeyPatch) -> dict[Any, Run]:
    """The runs that are kept, as they are read."""
    read, runs = load.load_run, dict[Any, Run]()

    def load_once(path: Path, *limits: Limits, **extent: bool) -> Run:
        if not _is_of_samples(path):
            return read(path, *limits, **extent)
        key = path, limits, tuple(sorted(extent.items()))
        if key not in runs:
            runs[key] = read(path, *limits, **extent)
        return runs[key]

    patched.setattr(load, "load_run", load_once)
    return runs


def _compare_once(patched: pytest.MonkeyPatch, runs: dict[Any, Run]) -> None:
    """Of the very ``runs`` that are kept: a run that a test has changed is another. What is given
    replays and steps that were found before is one comparison, what finds them itself another."""
    comparisons: dict[Any, Comparison] = {}

    def compare_once(
        experiment: Experiment, baseline: str | None = None, *given: Any, **known: Any
    ) -> Comparison:
        kept = {id(run) for run in runs.values()}
        numbers = tuple(id(run) for run in experiment.runs)
        if given or not kept.issuperset(numbers):
            return compare_runs(experiment, baseline, *given, **known)
        key = experiment.path, experiment.baseline, numbers, baseline, tuple(sorted(known))
        if key not in comparisons:
            comparisons[key] = compare_runs(experiment, baseline, **known)
        return comparisons[key]

    for module in list(sys.modules.values()):
        if module.__name__ != __name__ and vars(module).get("compare_runs") is compare_runs:
            patched.setattr(module, "compare_runs", compare_once)
