"""Many ranks at once: one summary of each trace, and what the summaries of all of them say.

A summary is a few rows, so that a thousand ranks are a table that one query goes through. All times
are traced, medians over the steps of a trace, in ns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints, column, encode
from graphviz_dash.analysis.metrics.kernel_table import kernel_uses
from graphviz_dash.analysis.replays.replays import launched_rows
from graphviz_dash.analysis.trace.collectives import collective_kind
from graphviz_dash.analysis.trace.gpu_records import missing_gpu_work
from graphviz_dash.analysis.trace.lanes import link_launches
from graphviz_dash.analysis.trace.steps import Step, StepMethod, span_union_ns, steps

if TYPE_CHECKING:
    from graphviz_dash.model.trace import Trace

MOST_KERNELS: Final = 50
"""Kernels of a summary, those that take longest."""

SLOW_BY: Final = 0.05
"""A rank is slow from this much above the median of all ranks, and ...."""

AWAITED_BY: Final = 0.5
"""A rank whose exposed communication is below this part of the median is waited for, if ..."""

AWAITED_SHARE: Final = 0.05
"""... the difference is at least this part of a step."""

SLOW_DEVIATIONS: Final = 5.0
"""... this many median absolute deviations, so that noise of equal ranks calls none slow."""

RANKS: Final = pl.Schema(
    {
        "name": pl.String,  # the run's, unique in the fleet
        "source": pl.String,  # the file or folder it was read from
        "mode": pl.String,  # its execution mode; null: a trace does not tell
        "rank": pl.Int64,  # null: the trace does not tell
        "world_size": pl.Int64,
        "job": pl.String,  # what ranks have in common that ran together; null: not told
        "gpu": pl.String,  # null: the trace does not tell
        "events": pl.Int64,
        "steps": pl.Int64,
        "marked": pl.Boolean,  # whether steps are marked; else the whole trace is one
        "step_ns": pl.Float64,
        "step_p95_ns": pl.Float64,
        "busy_ns": pl.Float64,  # any work on the GPU; null, as what follows: no record of any
        "compute_ns": pl.Float64,  # busy less what only communication takes
        "communication_ns": pl.Float64,  # only communication runs: exposed, waiting included
        "launch_bound_ns": pl.Float64,  # the GPU is idle and the call that launches has not ended
        "kernels": pl.Float64,
        "graph_launches": pl.Float64,
        "other_launches": pl.Float64,
        "incomplete": pl.Boolean,
        "problems": pl.String,  # codes, separated by spaces
    }
)
"""A row for each rank."""

GRAPHS: Final = pl.Schema(
    {
        "name": pl.String,
        "rank": pl.Int64,
        "graph": pl.String,  # what its replays look like: equal for equal graphs
        "kernels": pl.Int64,  # rows of a replay
        "replays": pl.Int64,
        "span_ns": pl.Float64,  # from the first start to the last end of a replay
        "first": pl.String,  # name of its first row
    }
)
"""A row for each graph that a rank replays."""

KERNELS: Final = pl.Schema(
    {
        "name": pl.String,
        "rank": pl.Int64,
        "kernel": pl.String,
        "count": pl.Float64,  # in a step
        "total_ns": pl.Float64,  # in a step
    }
)
"""A row for each of the longest kernels of a rank."""

TABLES: Final = {"ranks": RANKS, "graphs": GRAPHS, "kernels": KERNELS}

TableRows = list[dict[str, Any]]


class RankSummary(Struct, frozen=True):
    """The rows of one rank, by table."""

    ranks: TableRows
    graphs: TableRows
    kernels: TableRows


class SlowRank(Struct, frozen=True):
    """A rank that takes longer for what it does itself."""

    name: str
    """Name of its run."""
    rank: int | None
    """Number of the rank; None where the trace does not tell."""
    compute_ns: float
    """Its own work in a step, in ns."""
    median_ns: float
    """The same of the median rank, in ns."""
    kernel: str | None
    """The kernel that takes most of the difference; None where none takes longer."""
    kernel_ns: float
    """How much longer that kernel takes in a step, in ns."""


class AwaitedRank(Struct, frozen=True):
    """The rank that waits least in communication, because the others wait for it."""

    name: str
    """Name of its run."""
    rank: int | None
    """Number of the rank; None where the trace does not tell."""
    communication_ns: float
    """Time of a step in which it only communicates, waiting included, in ns."""
    median_ns: float
    """The same of the median rank, in ns."""


class OddGraph(Struct, frozen=True):
    """A graph that not all ranks replay."""

    graph: str
    """What its replays look like, as a digest."""
    first: str
    """Name of the first kernel, copy or set of a replay."""
    kernels: int
    """Rows of a replay."""
    owners: int
    """How many ranks replay it."""
    lacking: bool
    """Whether ``ranks`` are those without it, because most have it."""
    ranks: tuple[str, ...]
    """Names of the runs that have it, or of those that lack it."""


class FleetAnswer(Struct, frozen=True):
    """What the tables say of the ranks of one job that ran in one mode."""

    mode: str | None
    """The execution mode; None where the traces do not tell."""
    job: str | None
    """What the ranks have in common; None where the traces do not tell."""
    ranks: int
    """How many there are."""
    step_ns: float | None
    """Median of the ranks' steps in ns; None without steps."""
    slow: tuple[SlowRank, ...]
    """Ranks whose own work takes longer than that of most."""
    awaited: AwaitedRank | None
    """The rank for which the others wait; None where they wait alike."""
    graphs: int
    """Graphs that look different, in all."""
    odd: tuple[OddGraph, ...]
    """Those of them that some ranks have and others do not."""
    launch_bound: tuple[float, float, float, float] | None
    """Share of a step in which the GPU waited for launches: the least, the median, the 95th
    percentile and the greatest of all ranks; None without steps."""
    launch_bound_worst: str | None
    """Name of the rank with the greatest share; None without steps."""
    unmarked: int
    """Ranks whose figures are of a whole trace, for it marks no steps."""
    incomplete: int
    """Ranks whose trace is a part of one."""
    without_gpu_work: int
    """Ranks whose trace holds no work of a GPU: what is said of GPUs is of the others."""


def summarise(
    trace: Trace,
    name: str,
    source: str,
    rank: int | None,
    world_size: int | None,
    mode: str | None = None,
    job: str | None = None,
) -> RankSummary:
    """The summary of one rank's trace; ``job``: what ranks have in common that ran together."""
    traced_steps = steps(trace)
    gpu = trace.gpu
    begin = column(gpu, "ts")
    end = begin + np.maximum(column(gpu, "dur"), 0)
    communicates = _communicates(trace)
    bound = _launch_bound(trace, begin, end, traced_steps)
    rows: TableRows = []
    compute, exposed = [], []
    for step in traced_steps:
        own = step.gpu_rows
        computing = own[~communicates[own]]
        busy = span_union_ns(step, begin[computing], end[computing])
        compute.append(busy)
        exposed.append(step.busy_ns - busy)
    problems = [problem.code for problem in trace.info.problems]
    # Without records of the GPU its times and kernels are unknown, not zero.
    of_gpu = traced_steps if missing_gpu_work(trace) is None else ()
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
            "step_ns": _median([step.duration_ns for step in traced_steps]),
            "step_p95_ns": _p95([step.duration_ns for step in traced_steps]),
            "busy_ns": _median([step.busy_ns for step in of_gpu]),
            "compute_ns": _median(compute[: len(of_gpu)]),
            "communication_ns": _median(exposed[: len(of_gpu)]),
            "launch_bound_ns": _median(bound[: len(of_gpu)]),
            "kernels": _median([step.kernels for step in of_gpu]),
            "graph_launches": _median([step.graph_launches for step in traced_steps]),
            "other_launches": _median([s.kernel_launches + s.copy_calls for s in traced_steps]),
            "incomplete": bool(trace.info.incomplete),
            "problems": " ".join(problems),
        }
    )
    return RankSummary(rows, _graphs(trace, name, rank), _kernels(trace, traced_steps, name, rank))


def _median(values: list[int]) -> float | None:
    return float(np.median(values)) if values else None


def _p95(values: list[int]) -> float | None:
    return float(np.percentile(values, 95)) if values else None


def _communicates(trace: Trace) -> np.ndarray[Any, np.dtype[np.bool_]]:
    codes, names = encode(trace.gpu["name"])
    is_collective = np.array([collective_kind(name) is not None for name in names], dtype=np.bool_)
    return is_collective[codes] if len(names) else np.zeros(trace.gpu.height, np.bool_)


def _launch_bound(trace: Trace, begin: Ints, end: Ints, traced_steps: Sequence[Step]) -> list[int]:
    """For each step how long the GPU was idle in it while the call that launched the next work had
    not ended. Of a graph's rows the first alone waits for it; rows whose call is not known wait
    for none."""
    if not traced_steps or not len(begin) or not trace.runtime.height:
        return [0] * len(traced_steps)
    first = min(int(begin[0]), traced_steps[0].start)
    reach = np.concatenate(([first], np.maximum.accumulate(end)[:-1]))
    link = link_launches(
        column(trace.gpu, "correlation"), column(trace.runtime, "correlation")
    ).launch
    called = column(trace.runtime, "ts") + np.maximum(column(trace.runtime, "dur"), 0)
    until = np.where(link >= 0, np.minimum(begin, called[link]), reach)
    idle = until > reach
    starts, ends = reach[idle], until[idle]  # one after another, for each lies before a row
    before = np.concatenate(([0], np.cumsum(ends - starts)))

    def idle_until(moments: Ints) -> Ints:
        over = np.searchsorted(ends, moments)
        begun = np.append(starts, moments.max(initial=0))[over]
        return np.asarray(before[over] + np.maximum(moments - begun, 0), dtype=np.int64)

    edges = np.array([(step.span_start, step.span_end) for step in traced_steps], np.int64).reshape(
        -1, 2
    )
    return [int(each) for each in idle_until(edges[:, 1]) - idle_until(edges[:, 0])]


def _graphs(trace: Trace, name: str, rank: int | None) -> TableRows:
    launches, _ = launched_rows(trace)
    if not launches:
        return []
    looks = _looks(trace)
    begin = column(trace.gpu, "ts")
    end = begin + np.maximum(column(trace.gpu, "dur"), 0)
    spans: dict[str, list[int]] = {}
    first: dict[str, Ints] = {}
    for rows in launches:
        # Sorted, for branches interleave in another order each time.
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
            "span_ns": _median(durations),
            "first": names[int(first[ident][0])],
        }
        for ident, durations in spans.items()
    ]


def _looks(trace: Trace) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """A number for what each row looks like, the same in every trace and process."""
    gpu = trace.gpu
    kinds, kind_names = encode(gpu["kind"])
    names, name_texts = encode(gpu["name"])
    shapes = [column(gpu, dimension) for dimension in _SHAPE]
    table = np.stack([kinds.astype(np.int64), names.astype(np.int64), *shapes], axis=1)
    distinct, which = np.unique(table, axis=0, return_inverse=True)
    numbers = [
        hashlib.sha256(repr((kind_names[kind], name_texts[name], shape)).encode()).digest()[:8]
        for kind, name, *shape in distinct.tolist()
    ]
    return np.frombuffer(b"".join(numbers), dtype="<u8")[which.reshape(-1)]


_SHAPE: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "bytes")


def _kernels(
    trace: Trace, traced_steps: tuple[Step, ...], name: str, rank: int | None
) -> TableRows:
    if not traced_steps:
        return []
    uses = kernel_uses(trace, traced_steps)
    longest = sorted(uses.items(), key=lambda item: -item[1].total_ns)[:MOST_KERNELS]
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


def fleet_answers(
    ranks: pl.LazyFrame, graphs: pl.LazyFrame, kernels: pl.LazyFrame
) -> tuple[FleetAnswer, ...]:
    """What the tables of a fleet say, of each mode and job by itself: only ranks that ran alike can
    be held against each other. Each of the questions is one query over them."""
    modes = ranks.select("mode", "job").unique(maintain_order=True).collect().rows()
    answers = []
    for mode, job in modes:
        own = ranks.filter(pl.col("mode").eq_missing(mode), pl.col("job").eq_missing(job))
        names = own.select("name")
        answers.append(
            _answer(
                (mode, job),
                own,
                graphs.join(names, on="name", how="semi"),
                kernels.join(names, on="name", how="semi"),
            )
        )
    return tuple(answers)


def _answer(
    mode_and_job: tuple[str | None, str | None],
    ranks: pl.LazyFrame,
    graphs: pl.LazyFrame,
    kernels: pl.LazyFrame,
) -> FleetAnswer:
    share = pl.col("launch_bound_ns") / pl.col("step_ns")
    overall = ranks.select(
        count=pl.len(),
        step=pl.col("step_ns").median(),
        least=share.min(),
        half=share.median(),
        most=share.quantile(0.95, "linear"),
        worst=share.max(),
        # The first of equals, by name, so that the answer does not depend on the order of files.
        worst_name=pl.col("name").sort_by(share.fill_null(-1), "name", descending=[True, False])
        .first(),
        unmarked=(~pl.col("marked")).sum(),
        incomplete=pl.col("incomplete").sum(),
        without=(pl.col("busy_ns").is_null() & (pl.col("steps") > 0)).sum(),
    ).collect().row(0, named=True)  # fmt: skip
    odd, count = _odd(ranks, graphs)
    bound = tuple(overall[key] for key in ("least", "half", "most", "worst"))
    is_timed = len(bound) == 4 and None not in bound
    return FleetAnswer(
        mode=mode_and_job[0],
        job=mode_and_job[1],
        ranks=overall["count"],
        step_ns=overall["step"],
        slow=_slow(ranks, kernels),
        awaited=_awaited(ranks),
        graphs=count,
        odd=odd,
        launch_bound=(bound[0], bound[1], bound[2], bound[3]) if is_timed else None,
        launch_bound_worst=overall["worst_name"] if is_timed else None,
        unmarked=overall["unmarked"] or 0,
        incomplete=overall["incomplete"] or 0,
        without_gpu_work=overall["without"] or 0,
    )


def _slow(ranks: pl.LazyFrame, kernels: pl.LazyFrame) -> tuple[SlowRank, ...]:
    """In a step that ends together the slow rank is not the one with the longest step but the one
    whose own work takes longest: the others wait for it in their collectives."""
    own = pl.col("compute_ns")
    middle = own.median()
    deviation = (own - middle).abs().median()
    slow = (
        ranks.select("name", "rank", "compute_ns", middle=middle, deviation=deviation)
        .filter(own > pl.col("middle") * (1 + SLOW_BY))
        .filter(own > pl.col("middle") + SLOW_DEVIATIONS * pl.col("deviation"))
    )
    # Waiting for other ranks is no work of its own.
    names = kernels.select(pl.col("kernel").unique()).collect()["kernel"].to_list()
    kernels = kernels.filter(
        pl.col("kernel").is_in([name for name in names if collective_kind(name) is None])
    )
    usual = kernels.group_by("kernel").agg(usual=pl.col("total_ns").median())
    more = (
        kernels.join(slow.select("name"), on="name", how="semi")
        .join(usual, on="kernel", how="left")
        .with_columns(more=pl.col("total_ns") - pl.col("usual"))
        .sort("more", "kernel", descending=[True, False])
        .group_by("name")
        .agg(kernel=pl.col("kernel").first(), more=pl.col("more").first())
    )
    by_rank = slow.join(more, on="name", how="left").sort(
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


def _awaited(ranks: pl.LazyFrame) -> AwaitedRank | None:
    waits = pl.col("communication_ns")
    least = (
        ranks.select("name", "rank", "step_ns", waits, median=waits.median(), count=pl.len())
        .filter(pl.col("count") > 1)
        .sort("communication_ns", "name", nulls_last=True)
        .head(1)
        .filter(waits < AWAITED_BY * pl.col("median"))
        .filter(pl.col("median") - waits >= AWAITED_SHARE * pl.col("step_ns"))
        .collect()
    )
    for row in least.iter_rows(named=True):
        return AwaitedRank(row["name"], row["rank"], row["communication_ns"], row["median"])
    return None


def _odd(ranks: pl.LazyFrame, graphs: pl.LazyFrame) -> tuple[tuple[OddGraph, ...], int]:
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
    odd = counted.filter(pl.col("count") < pl.col("all"))
    every = set(ranks.select("name").collect()["name"].to_list()) if odd.height else set()
    return tuple(_odd_graph(row, every) for row in odd.iter_rows(named=True)), counted.height


def _odd_graph(row: dict[str, Any], every: set[str]) -> OddGraph:
    owners = row["owners"]
    lacking = 2 * len(owners) > len(every)
    listed = tuple(sorted(every - set(owners))) if lacking else tuple(owners)
    return OddGraph(row["graph"], row["first"], row["kernels"], len(owners), lacking, listed)
