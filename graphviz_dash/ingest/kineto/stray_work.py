"""Detection of kernels without a launch call in the trace, and of the cause if the rows prove it.

Correlation ids ascend within a process (CUPTI, roctracer), and a stream runs its work in call
order. A kernel whose id precedes those of all calls, and which ran first on its stream, was
therefore launched before the trace. CUPTI uses id 0 for work started by the GPU itself, such as
bodies of conditional nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from graphviz_dash.ingest.kineto.correlations import mask_members
from graphviz_dash.model.trace import TraceProblem
from graphviz_dash.units import pluralize

_FIXED_CUPTI_VERSION = 130101
"""CUPTI version (CUDA 13.1 Update 1) since which later profiling sessions have correct correlation
ids for graph launches (release notes)."""


def find_stray_work(
    gpu: pl.DataFrame,
    runtime: pl.DataFrame,
    missing: pl.DataFrame,
    graphs: pl.DataFrame,
    cupti_version: int | None,
) -> Iterator[TraceProblem]:
    """Report stray kernels if calls are recorded, ignoring the driver's copies.

    ``missing``: launches without work, outside captures. ``graphs``: graph launches among them.
    """
    call_ids = runtime["correlation"].drop_nulls()
    gpu = gpu.select("kind", "ts", "device", "stream", "correlation")
    kernels = gpu.filter(gpu["kind"] == "kernel").drop_nulls("correlation")
    if not len(call_ids):
        return
    stray = kernels.filter(~mask_members(kernels["correlation"], call_ids))
    if not stray.height:
        return
    gpu_launched = stray.filter(pl.col("correlation") <= 0)
    early = _select_earlier_work(stray, gpu, call_ids, missing)
    unexplained = stray.height - gpu_launched.height - early.height
    if early.height:
        yield TraceProblem(
            "work-from-before",
            f"{pluralize(early.height, 'kernel')} of {kernels.height:,} were launched before the "
            "trace started, while the GPU was still busy. Their correlation ids precede those of "
            "all calls in the trace. They count in no step.",
        )
    if gpu_launched.height:
        yield TraceProblem(
            "work-of-no-call",
            f"{pluralize(gpu_launched.height, 'kernel')} of {kernels.height:,} have correlation "
            "id 0, which marks work started by the GPU itself: bodies of conditional nodes, or "
            "kernels launched by kernels. Their launches were not recorded, so counts and sums by "
            "launch exclude them.",
        )
    if unexplained:
        yield TraceProblem(
            "work-without-launch",
            f"{pluralize(unexplained, 'kernel')} of {kernels.height:,} belong to no call in the "
            "trace, and not all were launched before it started. Records of calls were dropped, "
            "or the profiler does not record such calls. Launch counts and delays exclude them.",
        )
    yield from _find_wrong_ids(stray, graphs, cupti_version)


def _find_wrong_ids(
    stray: pl.DataFrame, graphs: pl.DataFrame, cupti_version: int | None
) -> Iterator[TraceProblem]:
    """Report kernels without a launch after graph launches without work."""
    if not graphs.height or cupti_version is None or cupti_version >= _FIXED_CUPTI_VERSION:
        return
    if stray.filter(pl.col("ts") >= graphs["ts"].min()).height:
        single = graphs.height == 1
        launches = f"{graphs.height:,} graph launch{' has' if single else 'es have'}"
        yield TraceProblem(
            "session-correlation",
            f"{launches} no work while kernels without a launch run after them, and CUPTI "
            f"{cupti_version} reports wrong correlation ids for graph launches in "
            "all but a process's first profiling session (fixed in CUDA 13.1 Update 1). The "
            "replay of each kernel and all delays of graph launches are unknown. Record each "
            "session in a separate process.",
        )


def _select_earlier_work(
    stray: pl.DataFrame, gpu: pl.DataFrame, call_ids: pl.Series, missing: pl.DataFrame
) -> pl.DataFrame:
    """Select the stray kernels launched before the first call. Kernels after a launch without work
    are excluded, because they may belong to it."""
    first_call = call_ids.filter(call_ids > 0).min()
    early = stray.filter((pl.col("correlation") > 0) & (pl.col("correlation") < first_call))
    if missing.height:
        early = early.filter(pl.col("ts") < missing["ts"].min())
    if not early.height:
        return early
    stream_columns = ["device", "stream"]
    first_starts = (
        gpu.select(*stream_columns, "ts")
        .filter(mask_members(gpu["correlation"], call_ids))
        .group_by(stream_columns)
        .agg(begin=pl.col("ts").min())
    )
    return early.join(first_starts, on=stream_columns, how="left", nulls_equal=True).filter(
        pl.col("begin").is_null() | (pl.col("ts") < pl.col("begin"))
    )
