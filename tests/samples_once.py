"""Shipped samples, read and analyzed once per process, because no test changes them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, Final

import pytest

from graphviz_dash.analysis.attribution.attribution import attribute_graphs
from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.metrics.graph_coverage import compute_coverage
from graphviz_dash.analysis.metrics.kernel_table import build_kernel_table
from graphviz_dash.analysis.nodes.concurrency import analyze_run
from graphviz_dash.analysis.nodes.node_table import build_tables
from graphviz_dash.analysis.prediction.calibration import load_shipped_calibration
from graphviz_dash.analysis.prediction.evaluation import predict_run
from graphviz_dash.analysis.ranks.ranks import compare_ranks, compute_rank_waits
from graphviz_dash.analysis.replays.matching import GraphIdentities
from graphviz_dash.analysis.replays.replays import match_replays
from graphviz_dash.analysis.step_comparison.typical_step import build_typical_step
from graphviz_dash.analysis.trace.integrity import assess_integrity, select_complete_steps
from graphviz_dash.analysis.trace.steps import find_steps
from graphviz_dash.bundle import launch
from graphviz_dash.bundle.references import REFERENCE_FOLDER
from graphviz_dash.features.launch.analysis.launch_costs import analyze_launch_costs
from graphviz_dash.features.prediction.analysis.stream_prediction import (
    predict_parallel,
    predict_run_parallel,
)
from graphviz_dash.features.ranks import fleet_import
from graphviz_dash.features.torch_compile.analysis.report import build_compile_report
from graphviz_dash.ingest import cache, load
from graphviz_dash.ingest.limits import Limits
from graphviz_dash.model.launch import LaunchRecording
from graphviz_dash.model.run import Experiment, Run
from graphviz_dash.model.trace import Trace

SAMPLES: Final = Path(__file__).resolve().parents[1] / "sample_traces"

_ANALYSES: Final = (
    match_replays,
    build_tables,
    analyze_run,
    predict_parallel,
    predict_run_parallel,
    build_kernel_table,
    compare_ranks,
    compare_runs,
    # Several comparisons contain the same run.
    find_steps,
    assess_integrity,
    select_complete_steps,
    compute_coverage,
    attribute_graphs,
    compute_rank_waits,
    build_typical_step,
    predict_run,
    build_compile_report,
    analyze_launch_costs,
)
"""Slow pure functions that many surfaces call."""

_PRIMITIVES: Final = (str, int, float, bool, Path, type(None))


def _is_of_samples(path: Path) -> bool:
    whole = path.resolve()
    return whole.is_relative_to(SAMPLES) or whole.is_relative_to(REFERENCE_FOLDER)


@contextmanager
def samples_once() -> Iterator[None]:
    """Until the block ends, read each trace and bundle of the samples once, and share the analyses
    of runs that come from them. All others are read and analyzed again."""
    with pytest.MonkeyPatch.context() as patched:
        _read_traces_once(patched)
        kept = _Kept()
        kept.keep(load_shipped_calibration())
        _load_runs_once(patched, kept)
        _read_launches_once(patched, kept)
        for analysis in _ANALYSES:
            _replace_everywhere(patched, analysis, kept.share(analysis))
        yield


def _read_traces_once(patched: pytest.MonkeyPatch) -> None:
    read, tables = cache.read_trace, dict[Any, Trace]()

    def read_once(path: Path, limits: Limits) -> Trace:
        if not _is_of_samples(path):
            return read(path, limits)
        key = path.resolve(), limits
        if key not in tables:
            tables[key] = read(path, limits)
        return tables[key]

    for module in (cache, fleet_import):
        patched.setattr(module, "read_trace", read_once)


class _Kept:
    """Objects of samples and the analyses of them. They live as long as the process, so their ids
    identify them."""

    def __init__(self) -> None:
        self._objects: dict[int, object] = {}

    def keep(self, value: object) -> None:
        """Keep a value and the items and fields of containers and runs."""
        if id(value) in self._objects:
            return
        self._objects[id(value)] = value
        if isinstance(value, tuple | list):
            parts = value
        elif isinstance(value, Mapping):
            parts = value.values()
        elif isinstance(value, Run):
            parts = [getattr(value, field) for field in value.__struct_fields__]
        else:
            return
        for part in parts:
            self.keep(part)

    def build_key(self, value: object) -> Hashable:
        """Build a key of an argument.

        Raises:
            LookupError: The argument contains an object that was not kept, such as a changed run.
        """
        if isinstance(value, _PRIMITIVES):
            return type(value), value
        if id(value) in self._objects:
            return id(value)
        if isinstance(value, tuple | list):
            return tuple(map(self.build_key, value))
        if isinstance(value, Mapping):
            return tuple((key, self.build_key(item)) for key, item in value.items())
        if isinstance(value, Experiment | GraphIdentities):
            fields = (getattr(value, field) for field in value.__struct_fields__)
            return type(value), tuple(map(self.build_key, fields))
        raise LookupError

    def share(self, analysis: Callable[..., Any]) -> Callable[..., Any]:
        parameters, results = signature(analysis), dict[Hashable, Any]()

        @wraps(analysis)
        def share_result(*arguments: Any, **options: Any) -> Any:
            bound = parameters.bind(*arguments, **options)
            try:
                key = tuple((name, self.build_key(item)) for name, item in bound.arguments.items())
            except LookupError:
                return analysis(*arguments, **options)
            if key not in results:
                results[key] = analysis(*arguments, **options)
                self.keep(results[key])
            result = results[key]
            return dict(result) if isinstance(result, dict) else result

        return share_result


def _load_runs_once(patched: pytest.MonkeyPatch, kept: _Kept) -> None:
    read, runs = load.load_run, dict[Any, Run]()

    def load_once(path: Path, *limits: Limits, **extent: bool) -> Run:
        if not _is_of_samples(path):
            return read(path, *limits, **extent)
        # A link is read as the sample itself.
        key = path.resolve(), limits, tuple(sorted(extent.items()))
        if key not in runs:
            runs[key] = read(path, *limits, **extent)
            kept.keep(runs[key])
        return runs[key]

    _replace_everywhere(patched, read, load_once)


def _read_launches_once(patched: pytest.MonkeyPatch, kept: _Kept) -> None:
    read, recordings = launch.read_launch, dict[Path, LaunchRecording]()

    def read_once(path: Path) -> LaunchRecording:
        if not _is_of_samples(path):
            return read(path)
        if path not in recordings:
            recordings[path] = read(path)
            kept.keep(recordings[path])
        return recordings[path]

    _replace_everywhere(patched, read, read_once)


def _replace_everywhere(
    patched: pytest.MonkeyPatch, function: Callable[..., Any], shared: Callable[..., Any]
) -> None:
    name = function.__name__
    for module in list(sys.modules.values()):
        if module.__name__ != __name__ and vars(module).get(name) is function:
            patched.setattr(module, name, shared)
