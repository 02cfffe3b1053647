"""Fraction of a step that runs from graphs, and reasons for eager work.

Only the traced pass is used. Work that shares the ``correlation`` of a graph launch ran from a
graph. The operators and ranges around the launch call of other work, as named by torch, give the
reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.absence import NO_GPU_WORK, NO_STEP_MARKS
from graphviz_dash.analysis.arrays import Ints, encode, get_column, get_threads
from graphviz_dash.analysis.attribution.origins import NodeOrigin, OriginResolver
from graphviz_dash.analysis.trace.api_calls import CallClass, get_call_class
from graphviz_dash.analysis.trace.gpu_records import find_missing_gpu_work
from graphviz_dash.analysis.trace.lanes import link_trace_launches
from graphviz_dash.analysis.trace.steps import Step, StepMethod
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import Run
from graphviz_dash.model.trace import Trace
from graphviz_dash.units import format_count


class Reason(StrEnum):
    """Reason why work was not launched by a graph."""

    INPUT = "copied into a graph's static inputs before its replay"
    GENERATOR = "the random generator's seed and offset, set before a replay"
    COMPILED = "in a compiled region, outside its graphs"
    OPTIMIZER = "in the optimizer's step, which no graph holds"
    BACKWARD = "backward of an operator that no graph holds"
    FORWARD = "outside any graph"
    NO_OPERATOR = "launched outside any operator"


class StayedEager(Struct, frozen=True):
    """Eagerly launched work with the same reason and operator."""

    reason: Reason
    operator: str | None
    """Outermost distinguishing operator, without the engine's prefix for an autograd node.

    "Optimizer.step" covers everything within it; None outside any operator.
    """
    count: float
    """Kernels, memcpys and memsets per traced step (mean)."""
    total_ns: float
    """Total duration per traced step (mean)."""
    share: float
    """Fraction of the steps' GPU work duration, 0 to 1."""


class Coverage(Struct, frozen=True):
    """Work of the traced steps that ran from graphs."""

    work_share: float
    """Fraction of kernels, memcpys and memsets from graphs, 0 to 1."""
    time_share: float
    """Fraction of their durations, 0 to 1."""
    nodes: float
    """Mean number from graphs per step."""
    eager: tuple[StayedEager, ...]
    """Work outside graphs, longest first."""


def compute_coverage(trace: Trace, traced_steps: Sequence[Step]) -> Coverage | Missing:
    """Compute the coverage of ``traced_steps``; near-linear."""
    if not traced_steps or traced_steps[0].method is StepMethod.WHOLE:
        return NO_STEP_MARKS
    rows = np.concatenate([step.gpu_rows for step in traced_steps])
    if not len(rows):
        return find_missing_gpu_work(trace) or NO_GPU_WORK
    launch = link_trace_launches(trace).launch[rows]
    codes, names = encode(trace.runtime["name"])
    is_graph_launch = np.array([get_call_class(name) is CallClass.GRAPH_LAUNCH for name in names])
    linked_rows = launch >= 0
    if not linked_rows.any():
        return Missing(Fact.GPU_WORK, "the trace links no GPU work to its launch")
    from_graph = np.zeros(len(rows), dtype=np.bool_)
    from_graph[linked_rows] = is_graph_launch[codes[launch[linked_rows]]]
    duration = np.maximum(get_column(trace.gpu, "dur")[rows], 0)
    total_ns = float(duration.sum())
    outside = ~from_graph & linked_rows
    return Coverage(
        work_share=float(from_graph.mean()),
        time_share=float(duration[from_graph].sum() / total_ns) if total_ns else 0.0,
        nodes=float(from_graph.sum() / len(traced_steps)),
        eager=_group_eager_work(
            trace, launch[outside], duration[outside], len(traced_steps), total_ns
        ),
    )


def explain_eager_window(run: Run) -> Missing | None:
    """Explain why traced steps without a graph say nothing about the others; None if the recorded
    program replayed no graph.
    """
    replays = sum(graph.replays for graph in run.recording.graphs) if run.recording else 0
    if not replays:
        return None
    return Missing(
        Fact.GRAPH_STEPS,
        "the traced window has only steps without a graph; outside it, the program replayed "
        f"graphs {format_count(replays)} times",
    )


def _group_eager_work(
    trace: Trace, launches: Ints, duration: Ints, steps: int, total_ns: float
) -> tuple[StayedEager, ...]:
    launch_origins = OriginResolver(trace, launches)
    origins = [
        launch_origins.get_origin(index, "traced pass", 1.0) for index in range(len(launches))
    ]
    fills = launches[[origin.op == "aten::fill_" for origin in origins]]
    generator = set(_find_generator_fills(trace, fills).tolist())
    sums: dict[tuple[Reason, str | None], tuple[int, int]] = {}
    for row, duration_ns, origin in zip(launches.tolist(), duration.tolist(), origins, strict=True):
        key = (Reason.GENERATOR, "aten::fill_") if row in generator else _classify_origin(origin)
        count, total = sums.get(key, (0, 0))
        sums[key] = (count + 1, total + duration_ns)
    groups = (
        StayedEager(
            reason, operator, count / steps, total / steps, total / total_ns if total_ns else 0.0
        )
        for (reason, operator), (count, total) in sums.items()
    )
    return tuple(sorted(groups, key=lambda group: (-group.total_ns, -group.count)))


def _find_generator_fills(trace: Trace, fills: Ints) -> Ints:
    """Return the rows in ``fills`` that come in pairs right before a graph launch of their thread.

    CUDAGraph.replay() first fills the seed and offset of a generator that the graph uses.
    """
    codes, names = encode(trace.runtime["name"])
    classes = [get_call_class(name) for name in names]
    submits = np.array([call in _SUBMITTING for call in classes])[codes]
    graph = np.array([call is CallClass.GRAPH_LAUNCH for call in classes])[codes]
    calls = np.flatnonzero(submits)
    thread = get_threads(trace.runtime)[calls]
    order = np.lexsort((get_column(trace.runtime, "ts")[calls], thread))
    calls, thread = calls[order], thread[order]
    is_fill = np.isin(calls, fills)
    follows = thread[:-2] == thread[2:]
    pair = np.flatnonzero(is_fill[:-2] & is_fill[1:-1] & graph[calls[2:]] & follows)
    return calls[np.concatenate((pair, pair + 1))]


_SUBMITTING = frozenset({CallClass.KERNEL_LAUNCH, CallClass.GRAPH_LAUNCH, CallClass.COPY})
_ENGINE = "autograd::engine::evaluate_function: "
# Names of the parts of torch's graphing wrappers (torch/cuda/graphs.py, torch/_inductor).
_GRAPHED = frozenset({"Graphed", "GraphedBackward"})
_COMPILED = ("Torch-Compiled Region", "CompiledFunction", "## Call CompiledFxGraph")
_COPIES = frozenset({"aten::copy_", "aten::_foreach_copy_"})


def _classify_origin(origin: NodeOrigin) -> tuple[Reason, str | None]:
    path = tuple(name.removeprefix(_ENGINE) for name in origin.op_path)
    if not path:
        return Reason.NO_OPERATOR, None
    copies = not _COPIES.isdisjoint(path)
    if copies and not _GRAPHED.isdisjoint(path):
        return Reason.INPUT, path[0]
    if any(name.startswith(_COMPILED) for name in path):
        # cudagraph trees copy non-static arguments before each replay.
        return (Reason.INPUT if copies else Reason.COMPILED), _get_region_name(path)
    if origin.phase == "optimizer":
        return Reason.OPTIMIZER, "Optimizer.step"
    if origin.phase == "backward":
        return Reason.BACKWARD, path[0]
    return Reason.FORWARD, path[0]


def _get_region_name(path: tuple[str, ...]) -> str:
    """Drop the hash, which changes per build."""
    named_parts = (name for name in path if name.startswith("CompiledFunction"))
    return next(named_parts, "Torch-Compiled Region")
