"""Summaries of many ranks' traces, and findings across them.

A summary has few rows, so a thousand ranks form one table. All times are traced medians over the
steps of a trace, in ns.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any, Final

import numpy as np
import polars as pl
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints, encode, get_column, get_spans
from graphviz_dash.analysis.metrics.kernel_table import compute_kernel_uses
from graphviz_dash.analysis.prediction.idle_time import measure_launch_idle
from graphviz_dash.analysis.replays.replays import group_launched_rows
from graphviz_dash.analysis.trace.collectives import get_collective_kind
from graphviz_dash.analysis.trace.gpu_records import find_missing_gpu_work
from graphviz_dash.analysis.trace.integrity import (
    Claim,
    assess_integrity,
    select_complete_steps,
    select_launched_steps,
)
from graphviz_dash.analysis.trace.steps import Step, StepMethod, find_steps, measure_span_union
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.trace import Trace

MAX_KERNELS: Final = 50
"""Maximum number of kernels per summary, longest first."""

SLOW_THRESHOLD: Final = 0.05
"""Relative excess of a slow rank over the median of all ranks."""

STRAGGLER_RATIO: Final = 0.5
"""Ratio of a straggler's exposed communication to the median."""

STRAGGLER_STEP_SHARE: Final = 0.05
"""Distance of a straggler's communication from the median, as a fraction of a step."""

SLOW_DEVIATIONS: Final = 5.0
"""Excess in median absolute deviations, so that noise is not reported as slow."""

RANKS: Final = pl.Schema(
    {
        "name": pl.String,  # run name, unique in the fleet
        "source": pl.String,  # file or folder
        "mode": pl.String,  # execution mode; null: unknown
        "rank": pl.Int64,  # null: unknown
        "world_size": pl.Int64,
        "job": pl.String,  # common to ranks that ran together; null: unknown
        "gpu": pl.String,  # null: unknown
        "events": pl.Int64,
        "steps": pl.Int64,
        "marked": pl.Boolean,  # steps are marked; else the trace is one step
        "step_ns": pl.Float64,
        "step_p95_ns": pl.Float64,
        "busy_ns": pl.Float64,  # any GPU work; null, like the next: not recorded
        "compute_ns": pl.Float64,  # busy minus communication_ns
        "communication_ns": pl.Float64,  # exposed communication, including waits
        "launch_bound_ns": pl.Float64,  # GPU idle while the CPU launches
        "kernels": pl.Float64,
        "graph_launches": pl.Float64,
        "other_launches": pl.Float64,
        "incomplete": pl.Boolean,
        "problems": pl.String,  # codes, separated by spaces
        "gpu_missing": pl.String,  # why the GPU work of the steps is unknown
    }
)
"""One row per rank."""

GRAPHS: Final = pl.Schema(
    {
        "name": pl.String,
        "rank": pl.Int64,
        "graph": pl.String,  # digest of its replays: equal for equal graphs
        "kernels": pl.Int64,  # rows per replay
        "replays": pl.Int64,
        "span_ns": pl.Float64,  # from the first start to the last end of a replay
        "first": pl.String,  # name of its first row
    }
)
"""One row per graph that a rank replays."""

KERNELS: Final = pl.Schema(
    {
        "name": pl.String,
        "rank": pl.Int64,
        "kernel": pl.String,
        "count": pl.Float64,  # per step
        "total_ns": pl.Float64,  # per step
    }
)
"""One row per long kernel of a rank."""

TABLES: Final = {"ranks": RANKS, "graphs": GRAPHS, "kernels": KERNELS}

TableRows = list[dict[str, Any]]


class RankSummary(Struct, frozen=True):
    """The rows of one rank, by table."""

    ranks: TableRows
    graphs: TableRows
    kernels: TableRows


class SlowRank(Struct, frozen=True):
    """A rank whose own work is slower than on others."""

    name: str
    rank: int | None
    """Rank number; None if unknown."""
    compute_ns: float
    """Compute time per step."""
    median_ns: float
    """Compute time of the median rank."""
    kernel: str | None
    """Kernel with the largest excess; None if none is slower."""
    kernel_ns: float
    """Excess of that kernel per step."""


class StragglerRank(Struct, frozen=True):
    """The rank with the shortest communication, for which the others wait."""

    name: str
    rank: int | None
    """Rank number; None if unknown."""
    communication_ns: float
    """Exposed communication per step, including waits."""
    median_ns: float
    """Exposed communication of the median rank."""


class DivergentGraph(Struct, frozen=True):
    """A graph that not all ranks replay."""

    graph: str
    """Digest of its replays."""
    first_name: str
    """First kernel, copy or set of a replay."""
    kernels: int
    """Rows per replay."""
    owner_count: int
    """Ranks that replay it."""
    lists_missing: bool
    """``ranks`` lists the ranks without it, because most have it."""
    ranks: tuple[str, ...]


class FleetFindings(Struct, frozen=True):
    """Findings for the ranks of one job in one mode."""

    mode: str | None
    """Execution mode; None if unknown."""
    job: str | None
    """Job of the ranks; None if unknown."""
    ranks: int
    """Ranks, or traces that name none."""
    can_compare: bool
    """Each trace names a different rank; otherwise none is compared with the others."""
    step_ns: float | None
    """Median of the ranks; None without steps."""
    slow: tuple[SlowRank, ...]
    straggler: StragglerRank | None
    """The rank for which the others wait; None if there is none."""
    graph_count: int
    divergent: tuple[DivergentGraph, ...]
    """Graphs that only some ranks have."""
    launch_bound: tuple[float, float, float, float] | None
    """Launch-bound fraction of a step: minimum, median, 95th percentile and maximum of the ranks.
    None without steps."""
    launch_bound_worst: str | None
    """Run with the maximum; None without steps."""
    ranks_without_steps: int
    """Their values cover the whole trace."""
    incomplete_ranks: int
    ranks_without_gpu_work: int
    """Number of ranks with unknown GPU work, which GPU findings exclude."""
    gpu_work_reasons: tuple[str, ...]
    """Reasons for the unknown GPU work, most frequent first."""


def summarise_rank(
    trace: Trace,
    name: str,
    source: str,
    rank: int | None,
    world_size: int | None,
    mode: str | None = None,
    job: str | None = None,
) -> RankSummary:
    """Summarise one rank's trace. ``job`` identifies ranks that ran together."""
    traced_steps = find_steps(trace)
    gpu = trace.gpu
    begin, end = get_spans(gpu)
    communicates = _find_communication(trace)
    rows: TableRows = []
    compute, exposed = [], []
    problems = [problem.code for problem in trace.info.problems]
    integrity = assess_integrity(trace, traced_steps)
    complete = select_complete_steps(trace, traced_steps, integrity)
    # Without GPU records, times and kernels are unknown, not zero.
    missing = find_missing_gpu_work(trace) or integrity.explain(Claim.BUSY)
    is_measured = find_missing_gpu_work(trace) is None and not isinstance(complete, Missing)
    gpu_steps = () if isinstance(complete, Missing) or not is_measured else complete
    timed_steps = gpu_steps if missing is None else ()
    for step in timed_steps:
        step_rows = step.gpu_rows
        computing = step_rows[~communicates[step_rows]]
        busy = measure_span_union(step, begin[computing], end[computing])
        compute.append(busy)
        exposed.append(step.busy_ns - busy)
    selection = select_launched_steps(traced_steps, integrity)
    launched_steps = () if isinstance(selection, Missing) else selection
    lasting_steps = traced_steps if integrity.has_step_times else ()
    is_launch_known = is_measured and integrity.supports(Claim.LAUNCH_BOUND)
    names = trace.info.device_names
    rows.append(
        {
            "name": name,
            "source": source,
            "mode": mode,
            "rank": rank,
            "world_size": world_size,
            "job": job,
            "gpu": names[0] if names else None,
            "events": trace.info.events,
            "steps": len(traced_steps),
            "marked": bool(traced_steps) and traced_steps[0].method is not StepMethod.WHOLE,
            "step_ns": _compute_median([step.duration_ns for step in lasting_steps]),
            "step_p95_ns": _compute_p95([step.duration_ns for step in lasting_steps]),
            "busy_ns": _compute_median([step.busy_ns for step in timed_steps]),
            "compute_ns": _compute_median(compute),
            "communication_ns": _compute_median(exposed),
            "launch_bound_ns": _compute_median(
                measure_launch_idle(trace, gpu_steps) if is_launch_known else []
            ),
            "kernels": _compute_median([step.kernels for step in gpu_steps]),
            "graph_launches": _compute_median([step.graph_launches for step in launched_steps]),
            "other_launches": _compute_median(
                [s.kernel_launches + s.copy_calls for s in launched_steps]
            ),
            "incomplete": bool(trace.info.completeness_problems),
            "problems": " ".join(problems),
            "gpu_missing": None if missing is None else missing.reason,
        }
    )
    return RankSummary(
        rows,
        _summarise_graphs(trace, name, rank),
        _summarise_kernels(trace, gpu_steps, name, rank),
    )


def _compute_median(values: list[int]) -> float | None:
    return float(np.median(values)) if values else None


def _compute_p95(values: list[int]) -> float | None:
    return float(np.percentile(values, 95)) if values else None


def _find_communication(trace: Trace) -> np.ndarray[Any, np.dtype[np.bool_]]:
    codes, names = encode(trace.gpu["name"])
    is_collective = np.array(
        [get_collective_kind(name) is not None for name in names], dtype=np.bool_
    )
    return is_collective[codes] if len(names) else np.zeros(trace.gpu.height, np.bool_)


def _summarise_graphs(trace: Trace, name: str, rank: int | None) -> TableRows:
    launches, _ = group_launched_rows(trace)
    if not launches:
        return []
    looks = _hash_rows(trace)
    begin, end = get_spans(trace.gpu)
    spans: dict[str, list[int]] = {}
    first: dict[str, Ints] = {}
    for rows in launches:
        # Sorted, because branches interleave differently in each replay.
        ident = hashlib.sha256(np.sort(looks[rows]).tobytes()).hexdigest()[:16]
        first.setdefault(ident, rows)
        spans.setdefault(ident, []).append(int(end[rows].max() - begin[rows].min()))
    names = trace.gpu["name"].cast(pl.String)
    return [
        {
            "name": name,
            "rank": rank,
            "graph": ident,
            "kernels": len(first[ident]),
            "replays": len(durations),
            "span_ns": _compute_median(durations),
            "first": names[int(first[ident][0])],
        }
        for ident, durations in spans.items()
    ]


def _hash_rows(trace: Trace) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Hash each row's appearance, equal in every trace and process."""
    gpu = trace.gpu
    kinds, kind_names = encode(gpu["kind"])
    names, name_texts = encode(gpu["name"])
    shapes = [get_column(gpu, dimension) for dimension in _SHAPE_COLUMNS]
    table = np.stack([kinds.astype(np.int64), names.astype(np.int64), *shapes], axis=1)
    distinct, inverse = np.unique(table, axis=0, return_inverse=True)
    numbers = [
        hashlib.sha256(repr((kind_names[kind], name_texts[name], shape)).encode()).digest()[:8]
        for kind, name, *shape in distinct.tolist()
    ]
    return np.frombuffer(b"".join(numbers), dtype="<u8")[inverse.reshape(-1)]


_SHAPE_COLUMNS: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "bytes")


def _summarise_kernels(
    trace: Trace, traced_steps: tuple[Step, ...], name: str, rank: int | None
) -> TableRows:
    if not traced_steps:
        return []
    uses = compute_kernel_uses(trace, traced_steps)
    longest = sorted(uses.items(), key=lambda item: -item[1].total_ns)[:MAX_KERNELS]
    return [
        {
            "name": name,
            "rank": rank,
            "kernel": kernel,
            "count": use.count,
            "total_ns": use.total_ns,
        }
        for (_, kernel), use in longest
    ]


def analyse_fleet(
    ranks: pl.LazyFrame, graphs: pl.LazyFrame, kernels: pl.LazyFrame
) -> tuple[FleetFindings, ...]:
    """Analyse the tables separately for each mode and job."""
    modes = ranks.select("mode", "job").unique(maintain_order=True).collect().rows()
    findings = []
    for mode, job in modes:
        group_ranks = ranks.filter(pl.col("mode").eq_missing(mode), pl.col("job").eq_missing(job))
        names = group_ranks.select("name")
        findings.append(
            _analyse_group(
                (mode, job),
                group_ranks,
                graphs.join(names, on="name", how="semi"),
                kernels.join(names, on="name", how="semi"),
            )
        )
    return tuple(findings)


def _analyse_group(
    mode_and_job: tuple[str | None, str | None],
    ranks: pl.LazyFrame,
    graphs: pl.LazyFrame,
    kernels: pl.LazyFrame,
) -> FleetFindings:
    share = pl.col("launch_bound_ns") / pl.col("step_ns")
    overall = ranks.select(
        count=pl.len(),
        named=pl.col("rank").n_unique() - pl.col("rank").has_nulls(),
        step=pl.col("step_ns").median(),
        least=share.min(),
        half=share.median(),
        most=share.quantile(0.95, "linear"),
        worst=share.max(),
        # Ties are broken by name, so that the result does not depend on the order of files.
        worst_name=pl.col("name").sort_by(share.fill_null(-1), "name", descending=[True, False])
        .first(),
        unmarked=(~pl.col("marked")).sum(),
        incomplete=pl.col("incomplete").sum(),
        without=(pl.col("busy_ns").is_null() & (pl.col("steps") > 0)).sum(),
    ).collect().row(0, named=True)  # fmt: skip
    divergent, count = _find_divergent_graphs(ranks, graphs)
    can_compare = overall["named"] == overall["count"] > 1
    bound = tuple(overall[key] for key in ("least", "half", "most", "worst"))
    is_timed = len(bound) == 4 and None not in bound
    return FleetFindings(
        mode=mode_and_job[0],
        job=mode_and_job[1],
        ranks=overall["count"],
        can_compare=can_compare,
        step_ns=overall["step"],
        slow=_find_slow_ranks(ranks, kernels) if can_compare else (),
        straggler=_find_straggler(ranks) if can_compare else None,
        graph_count=count,
        divergent=divergent if can_compare else (),
        launch_bound=(bound[0], bound[1], bound[2], bound[3]) if is_timed else None,
        launch_bound_worst=overall["worst_name"] if is_timed else None,
        ranks_without_steps=overall["unmarked"] or 0,
        incomplete_ranks=overall["incomplete"] or 0,
        ranks_without_gpu_work=overall["without"] or 0,
        gpu_work_reasons=_list_reasons(ranks),
    )


def _list_reasons(ranks: pl.LazyFrame) -> tuple[str, ...]:
    reasons = ranks.select(pl.col("gpu_missing").drop_nulls()).collect()["gpu_missing"]
    return tuple(reason for reason, _ in Counter(reasons.to_list()).most_common())


def _find_slow_ranks(ranks: pl.LazyFrame, kernels: pl.LazyFrame) -> tuple[SlowRank, ...]:
    """Find ranks with slow own work.

    In a step that ends together, the slow rank does not have the longest step: the others wait for
    it in their collectives.
    """
    compute_ns = pl.col("compute_ns")
    middle = compute_ns.median()
    deviation = (compute_ns - middle).abs().median()
    slow = (
        ranks.select("name", "rank", "compute_ns", middle=middle, deviation=deviation)
        .filter(compute_ns > pl.col("middle") * (1 + SLOW_THRESHOLD))
        .filter(compute_ns > pl.col("middle") + SLOW_DEVIATIONS * pl.col("deviation"))
    )
    # Waiting for other ranks is not a rank's own work.
    names = kernels.select(pl.col("kernel").unique()).collect()["kernel"].to_list()
    kernels = kernels.filter(
        pl.col("kernel").is_in([name for name in names if get_collective_kind(name) is None])
    )
    typical = kernels.group_by("kernel").agg(usual=pl.col("total_ns").median())
    excess = (
        kernels.join(slow.select("name"), on="name", how="semi")
        .join(typical, on="kernel", how="left")
        .with_columns(more=pl.col("total_ns") - pl.col("usual"))
        .sort("more", "kernel", descending=[True, False])
        .group_by("name")
        .agg(kernel=pl.col("kernel").first(), more=pl.col("more").first())
    )
    by_rank = slow.join(excess, on="name", how="left").sort(
        "compute_ns", "name", descending=[True, False]
    )
    return tuple(
        SlowRank(
            row["name"],
            row["rank"],
            row["compute_ns"],
            row["middle"],
            row["kernel"] if (row["more"] or 0) > 0 else None,
            max(row["more"] or 0.0, 0.0),
        )
        for row in by_rank.collect().iter_rows(named=True)
    )


def _find_straggler(ranks: pl.LazyFrame) -> StragglerRank | None:
    waits = pl.col("communication_ns")
    least = (
        ranks.select("name", "rank", "step_ns", waits, median=waits.median(), count=pl.len())
        .filter(pl.col("count") > 1)
        .sort("communication_ns", "name", nulls_last=True)
        .head(1)
        .filter(waits < STRAGGLER_RATIO * pl.col("median"))
        .filter(pl.col("median") - waits >= STRAGGLER_STEP_SHARE * pl.col("step_ns"))
        .collect()
    )
    for row in least.iter_rows(named=True):
        return StragglerRank(row["name"], row["rank"], row["communication_ns"], row["median"])
    return None


def _find_divergent_graphs(
    ranks: pl.LazyFrame, graphs: pl.LazyFrame
) -> tuple[tuple[DivergentGraph, ...], int]:
    by_graph = graphs.group_by("graph").agg(
        owners=pl.col("name").unique().sort(),
        first=pl.col("first").first(),
        kernels=pl.col("kernels").first(),
    )
    counted = (
        by_graph.join(ranks.select(all=pl.len()), how="cross")
        .with_columns(count=pl.col("owners").list.len())
        .sort("count", "graph")
        .collect()
    )
    divergent = counted.filter(pl.col("count") < pl.col("all"))
    all_names = set(ranks.select("name").collect()["name"].to_list()) if divergent.height else set()
    return tuple(
        _build_divergent_graph(row, all_names) for row in divergent.iter_rows(named=True)
    ), counted.height


def _build_divergent_graph(row: dict[str, Any], all_names: set[str]) -> DivergentGraph:
    owners = row["owners"]
    lacking = 2 * len(owners) > len(all_names)
    listed = tuple(sorted(all_names - set(owners))) if lacking else tuple(owners)
    return DivergentGraph(row["graph"], row["first"], row["kernels"], len(owners), lacking, listed)
