"""Kernels that no call of their trace launched: why, as far as the rows prove it.

Calls of a process get correlation ids in their order (CUPTI, roctracer), and a stream runs its work
in the order of the calls. So a kernel whose id precedes that of every call, and which ran before
all work of known calls on its stream, was launched before the trace began: what a GPU still had to
do when the profiler started. Id 0 belongs to no call: CUPTI gives it to work that the GPU itself
started, such as the bodies of conditional nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from graphviz_dash.ingest.kineto.correlations import among
from graphviz_dash.model.trace import TraceProblem
from graphviz_dash.units import counted

_SOUND_SESSIONS = 130101
"""The CUPTI (CUDA 13.1 Update 1) from which on further profiling sessions of a process have right
correlation ids for graph launches; see its release notes."""


def work_without_launches(
    gpu: pl.DataFrame,
    runtime: pl.DataFrame,
    missing: pl.DataFrame,
    graphs: pl.DataFrame,
    cupti_version: int | None,
) -> Iterator[TraceProblem]:
    """Kernels, where calls are recorded at all; the driver's own calls that copy are not.

    ``missing``: the launches outside captures that have no work, ``graphs`` those of graphs among
    them.
    """
    call_ids = runtime["correlation"].drop_nulls()
    gpu = gpu.select("kind", "ts", "device", "stream", "correlation")
    kernels = gpu.filter(gpu["kind"] == "kernel").drop_nulls("correlation")
    if not len(call_ids):
        return
    stray = kernels.filter(~among(kernels["correlation"], call_ids))
    if not stray.height:
        return
    own = stray.filter(pl.col("correlation") == 0)
    early = _from_before(stray, gpu, call_ids, missing)
    others = stray.height - own.height - early.height
    if early.height:
        yield TraceProblem(
            "work-from-before",
            f"{counted(early.height, 'kernel')} of {kernels.height:,} were launched before the "
            "trace began, while the GPU was still busy with what came before it: no call of the "
            "trace has their correlation ids, which precede all of its calls'. They count in "
            "no step.",
        )
    if own.height:
        yield TraceProblem(
            "work-of-no-call",
            f"{counted(own.height, 'kernel')} of {kernels.height:,} have correlation id 0, as work "
            "has that the GPU itself started: the bodies of conditional nodes, or what kernels "
            "launch. Which launch they belong to was not recorded, so what is counted or summed by "
            "launch leaves them out.",
        )
    if others:
        yield TraceProblem(
            "work-without-launch",
            f"{counted(others, 'kernel')} of {kernels.height:,} belong to no call in the trace, "
            "and not all were launched before it began: records of calls were dropped, or the "
            "profiler records no calls of this kind. Launch counts and delays leave them out.",
        )
    yield from _later_session(stray, graphs, cupti_version)


def _later_session(
    stray: pl.DataFrame, graphs: pl.DataFrame, cupti_version: int | None
) -> Iterator[TraceProblem]:
    """Ids that are wrong stand for launches that seem to have done nothing, and come after them."""
    if not graphs.height or cupti_version is None or cupti_version >= _SOUND_SESSIONS:
        return
    if stray.filter(pl.col("ts") >= graphs["ts"].min()).height:
        single = graphs.height == 1
        launches = f"{graphs.height:,} graph launch{' has' if single else 'es have'}"
        yield TraceProblem(
            "session-correlation",
            f"{launches} no work while kernels without a launch run after them, and CUPTI "
            f"{cupti_version} gives graph launches wrong correlation ids in "
            "all but a process's first profiling session (mended in CUDA 13.1 Update 1): which "
            "work is of which replay, and all delays of graph launches, are unknown. Record each "
            "session in a process of its own.",
        )


def _from_before(
    stray: pl.DataFrame, gpu: pl.DataFrame, call_ids: pl.Series, missing: pl.DataFrame
) -> pl.DataFrame:
    """Those of ``stray`` that are proved to be launched before the first call; none that began
    after a launch without work, whose it may be."""
    first_call = call_ids.filter(call_ids > 0).min()
    early = stray.filter((pl.col("correlation") > 0) & (pl.col("correlation") < first_call))
    if missing.height:
        early = early.filter(pl.col("ts") < missing["ts"].min())
    if not early.height:
        return early
    stream_columns = ["device", "stream"]
    begins = (
        gpu.select(*stream_columns, "ts")
        .filter(among(gpu["correlation"], call_ids))
        .group_by(stream_columns)
        .agg(begin=pl.col("ts").min())
    )
    return early.join(begins, on=stream_columns, how="left", nulls_equal=True).filter(
        pl.col("begin").is_null() | (pl.col("ts") < pl.col("begin"))
    )
