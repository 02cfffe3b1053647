"""Traces for tests of the timeline: a slice or a call is one short tuple."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from graphviz_dash.model import trace as tables

_TYPES = {
    "int64": pl.Int64,
    "int32": pl.Int32,
    "uint64": pl.UInt64,
    "string": pl.String,
    "categorical": pl.Categorical,
}
Rows = Sequence[Mapping[str, Any]]


def table(columns: Mapping[str, str], rows: Rows) -> pl.DataFrame:
    return pl.DataFrame(
        {
            name: pl.Series(name, [row.get(name) for row in rows], pl.String).cast(_TYPES[kind])
            if kind in ("string", "categorical")
            else pl.Series(name, [row.get(name) for row in rows], _TYPES[kind])
            for name, kind in columns.items()
        }
    )


def kernel(ts: int, dur: int, stream: int = 7, device: int = 0, **more: Any) -> dict[str, Any]:
    return {"ts": ts, "dur": dur, "kind": "kernel", "name": "gemm", "device": device} | {
        "stream": stream,
        **more,
    }


def call(ts: int, dur: int, name: str = "cudaLaunchKernel", **more: Any) -> dict[str, Any]:
    return {"ts": ts, "dur": dur, "name": name, "pid": 1, "tid": 1, **more}


def step(index: int, ts: int, dur: int) -> dict[str, Any]:
    return {"ts": ts, "dur": dur, "name": f"graphviz_dash.step#{index}", "pid": 1, "tid": 1}


def trace(gpu: Rows = (), runtime: Rows = (), steps: Rows = (), ops: Rows = ()) -> tables.Trace:
    """A trace of these rows, sorted by time as a read one is."""
    frames = [
        table(columns, sorted(rows, key=lambda row: int(row["ts"])))
        for columns, rows in (
            (tables.GPU_COLUMNS, gpu),
            (tables.RUNTIME_COLUMNS, runtime),
            (tables.OP_COLUMNS, ops),
            (tables.ANNOTATION_COLUMNS, steps),
            (tables.PYTHON_COLUMNS, ()),
        )
    ]
    ends = [row["ts"] + row["dur"] for row in (*gpu, *runtime, *steps)]
    info = tables.TraceInfo(
        source="test",
        events=len(ends),
        skipped={},
        origin_ns=0,
        end_ns=max(ends, default=0),
        cupti_version=None,
        cuda_runtime_version=None,
        cuda_driver_version=None,
        device_names=(),
        with_stack=False,
        record_shapes=False,
        problems=(),
    )
    return tables.Trace(info, *frames)
