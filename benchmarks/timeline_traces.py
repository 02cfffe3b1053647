"""Large traces for the timeline's benchmark: enlarged or synthetic."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from msgspec.structs import replace
from timeline_enlarged import enlarged

sys.path.insert(0, str(Path(__file__).parents[1]))

from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model import trace as tables
from graphviz_dash.model.run import Experiment, Run

TABLES = ("gpu", "runtime", "ops", "annotations", "python")
_KINDS = ("ampere_gemm", "flash_fwd", "vectorized_elementwise", "reduce", "layer_norm", "cat")
_TYPES: dict[str, Any] = {
    "int64": pl.Int64,
    "int32": pl.Int32,
    "uint64": pl.UInt64,
    "string": pl.String,
    "categorical": pl.Categorical,
}


def large_experiment(source_experiment: Experiment, slices: int, *, synthetic: bool) -> Experiment:
    """Replace traces by enlarged or synthetic ones of ``slices`` GPU slices per run; graphs and
    clean timings stay."""
    if not synthetic:
        return enlarged(source_experiment, slices)
    runs = tuple(
        replace(run, replay_trace=synthetic_trace(slices, is_graphed=run.mode.value == "graph"))
        for run in source_experiment.runs
        if run.replay_trace is not None
    )
    return replace(source_experiment, runs=runs)


def synthetic_trace(slices: int, *, is_graphed: bool, steps: int = 40) -> tables.Trace:
    """``slices`` kernels on three streams in ``steps`` marked steps, from a fixed seed."""
    random = np.random.default_rng(20)
    names = [f"void {kind}_{width}<float>(int)" for kind in _KINDS for width in range(8)]
    dur = random.lognormal(8.2, 0.9, slices).astype(np.int64) + 700
    gap = random.integers(250, 900, slices)
    if not is_graphed:
        gap = random.lognormal(8.2, 1.0, slices).astype(np.int64) + 600
    start = 20_000 + np.cumsum(dur + gap) - dur
    per_step = slices // steps
    bounds = np.append(start[: per_step * steps : per_step] - 12_000, start[-1] + dur[-1] + 3_000)
    correlation = np.arange(slices) + 1
    calls = np.maximum.accumulate(start - random.integers(4_000, 12_000, slices))
    call_dur = np.clip(np.diff(calls, append=calls[-1] + 5_000) - 50, 1, 3_200)
    call_name = "cudaLaunchKernel"
    if is_graphed:
        correlation = np.minimum(np.arange(slices) // per_step, steps - 1) + 1
        calls, call_dur = bounds[:-1] + 3_000, np.full(steps, 9_000)
        call_name = "cudaGraphLaunch"
    gpu = {
        "ts": start,
        "dur": dur,
        "kind": ["kernel"] * slices,
        "name": np.array(names)[random.integers(0, len(names), slices)],
        "device": np.zeros(slices),
        "stream": np.array([7, 13, 20])[random.choice(3, slices, p=[0.8, 0.15, 0.05])],
        "correlation": correlation,
    }
    runtime = {
        "ts": calls,
        "dur": call_dur,
        "name": [call_name] * len(calls),
        "pid": np.full(len(calls), 408),
        "tid": np.full(len(calls), 408),
        "correlation": np.arange(len(calls)) + 1,
    }
    marks = {
        "ts": bounds[:-1],
        "dur": np.diff(bounds) - 4_000,
        "name": [f"graphviz_dash.step#{i}" for i in range(steps)],
        "pid": np.full(steps, 408),
        "tid": np.full(steps, 408),
    }
    info = tables.TraceInfo(
        "synthetic", slices, {}, 0, int(bounds[-1]), None, None, None, (), False, False, ()
    )
    return tables.Trace(
        info,
        _table(tables.GPU_COLUMNS, gpu),
        _table(tables.RUNTIME_COLUMNS, runtime),
        _table(tables.OP_COLUMNS, {}),
        _table(tables.ANNOTATION_COLUMNS, marks),
        _table(tables.PYTHON_COLUMNS, {}),
    )


def _table(columns: dict[str, str], values: dict[str, Any]) -> pl.DataFrame:
    rows = len(next(iter(values.values()), ()))
    return pl.DataFrame(
        {
            name: pl.Series(name, values.get(name, [None] * rows)).cast(_TYPES[kind])
            for name, kind in columns.items()
        }
    )


def written(run: Run, folder: Path) -> Run:
    """``run`` with the trace that another process wrote for it; without one it has none."""
    trace = run.replay_trace
    run_folder = folder / run.name
    if trace is None or not run_folder.is_dir():
        return replace(run, replay_trace=None)
    read = {name: pl.read_parquet(run_folder / f"{name}.parquet").rechunk() for name in TABLES}
    ends = read["annotations"]["ts"] + read["annotations"]["dur"]
    info = replace(trace.info, end_ns=int(ends.to_numpy().max()))
    return replace(run, replay_trace=dataclasses.replace(trace, info=info, offsets=None, **read))


def main() -> None:
    """Write traces; arguments: experiment, slices per run, ``recorded`` or ``synthetic``,
    folder."""
    sample, slices, kind, folder = sys.argv[1:]
    source_experiment = load_experiment(Path(sample))
    for run in large_experiment(source_experiment, int(slices), synthetic=kind == "synthetic").runs:
        run_folder = Path(folder) / run.name
        run_folder.mkdir(parents=True)
        for name in TABLES:
            getattr(run.replay_trace, name).write_parquet(run_folder / f"{name}.parquet")


if __name__ == "__main__":
    main()
