"""Defects that a trace shows of itself, each with the figures that it spoils.

Only what the rows prove is told. A code never changes its meaning; texts may.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import polars as pl

from graphviz_dash.ingest.byte_stream import Damage
from graphviz_dash.ingest.stray_work import work_without_launches
from graphviz_dash.model.trace import TraceProblem
from graphviz_dash.units import format_ns

# cudaLaunchHostFunc runs on the CPU.
_SINGLE = re.compile(r"(cuda|cu|hip|hipModule|hipExt|hipExtModule)Launch(?!HostFunc)")
_LAUNCH = re.compile(rf"{_SINGLE.pattern}|(cuda|cu|hip)GraphLaunch")
_BEGIN_CAPTURE = re.compile(r"(cuda|cu|hip)StreamBeginCapture")
_END_CAPTURE = re.compile(r"(cuda|cu|hip)StreamEndCapture")
_GRAPH = re.compile(r"(cuda|cu|hip)GraphLaunch")
_DEVICE_SYNC = re.compile(r"(cuda|hip)DeviceSynchronize|cuCtxSynchronize")
_MICROSECOND = 1000


def find_problems(
    gpu: pl.DataFrame,
    runtime: pl.DataFrame,
    *,
    whole_microseconds: bool,
    cupti_version: int | None = None,
) -> tuple[TraceProblem, ...]:
    """The defects of a trace's GPU and runtime tables.

    With ``whole_microseconds`` a start or end may be off by one microsecond, so that much is
    allowed for before two times are called contradictory.
    """
    slack = _MICROSECOND if whole_microseconds else 0
    found: list[TraceProblem] = []
    if whole_microseconds and gpu.height:
        found.append(
            TraceProblem(
                "whole-microseconds",
                "Times are whole microseconds, so the duration of a short kernel is off by up to "
                "one microsecond.",
            )
        )
    found.extend(_overlaps(gpu, slack))
    launches = _named(runtime, _LAUNCH)
    real = _outside_captures(launches, runtime)
    missing = real.join(gpu.select("correlation"), on="correlation", how="anti")
    found.extend(_launches_without_work(real, missing))
    found.extend(_shared_correlations(launches, gpu))
    graphs = _named(missing, _GRAPH)
    found.extend(work_without_launches(gpu, runtime, missing, graphs, cupti_version))
    found.extend(_early_starts(runtime, gpu, slack))
    found.extend(_late_ends(runtime, gpu, slack))
    return tuple(found)


def missing_rest(
    damage: Damage, *, events: int, read_bytes: int, end: int, base_time: bool
) -> TraceProblem:
    """A file that could not be read to its end, and what was used of it: ``events`` events in
    ``read_bytes`` bytes of JSON, the last of which ends ``end`` ns after the first begins."""
    told = (
        f"{damage.found}. Used are the {_count(events, 'event')} "
        f"before, {read_bytes:,} bytes of JSON over {format_ns(end)}; whatever came after is "
        "missing from every figure, and since events are not written in the order of time, that "
        "may be work of any moment"
    )
    if not base_time:
        told += "; the time of day is missing too"
    if damage.cut:
        return TraceProblem("cut-off", f"The trace is cut off: {told}.")
    told += "; values shortly before the damage may be wrong"
    return TraceProblem("damaged", f"The trace is damaged: {told}.")


def unreadable_text() -> TraceProblem:
    """Text that no writer of JSON makes."""
    return TraceProblem(
        "text-damaged",
        "The trace is damaged, or was written by a careless program: it holds control characters "
        "or bytes that are not UTF-8. Names may be wrong, and where blocks of the file were lost "
        "events are missing or wrong.",
    )


def _count(number: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def _named(frame: pl.DataFrame, pattern: re.Pattern[str]) -> pl.DataFrame:
    """The rows whose name matches; few names stand in many rows, so each is looked at once."""
    names = frame["name"].unique().drop_nulls()
    matching = [pattern.match(name) is not None for name in names.cast(pl.String)]
    wanted = names.filter(pl.Series(matching, dtype=pl.Boolean)).to_physical()
    return frame.filter(frame["name"].to_physical().is_in(wanted.implode()))


def _overlaps(gpu: pl.DataFrame, slack: int) -> Iterator[TraceProblem]:
    ordered = gpu.select("device", "stream", "ts", end=pl.col("ts") + pl.col("dur")).sort(
        "device", "stream", "ts", maintain_order=True
    )
    before = pl.col("end").cum_max().shift(1).over("device", "stream")
    early = ordered.with_columns(by=before - pl.col("ts")).filter(pl.col("by") > slack)
    if early.height:
        yield TraceProblem(
            "stream-overlap",
            f"{_count(early.height, 'slice')} on the GPU begin before the one before on the same "
            f"stream has ended, by up to {format_ns(early['by'].max())}: "  # type: ignore[arg-type]
            "sums of durations exceed the time the GPU was busy.",
        )


def _launches_without_work(launches: pl.DataFrame, missing: pl.DataFrame) -> Iterator[TraceProblem]:
    if missing.height:
        yield TraceProblem(
            "launch-without-work",
            f"{missing.height:,} of {_count(launches.height, 'launch')} have no work on the GPU in "
            "the trace: "
            "GPU time and kernel counts are too low by theirs.",
        )


def _outside_captures(launches: pl.DataFrame, runtime: pl.DataFrame) -> pl.DataFrame:
    """Without those that only added a node."""
    starts = launches["ts"].to_numpy()
    inside = np.zeros(len(starts), np.bool_)
    for begin, end in _capture_intervals(runtime):
        inside |= (starts >= begin) & (starts <= end)
    return launches.filter(pl.Series(~inside))


def _capture_intervals(runtime: pl.DataFrame) -> list[tuple[int, int]]:
    begins = _named(runtime, _BEGIN_CAPTURE)["ts"].to_list()
    ends = _named(runtime, _END_CAPTURE)["ts"].to_list()
    last = int(runtime["ts"].max() or 0) if runtime.height else 0  # type: ignore[arg-type]
    return [(begin, min((end for end in ends if end >= begin), default=last)) for begin in begins]


def _shared_correlations(launches: pl.DataFrame, gpu: pl.DataFrame) -> Iterator[TraceProblem]:
    known = launches.drop_nulls("correlation")
    repeated = known.filter(pl.col("correlation").is_duplicated())
    if repeated.height:
        numbers = repeated["correlation"].n_unique()
        yield TraceProblem(
            "duplicate-correlation",
            f"{repeated.height:,} launches share {_count(numbers, 'correlation id')}: which kernel "
            "belongs to which launch is uncertain for them.",
        )
    kernels = gpu.filter(pl.col("kind").cast(pl.String) == "kernel").drop_nulls("correlation")
    counts = kernels.group_by("correlation").len().filter(pl.col("len") > 1)
    single = _named(known, _SINGLE).join(counts, on="correlation", how="inner")
    if single.height:
        yield TraceProblem(
            "several-kernels-per-launch",
            f"{_count(single.height, 'launch')} of a single kernel have several in the trace: "
            "their kernels may belong to a graph launch whose correlation id is wrong.",
        )


def _early_starts(runtime: pl.DataFrame, gpu: pl.DataFrame, slack: int) -> Iterator[TraceProblem]:
    # A call of the same id that came earlier explains the start; there are few such.
    suspects = (
        gpu.lazy()
        .select("correlation", "ts", row=pl.int_range(pl.len()))
        .join(runtime.lazy().select("correlation", call="ts"), on="correlation")
        .filter(pl.col("ts") < pl.col("call") - slack)
        .collect()
    )
    rows = suspects["row"].unique()
    first = (
        runtime.filter(pl.col("correlation").is_in(suspects["correlation"].unique().implode()))
        .group_by("correlation")
        .agg(call=pl.col("ts").min())
    )
    early = (
        gpu.select("correlation", "ts")[rows]
        .join(first, on="correlation")
        .filter(pl.col("ts") < pl.col("call") - slack)
    )
    if early.height:
        worst = early.select((pl.col("call") - pl.col("ts")).max()).item()
        yield TraceProblem(
            "starts-before-launch",
            f"{_count(early.height, 'slice')} on the GPU start before the call that launched "
            f"them, by up to {format_ns(worst)}: CPU and GPU clocks differ, and launch delays are "
            "off.",
        )


def _late_ends(runtime: pl.DataFrame, gpu: pl.DataFrame, slack: int) -> Iterator[TraceProblem]:
    """Work that ends after a call has returned that waits for it. Where one process uses one GPU,
    for such a call waits for one."""
    waits = _named(runtime, _DEVICE_SYNC)
    if not waits.height or gpu["device"].n_unique() != 1 or runtime["pid"].n_unique() != 1:
        return
    begin, end = waits["ts"].to_numpy(), (waits["ts"] + waits["dur"]).to_numpy()
    launched = runtime.join(gpu, on="correlation", how="semi")
    calls = launched.group_by("correlation").agg(called=(pl.col("ts") + pl.col("dur")).max())
    work = gpu.join(calls, on="correlation")
    place = np.searchsorted(begin, work["called"].to_numpy())
    ends = (work["ts"] + work["dur"]).to_numpy()
    waited = place < len(begin)
    late = ends[waited] - end[place[waited]]
    if (late > slack).any():
        yield TraceProblem(
            "ends-after-wait",
            f"{_count(int((late > slack).sum()), 'slice')} on the GPU end after a call has "
            f"returned that waited for them, by up to {format_ns(int(late.max()))}: CPU and GPU "
            "clocks differ, and launch delays and waits are off.",
        )
