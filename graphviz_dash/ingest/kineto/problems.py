"""Detection of trace defects, with the figures they affect.

Reports only proven defects. The meaning of a code never changes; its text may.

An executable graph holds two nodes per captured copy, and newer drivers show both with all bytes
(pytorch issue 191284). CUPTI 13.0 reports the size of the last captured graph's copy for all
graphs: on an H100, ten copies from 512 bytes on all reported 512 MiB.

roctracer divides one record per graph launch among the kernels. On MI300X (vLLM, SGLang, xDiT),
gaps between replayed kernels are at most 3 ns, others microseconds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import polars as pl

from graphviz_dash.ingest.byte_stream import Damage
from graphviz_dash.ingest.kineto.column_blocks import Flags, Ints
from graphviz_dash.ingest.kineto.correlations import (
    CallIntervals,
    fill_absent,
    find_repeated,
    mask_members,
)
from graphviz_dash.ingest.kineto.repeated_rows import RowRepairs, describe_repairs
from graphviz_dash.ingest.kineto.stray_work import find_stray_work
from graphviz_dash.model.trace import STITCHED, TraceProblem
from graphviz_dash.units import format_ns, pluralize

# cudaLaunchHostFunc runs on the CPU.
_SINGLE_LAUNCH = re.compile(
    r"(cuda|cu|hip|hipModule|hipExt|hipExtModule)Launch(?!HostFunc)"
    r"|(ur|pi)Enqueue(Cooperative)?KernelLaunch"
)
_LAUNCH = re.compile(rf"{_SINGLE_LAUNCH.pattern}|(cuda|cu|hip)GraphLaunch")
_BEGIN_CAPTURE = re.compile(r"(cuda|cu|hip)StreamBeginCapture")
_END_CAPTURE = re.compile(r"(cuda|cu|hip)StreamEndCapture")
_GRAPH = re.compile(r"(cuda|cu|hip)GraphLaunch")
_DEVICE_SYNC = re.compile(r"(cuda|hip)DeviceSynchronize|cuCtxSynchronize")
_STEP = re.compile(r"^ProfilerStep#\d+")
_MICROSECOND = 1000
_FIRST_KERNELS_FIXED = 130100
"""CUPTI version (CUDA 13.1) since which sessions keep their first kernels (pytorch issue 192021).
"""


def find_problems(
    gpu: pl.DataFrame,
    runtime: pl.DataFrame,
    annotations: pl.DataFrame,
    repairs: Sequence[RowRepairs] = (),
    *,
    integer_microseconds: bool,
    cupti_version: int | None = None,
) -> tuple[TraceProblem, ...]:
    """Find the defects in a trace's GPU, runtime and annotation tables.

    With ``integer_microseconds``, contradictions below one microsecond are ignored. ``repairs``
    are the numbers of repaired rows.
    """
    slack = _MICROSECOND if integer_microseconds else 0
    problems: list[TraceProblem] = [*describe_repairs(repairs)]
    if integer_microseconds and gpu.height:
        problems.append(
            TraceProblem(
                "whole-microseconds",
                "Times are whole microseconds, so the duration of a short kernel is off by up to "
                "one microsecond.",
            )
        )
    problems.extend(_find_repeated_steps(annotations))
    problems.extend(_find_overlaps(gpu, slack))
    names = _RowNames(runtime["name"])
    runtime = runtime.select("ts", "dur", "pid", "correlation")
    launches = _select_rows(runtime, is_launch := names.find_matching(_LAUNCH))
    is_outside = _find_outside_captures(launches, runtime, names)
    uncaptured, is_graph = (
        _select_rows(launches, is_outside),
        names.find_matching(_GRAPH)[is_launch][is_outside],
    )
    without_work = ~mask_members(uncaptured["correlation"], gpu["correlation"]).to_numpy()
    missing, graphs = (
        _select_rows(uncaptured, without_work),
        _select_rows(uncaptured, is_graph & without_work),
    )
    single_missing = _select_rows(uncaptured, ~is_graph & without_work)
    if missing.height:
        has_no_id = (gpu["kind"] == "kernel") & (gpu["correlation"].fill_null(0) <= 0)
        unidentified = gpu.filter(has_no_id)
        if single_missing.height == missing.height <= unidentified.height:
            problems.append(_build_unidentified_problem(uncaptured, missing, unidentified))
        else:
            problems.append(_build_missing_work_problem(uncaptured, missing, cupti_version))
    single = _select_rows(launches, names.find_matching(_SINGLE_LAUNCH)[is_launch])
    problems.extend(_find_shared_correlations(launches, single, gpu))
    stray_work = find_stray_work(gpu, runtime, missing, graphs, cupti_version)
    known_ids = {problem.code for problem in problems}
    problems.extend(
        problem
        for problem in stray_work
        if problem.code != "work-of-no-call" or "work-without-id" not in known_ids
    )
    graph_launches = _select_rows(uncaptured, is_graph)
    problems.extend(find_stitched_replays(gpu, graph_launches))
    problems.extend(find_paired_copies(gpu, graph_launches))
    problems.extend(find_impossible_sizes(gpu))
    calls = CallIntervals(runtime, gpu)
    problems.extend(_find_early_starts(calls, gpu, slack))
    problems.extend(_find_late_ends(calls, runtime, names, gpu, slack))
    return tuple(problems)


def build_truncation_problem(
    damage: Damage, *, events: int, read_bytes: int, end: int, base_time: bool
) -> TraceProblem:
    """Describe a file that could not be read to its end.

    ``events`` events in ``read_bytes`` bytes of JSON were read, ending ``end`` ns after the first
    start.
    """
    description = (
        f"{damage.description}. The trace contains the {pluralize(events, 'event')} before this "
        f"point: {read_bytes:,} bytes of JSON over {format_ns(end)}. Later events are missing from "
        "all figures. Events are not written in the order of time, so the missing ones may be "
        "from any moment"
    )
    if not base_time:
        description += ". The time of day is missing too"
    if damage.is_truncated:
        return TraceProblem("cut-off", f"The trace is truncated: {description}.")
    description += ". Values shortly before the damage may be wrong"
    return TraceProblem("damaged", f"The trace is damaged: {description}.")


def build_text_problem() -> TraceProblem:
    """Describe text that no JSON writer produces."""
    return TraceProblem(
        "text-damaged",
        "The trace is damaged or contains invalid JSON: it has control characters or bytes that "
        "are not UTF-8. Names may be wrong, and where blocks of the file were lost, events are "
        "missing or wrong.",
    )


class _RowNames:
    """Names of rows. Each name is matched once."""

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

    def find_matching(self, pattern: re.Pattern[str]) -> Flags:
        """Find the rows with a matching name."""
        matching = np.zeros(self._count, np.bool_)
        matching[self._used] = [pattern.match(text) is not None for text in self._texts]
        return matching[self._codes]


def _select_rows(frame: pl.DataFrame, requested: Flags) -> pl.DataFrame:
    if not requested.any():
        return frame.clear()
    return frame if requested.all() else frame.filter(pl.Series(requested))


def _find_repeated_steps(annotations: pl.DataFrame) -> Iterator[TraceProblem]:
    marks = annotations.filter(annotations["name"].str.contains(_STEP.pattern))
    if len(set(marks["name"].to_list())) == marks.height:
        return
    marks = marks.sort("ts")
    # Marks of one step on several threads overlap.
    end = pl.col("ts") + pl.col("dur")
    previous_end = end.cum_max().shift(1).over("name", "pid")
    marks = marks.filter((pl.col("ts") >= previous_end).fill_null(True))
    counts = Counter(marks["name"].to_list()).values()
    max_count = max(counts, default=0)
    if max_count > 1:
        yield TraceProblem(
            "repeated-step",
            "Several marks have the same step number "
            f"({sum(count > 1 for count in counts):,} of {len(counts):,} numbers, up to "
            f"{max_count:,} marks each). Either two traces were merged, or the profiler was "
            "started twice. Work in several marks counts in only one of them, so counts per step "
            "may be too low.",
        )


def _find_overlaps(gpu: pl.DataFrame, slack: int) -> Iterator[TraceProblem]:
    if not _has_overlap(gpu, slack):
        return
    ordered = gpu.select("device", "stream", "ts", end=pl.col("ts") + pl.col("dur")).sort(
        "device", "stream", "ts", maintain_order=True
    )
    previous_end = pl.col("end").cum_max().shift(1).over("device", "stream")
    early = ordered.with_columns(by=previous_end - pl.col("ts")).filter(pl.col("by") > slack)
    if early.height:
        yield TraceProblem(
            "stream-overlap",
            f"{pluralize(early.height, 'slice')} on the GPU start before the previous one on the "
            f"stream ends, by up to {format_ns(early['by'].max())}: "  # type: ignore[arg-type]
            "sums of durations exceed the GPU's busy time.",
        )


def _has_overlap(gpu: pl.DataFrame, slack: int) -> bool:
    """Test if any slice starts before the previous one on its stream ends.

    Slices are sorted by start, so otherwise none overlaps any earlier one.
    """
    device, stream = (fill_absent(gpu[name]) for name in ("device", "stream"))
    order = np.lexsort((stream, device))
    same_stream = (device[order][1:] == device[order][:-1]) & (
        stream[order][1:] == stream[order][:-1]
    )
    ts = gpu["ts"].to_numpy()[order]
    end = ts + gpu["dur"].to_numpy()[order]
    return bool((same_stream & (end[:-1] - ts[1:] > slack)).any())


def _build_missing_work_problem(
    launches: pl.DataFrame, missing: pl.DataFrame, cupti_version: int | None
) -> TraceProblem:
    text = (
        f"{missing.height:,} of {pluralize(launches.height, 'kernel and graph launch')} have "
        "no GPU work in the trace, so the total GPU time and kernel count are too low."
    )
    has_work = launches.height > missing.height
    keeps_first_kernels = cupti_version is not None and cupti_version >= _FIRST_KERNELS_FIXED
    if has_work and not keeps_first_kernels and missing.equals(launches.head(missing.height)):
        text += (
            " They are the first launches of the recording: CUPTI of CUDA 12.6 to 13.0 can lose "
            "the first kernels of a session after the GPU was idle. Record more steps and warm up "
            "the profiler (schedule with warmup)."
        )
    return TraceProblem("launch-without-work", text)


def _build_unidentified_problem(
    launches: pl.DataFrame, missing: pl.DataFrame, unidentified: pl.DataFrame
) -> TraceProblem:
    return TraceProblem(
        "work-without-id",
        f"{pluralize(unidentified.height, 'kernel')} have no correlation id, as in roctracer's "
        f"records of collectives, and {missing.height:,} of "
        f"{pluralize(launches.height, 'kernel and graph launch')} have no work of their id. GPU "
        "time and kernel counts are complete, but the launches of these kernels are unknown.",
    )


def _find_outside_captures(
    launches: pl.DataFrame, runtime: pl.DataFrame, names: _RowNames
) -> Flags:
    """Find the launches outside captures."""
    starts = launches["ts"].to_numpy()
    is_enclosed = np.zeros(len(starts), np.bool_)
    for start, end in _find_capture_intervals(runtime["ts"].to_numpy(), names):
        is_enclosed |= (starts >= start) & (starts <= end)
    return ~is_enclosed


def _find_capture_intervals(starts: Ints, names: _RowNames) -> list[tuple[int, int]]:
    begins = starts[names.find_matching(_BEGIN_CAPTURE)].tolist()
    ends = starts[names.find_matching(_END_CAPTURE)].tolist()
    last_start = int(starts.max(initial=0))
    return [
        (begin, min((end for end in ends if end >= begin), default=last_start)) for begin in begins
    ]


def _find_shared_correlations(
    launches: pl.DataFrame, single: pl.DataFrame, gpu: pl.DataFrame
) -> Iterator[TraceProblem]:
    """Report correlation ids shared by launches. ``single``: launches of one kernel each."""
    numbers, rows = find_repeated(launches["correlation"])
    if rows:
        yield TraceProblem(
            "duplicate-correlation",
            f"{rows:,} launches share {pluralize(len(numbers), 'correlation id')}, so their "
            "kernels "
            "cannot be assigned reliably.",
        )
    repeated_ids, _ = find_repeated(gpu["correlation"].filter(gpu["kind"] == "kernel"))
    count = int(mask_members(single["correlation"], repeated_ids).sum())
    if count:
        yield TraceProblem(
            "several-kernels-per-launch",
            f"{pluralize(count, 'launch')} of a single kernel have several kernels in the trace, "
            "which may belong to a graph launch with a wrong correlation id.",
        )


def _find_early_starts(
    calls: CallIntervals, gpu: pl.DataFrame, slack: int
) -> Iterator[TraceProblem]:
    # If calls share an id, the first may explain the start.
    lead_ns = calls.start - gpu["ts"].to_numpy()[calls.work]
    early = lead_ns[lead_ns > slack]
    if early.size:
        yield TraceProblem(
            "starts-before-launch",
            f"{pluralize(early.size, 'slice')} on the GPU start before their launch call, by up to "
            f"{format_ns(int(early.max()))}: CPU and GPU clocks differ, and launch "
            "delays are inaccurate.",
        )


def _find_late_ends(
    calls: CallIntervals, runtime: pl.DataFrame, names: _RowNames, gpu: pl.DataFrame, slack: int
) -> Iterator[TraceProblem]:
    """Report work that ends after a call that waits for it. Such a call waits for one GPU, so only
    for one process and GPU."""
    waits = _select_rows(runtime, names.find_matching(_DEVICE_SYNC))
    if not waits.height or gpu["device"].n_unique() != 1 or runtime["pid"].n_unique() != 1:
        return
    start, end = waits["ts"].to_numpy(), (waits["ts"] + waits["dur"]).to_numpy()
    next_wait = np.searchsorted(start, calls.end)
    ends = (gpu["ts"] + gpu["dur"]).to_numpy()[calls.work]
    has_wait = next_wait < len(start)
    late = ends[has_wait] - end[next_wait[has_wait]]
    if (late > slack).any():
        yield TraceProblem(
            "ends-after-wait",
            f"{pluralize(int((late > slack).sum()), 'slice')} on the GPU end after a call that "
            f"waits for them returned, by up to {format_ns(int(late.max()))}: CPU and GPU "
            "clocks differ, and launch delays and waits are inaccurate.",
        )


_ON_DEVICE: Final = "DtoD"
_MAX_PAIR_GAP_NS: Final = 5_000
"""Maximum gap between the two rows of one copy."""
_MAX_BYTES_PER_NS: Final = 30_000
"""Above the memory and cache bandwidth of GPUs."""


def find_impossible_sizes(gpu: pl.DataFrame) -> Iterator[TraceProblem]:
    """Report copies within the GPU that would be faster than any GPU's memory."""
    copies = gpu.filter((gpu["kind"] == "memcpy") & (gpu["dur"] > 0)).drop_nulls("bytes")
    if not copies.height:
        return
    copies = copies.filter(copies["name"].cast(pl.String).str.contains(_ON_DEVICE))
    rates = copies["bytes"] / copies["dur"]
    count = int((rates > _MAX_BYTES_PER_NS).sum())
    if count:
        yield TraceProblem(
            "impossible-copy-size",
            f"{pluralize(count, 'copy')} of {copies.height:,} within the GPU would move more than "
            f"{_MAX_BYTES_PER_NS:,} GB/s. CUPTI reports the size of another graph's copy, so bytes "
            "of replayed copies are unreliable.",
        )


def find_paired_copies(gpu: pl.DataFrame, graph_launches: pl.DataFrame) -> Iterator[TraceProblem]:
    """Report copies if all within the device come in equal pairs without other work between."""
    if not graph_launches.height:
        return
    lane = ["correlation", "device", "stream"]
    is_replay = mask_members(gpu["correlation"], graph_launches["correlation"])
    work = gpu.filter(is_replay).sort(*lane, "ts", maintain_order=True).with_row_index("place")
    is_copy = (pl.col("kind") == "memcpy") & pl.col("name").cast(pl.String).str.contains(_ON_DEVICE)
    copies = work.filter(is_copy)
    if not copies.height or copies.height % 2:
        return
    columns = [*lane, "bytes", "place", "ts", "dur"]
    values = np.stack([copies[name].fill_null(-1).to_numpy().astype(np.int64) for name in columns])
    (*first, place, begin, duration), (*second, next_place, next_begin, _) = (
        values[:, 0::2],
        values[:, 1::2],
    )
    are_equal = np.array_equal(first, second)
    are_adjacent = bool((next_place - place == 1).all())
    gaps = next_begin - begin - duration
    if not are_equal or not are_adjacent or gaps.max() > _MAX_PAIR_GAP_NS:
        return
    yield TraceProblem(
        "paired-copies",
        f"All {pluralize(copies.height, 'copy')} within the GPU by graph launches come in pairs of "
        "equal size. Newer drivers show a captured copy as two rows with its full size each, so "
        "counts and bytes of copies may be twice the real ones.",
    )


_MAX_GAP_NS: Final = 3
_MIN_GAPS: Final = 10
_MIN_SHARE: Final = 0.98
"""Minimum share of such gaps. A copy within a graph may have a real gap."""


def find_stitched_replays(
    gpu: pl.DataFrame, graph_launches: pl.DataFrame
) -> Iterator[TraceProblem]:
    """Report synthetic kernel times of graph launches."""
    if not graph_launches.height:
        return
    rows = gpu.filter(mask_members(gpu["correlation"], graph_launches["correlation"])).select(
        "device", "stream", "correlation", "ts", end=pl.col("ts") + pl.col("dur")
    )
    rows = rows.sort("correlation", "device", "stream", "ts", maintain_order=True)
    same_stream = np.ones(max(0, rows.height - 1), dtype=np.bool_)
    for name in ("correlation", "device", "stream"):
        values = rows[name].fill_null(-1).to_numpy()
        same_stream &= values[1:] == values[:-1]
    gaps = (rows["ts"].to_numpy()[1:] - rows["end"].to_numpy()[:-1])[same_stream]
    if len(gaps) < _MIN_GAPS or (np.abs(gaps) <= _MAX_GAP_NS).mean() < _MIN_SHARE:
        return
    yield TraceProblem(
        STITCHED,
        f"Gaps between the {pluralize(rows.height, 'kernel')} of graph launches are at most "
        f"{_MAX_GAP_NS} ns: their times are synthetic and not measured individually. "
        "Their durations include the gaps, so gaps and kernel times of replays are not "
        "comparable with those of eager work.",
    )
