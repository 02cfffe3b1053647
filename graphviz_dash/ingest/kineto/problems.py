"""Defects that a trace shows of itself, each with the figures that it spoils.

Only what the rows prove is told. A code never changes its meaning; texts may.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np
import polars as pl

from graphviz_dash.ingest.byte_stream import Damage
from graphviz_dash.ingest.kineto.column_blocks import Flags, Ints
from graphviz_dash.ingest.kineto.correlations import Calls, among, repeated
from graphviz_dash.ingest.kineto.events import ABSENT
from graphviz_dash.ingest.kineto.stitched import stitched_replays
from graphviz_dash.ingest.kineto.stray_work import work_without_launches
from graphviz_dash.model.trace import TraceProblem
from graphviz_dash.units import counted, format_ns

# cudaLaunchHostFunc runs on the CPU.
_SINGLE = re.compile(r"(cuda|cu|hip|hipModule|hipExt|hipExtModule)Launch(?!HostFunc)")
_LAUNCH = re.compile(rf"{_SINGLE.pattern}|(cuda|cu|hip)GraphLaunch")
_BEGIN_CAPTURE = re.compile(r"(cuda|cu|hip)StreamBeginCapture")
_END_CAPTURE = re.compile(r"(cuda|cu|hip)StreamEndCapture")
_GRAPH = re.compile(r"(cuda|cu|hip)GraphLaunch")
_DEVICE_SYNC = re.compile(r"(cuda|hip)DeviceSynchronize|cuCtxSynchronize")
_STEP = re.compile(r"ProfilerStep#\d+")
_MICROSECOND = 1000


def find_problems(
    gpu: pl.DataFrame,
    runtime: pl.DataFrame,
    annotations: pl.DataFrame,
    *,
    whole_microseconds: bool,
    cupti_version: int | None = None,
) -> tuple[TraceProblem, ...]:
    """The defects of a trace's GPU, runtime and annotation tables.

    With ``whole_microseconds`` a start or end may be off by one microsecond, so that much is
    allowed for before two times are called contradictory.
    """
    slack = _MICROSECOND if whole_microseconds else 0
    problems: list[TraceProblem] = []
    if whole_microseconds and gpu.height:
        problems.append(
            TraceProblem(
                "whole-microseconds",
                "Times are whole microseconds, so the duration of a short kernel is off by up to "
                "one microsecond.",
            )
        )
    problems.extend(_repeated_steps(annotations["name"]))
    problems.extend(_overlaps(gpu, slack))
    names = _Names(runtime["name"])
    runtime = runtime.select("ts", "dur", "pid", "correlation")
    launches = _rows(runtime, is_launch := names.which(_LAUNCH))
    outside = _outside_captures(launches, runtime, names)
    real, is_graph = _rows(launches, outside), names.which(_GRAPH)[is_launch][outside]
    without_work = ~among(real["correlation"], gpu["correlation"]).to_numpy()
    missing, graphs = _rows(real, without_work), _rows(real, is_graph & without_work)
    problems.extend(_launches_without_work(real, missing))
    single = _rows(launches, names.which(_SINGLE)[is_launch])
    problems.extend(_shared_correlations(launches, single, gpu))
    problems.extend(work_without_launches(gpu, runtime, missing, graphs, cupti_version))
    problems.extend(stitched_replays(gpu, _rows(real, is_graph)))
    calls = Calls(runtime, gpu)
    problems.extend(_early_starts(calls, gpu, slack))
    problems.extend(_late_ends(calls, runtime, names, gpu, slack))
    return tuple(problems)


def missing_rest(
    damage: Damage, *, events: int, read_bytes: int, end: int, base_time: bool
) -> TraceProblem:
    """A file that could not be read to its end, and what was used of it: ``events`` events in
    ``read_bytes`` bytes of JSON, the last of which ends ``end`` ns after the first begins."""
    description = (
        f"{damage.description}. Used are the {counted(events, 'event')} "
        f"before, {read_bytes:,} bytes of JSON over {format_ns(end)}; whatever came after is "
        "missing from every figure, and since events are not written in the order of time, that "
        "may be work of any moment"
    )
    if not base_time:
        description += "; the time of day is missing too"
    if damage.cut:
        return TraceProblem("cut-off", f"The trace is cut off: {description}.")
    description += "; values shortly before the damage may be wrong"
    return TraceProblem("damaged", f"The trace is damaged: {description}.")


def unreadable_text() -> TraceProblem:
    """Text that no writer of JSON makes."""
    return TraceProblem(
        "text-damaged",
        "The trace is damaged, or was written by a careless program: it holds control characters "
        "or bytes that are not UTF-8. Names may be wrong, and where blocks of the file were lost "
        "events are missing or wrong.",
    )


class _Names:
    """The names of rows. Few stand in many rows, so each is looked at once."""

    def __init__(self, names: pl.Series) -> None:
        codes = names.to_physical()
        if names.null_count():
            codes = codes.cast(pl.Int64).fill_null(-1)
        self._codes: Ints = codes.to_numpy().astype(np.int64) + 1
        row = np.full(int(self._codes.max(initial=0)) + 1, -1, np.int64)
        row[self._codes] = np.arange(len(names))
        self._used = np.flatnonzero(row >= 0)
        self._count = len(row)
        texts = names.gather(row[self._used]).to_list() if len(names) else []
        self._texts = [text or "" for text in texts]

    def which(self, pattern: re.Pattern[str]) -> Flags:
        """The rows whose name matches."""
        matching = np.zeros(self._count, np.bool_)
        matching[self._used] = [pattern.match(text) is not None for text in self._texts]
        return matching[self._codes]


def _rows(frame: pl.DataFrame, wanted: Flags) -> pl.DataFrame:
    return frame if wanted.all() else frame.filter(pl.Series(wanted))


def _repeated_steps(names: pl.Series) -> Iterator[TraceProblem]:
    """Marks of one step on several stretches of time, or the same mark twice."""
    counts = Counter(names.to_list())
    marks = [count for name, count in counts.items() if name and _STEP.match(name)]
    most = max(marks, default=0)
    if most > 1:
        yield TraceProblem(
            "repeated-step",
            "Several marks have the same step number "
            f"({sum(count > 1 for count in marks):,} of {len(marks):,} numbers, up to {most:,} "
            "marks each): two traces in one, "
            "or a profiler that was started twice. Work that lies in several marks counts in one "
            "of them only, so counts per step may be too low.",
        )


def _overlaps(gpu: pl.DataFrame, slack: int) -> Iterator[TraceProblem]:
    if not _touching(gpu, slack):
        return
    ordered = gpu.select("device", "stream", "ts", end=pl.col("ts") + pl.col("dur")).sort(
        "device", "stream", "ts", maintain_order=True
    )
    before = pl.col("end").cum_max().shift(1).over("device", "stream")
    early = ordered.with_columns(by=before - pl.col("ts")).filter(pl.col("by") > slack)
    if early.height:
        yield TraceProblem(
            "stream-overlap",
            f"{counted(early.height, 'slice')} on the GPU begin before the one before on the same "
            f"stream has ended, by up to {format_ns(early['by'].max())}: "  # type: ignore[arg-type]
            "sums of durations exceed the time the GPU was busy.",
        )


def _touching(gpu: pl.DataFrame, slack: int) -> bool:
    """Whether any slice begins before the one before on its stream has ended. Where none does, none
    begins before the end of any other before it, for they are in the order of their starts."""
    device, stream = (gpu[name].fill_null(ABSENT).to_numpy() for name in ("device", "stream"))
    order = np.lexsort((stream, device))
    same = (device[order][1:] == device[order][:-1]) & (stream[order][1:] == stream[order][:-1])
    ts = gpu["ts"].to_numpy()[order]
    end = ts + gpu["dur"].to_numpy()[order]
    return bool((same & (end[:-1] - ts[1:] > slack)).any())


def _launches_without_work(launches: pl.DataFrame, missing: pl.DataFrame) -> Iterator[TraceProblem]:
    if missing.height:
        yield TraceProblem(
            "launch-without-work",
            f"{missing.height:,} of {counted(launches.height, 'launch')} have no work on the GPU "
            "in the trace: GPU time and kernel counts are too low by theirs.",
        )


def _outside_captures(launches: pl.DataFrame, runtime: pl.DataFrame, names: _Names) -> Flags:
    """Which of the launches did more than add a node."""
    starts = launches["ts"].to_numpy()
    inside = np.zeros(len(starts), np.bool_)
    for begin, end in _capture_intervals(runtime["ts"].to_numpy(), names):
        inside |= (starts >= begin) & (starts <= end)
    return ~inside


def _capture_intervals(starts: Ints, names: _Names) -> list[tuple[int, int]]:
    begins = starts[names.which(_BEGIN_CAPTURE)].tolist()
    ends = starts[names.which(_END_CAPTURE)].tolist()
    last = int(starts.max(initial=0))
    return [(begin, min((end for end in ends if end >= begin), default=last)) for begin in begins]


def _shared_correlations(
    launches: pl.DataFrame, single: pl.DataFrame, gpu: pl.DataFrame
) -> Iterator[TraceProblem]:
    """``single``: those of the launches that launch one kernel each."""
    numbers, rows = repeated(launches["correlation"])
    if rows:
        yield TraceProblem(
            "duplicate-correlation",
            f"{rows:,} launches share {counted(len(numbers), 'correlation id')}: which kernel "
            "belongs to which launch is uncertain for them.",
        )
    several, _ = repeated(gpu["correlation"].filter(gpu["kind"] == "kernel"))
    count = int(among(single["correlation"], several).sum())
    if count:
        yield TraceProblem(
            "several-kernels-per-launch",
            f"{counted(count, 'launch')} of a single kernel have several in the trace: "
            "their kernels may belong to a graph launch whose correlation id is wrong.",
        )


def _early_starts(calls: Calls, gpu: pl.DataFrame, slack: int) -> Iterator[TraceProblem]:
    # Of several calls of an id the first may explain the start.
    by = calls.begin - gpu["ts"].to_numpy()[calls.work]
    early = by[by > slack]
    if early.size:
        yield TraceProblem(
            "starts-before-launch",
            f"{counted(early.size, 'slice')} on the GPU start before the call that launched "
            f"them, by up to {format_ns(int(early.max()))}: CPU and GPU clocks differ, and launch "
            "delays are off.",
        )


def _late_ends(
    calls: Calls, runtime: pl.DataFrame, names: _Names, gpu: pl.DataFrame, slack: int
) -> Iterator[TraceProblem]:
    """Work that ends after a call has returned that waits for it. Where one process uses one GPU,
    for such a call waits for one."""
    waits = _rows(runtime, names.which(_DEVICE_SYNC))
    if not waits.height or gpu["device"].n_unique() != 1 or runtime["pid"].n_unique() != 1:
        return
    begin, end = waits["ts"].to_numpy(), (waits["ts"] + waits["dur"]).to_numpy()
    next_wait = np.searchsorted(begin, calls.end)
    ends = (gpu["ts"] + gpu["dur"]).to_numpy()[calls.work]
    waited = next_wait < len(begin)
    late = ends[waited] - end[next_wait[waited]]
    if (late > slack).any():
        yield TraceProblem(
            "ends-after-wait",
            f"{counted(int((late > slack).sum()), 'slice')} on the GPU end after a call has "
            f"returned that waited for them, by up to {format_ns(int(late.max()))}: CPU and GPU "
            "clocks differ, and launch delays and waits are off.",
        )
