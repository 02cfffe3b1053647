"""Model of the replay time of an eager step: critical path, gaps by node kinds, and launch.

Kernel durations in the eager trace are close to those in a replay, but the profiler distorts the
gaps between them. A gap depends on the node kinds and on whether a kernel is so large that its last
blocks end long after its first ones. A calibration provides the values for one machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Flags, Floats
from graphviz_dash.analysis.prediction.eager_step import EagerStep
from graphviz_dash.analysis.trace.collectives import get_collective_kind
from graphviz_dash.planning.operations import Operation
from graphviz_dash.planning.share import estimate_kernel_share
from graphviz_dash.planning.simulation import Schedule, simulate


class ReplayTerm(StrEnum):
    """Terms of a replay in addition to its work, in ns per occurrence except WARPS."""

    FIXED = "fixed"
    """Once: from the call to the first node, and from the end of the last one to the return."""
    RANDOM = "random"
    """Once if the step draws random numbers: the replay first sets the generator state."""
    KERNEL = "kernel"
    """Before each kernel."""
    WIDE = "wide"
    """Additional, before each kernel that follows one that fills the GPU."""
    SET = "set"
    """Around a memory set."""
    COPY = "copy"
    """Around a copy within the device."""
    HOST_COPY = "host_copy"
    """Around a copy from or to the host."""
    JOIN = "join"
    """Additional, before an item that waits for another stream."""
    HEAT = "heat"
    """Per ns of a long tensor core kernel.

    A loop of such steps reaches the GPU's power limit; the few steps of a trace do not.
    """
    WARPS = "warps"
    """Warps per multiprocessor at which concurrent kernels fill the GPU."""


_RANDOM: Final = re.compile(
    r"dropout|philox|distribution_|bernoulli|random_|normal_|uniform_", re.I
)
_HOT: Final = re.compile(r"nvjet|bf16|f16|hgemm|1688|16816|tensorop|tf32|sdpa|flash|fmha")
_HOT_NS: Final = 20_000


class ReplayTime(Struct, frozen=True):
    """Parts of a predicted replay, in ns."""

    total_ns: float
    fixed_ns: float
    """Launch and return, once."""
    random_ns: float
    """Setup of random numbers, once; 0 if the step draws none."""
    work_ns: float
    """Items on the critical path, as traced."""
    slowed_ns: float
    """Slowdown of these by concurrent work."""
    heat_ns: float
    """Additional time from the power limit."""
    gaps: tuple[tuple[ReplayTerm, int, float], ...]
    """Gaps between nodes on the path: term, count and total."""
    features: Mapping[str, float]
    """Count of each term, for fitting a calibration."""

    @property
    def gap_ns(self) -> float:
        """Total of all gaps between nodes."""
        return sum(ns for _, _, ns in self.gaps)


def compute_item_features(step: EagerStep, multiprocessors: int) -> dict[ReplayTerm, Floats]:
    """Return how often each item-related term counts each item, shape (items,)."""
    kind = np.array(step.kind)
    kernel = kind == "kernel"
    host = np.array([engine > 0 for engine in get_item_engines(step)], dtype=np.bool_)
    predecessor = _find_stream_predecessors(step)
    warps = compute_gpu_demand(step, multiprocessors, 1.0)
    wide = np.where(predecessor >= 0, (warps[predecessor] >= 1.0) & kernel[predecessor], False)
    joins = np.array([bool(sources) for sources in step.predecessors], dtype=np.bool_)
    return {
        ReplayTerm.KERNEL: kernel.astype(np.float64),
        ReplayTerm.WIDE: (kernel & wide).astype(np.float64),
        ReplayTerm.SET: (kind == "memset").astype(np.float64),
        ReplayTerm.COPY: ((kind == "memcpy") & ~host).astype(np.float64),
        ReplayTerm.HOST_COPY: ((kind == "memcpy") & host).astype(np.float64),
        ReplayTerm.JOIN: joins.astype(np.float64),
        ReplayTerm.HEAT: np.where(find_power_limited_items(step), step.duration, 0).astype(
            np.float64
        ),
    }


def find_power_limited_items(step: EagerStep) -> Flags:
    """Return a mask of long tensor core kernels, which reach the power limit; shape (items,)."""
    matches = np.array([bool(_HOT.search(name)) for name in step.name], dtype=np.bool_)
    kernel = np.array([kind == "kernel" for kind in step.kind], dtype=np.bool_)
    return np.asarray(matches & kernel & (step.duration >= _HOT_NS), dtype=np.bool_)


def compute_gpu_demand(step: EagerStep, multiprocessors: int, warps: float) -> Floats:
    """Return the share of the GPU that each item needs.

    A kernel's share depends on its launch, with ``warps`` filling a multiprocessor. A copy to or
    from the host needs its whole engine; other copies and sets need nothing.
    """
    launches = zip(
        step.kind,
        step.name,
        step.blocks.tolist(),
        step.threads.tolist(),
        get_item_engines(step),
        strict=True,
    )
    return np.array(
        [
            estimate_kernel_share(name, blocks, threads, multiprocessors, warps)
            if kind == "kernel"
            else float(engine > 0)
            for kind, name, blocks, threads, engine in launches
        ]
    )


def get_item_engines(step: EagerStep) -> list[int]:
    """Return the engine of each item: 1 copies to the device, 2 from it, 0 otherwise."""
    return [1 if "HtoD" in name else 2 if "DtoH" in name else 0 for name in step.name]


def has_random_kernels(step: EagerStep) -> bool:
    """Return whether the name of a kernel in the step indicates random numbers."""
    return any(_RANDOM.search(name) for name in step.name)


def find_item_dependencies(step: EagerStep) -> list[list[int]]:
    """Return the predecessors of each item, on its own stream and on other streams."""
    ahead = _find_stream_predecessors(step).tolist()
    return [
        [*([previous] if previous >= 0 else []), *others]
        for previous, others in zip(ahead, step.predecessors, strict=True)
    ]


def _find_stream_predecessors(step: EagerStep) -> np.typing.NDArray[np.int64]:
    predecessor = np.full(len(step), -1, dtype=np.int64)
    for lane in range(step.stream_count):
        indices = np.flatnonzero(step.lane == lane)
        predecessor[indices[1:]] = indices[:-1]
    return predecessor


def predict_replay(step: EagerStep, terms: Mapping[str, float], multiprocessors: int) -> ReplayTime:
    """Predict the replay of ``step`` as one graph, with the calibration ``terms`` of a machine."""
    features = compute_item_features(step, multiprocessors)
    cost = np.zeros(len(step))
    for term, counts in features.items():
        cost += counts * terms[term]
    random = float(has_random_kernels(step))
    # Programmatic launches start before the end of their predecessor.
    exclusive_ns = np.maximum(step.exclusive_duration - step.overlapped, 0).astype(np.float64)
    demand = compute_gpu_demand(step, multiprocessors, terms[ReplayTerm.WARPS])
    # Collectives overlapped the same work in the trace, so their durations already include it.
    is_collective = [get_collective_kind(name) is not None for name in step.name]
    schedule = _simulate_schedule(step, exclusive_ns, cost, np.where(is_collective, 0.0, demand))
    path = np.array(schedule.critical_path, dtype=np.int64)
    on_path = {term: counts[path] for term, counts in features.items()}
    gaps = tuple(
        (term, int(np.count_nonzero(counts)), float(counts.sum() * terms[term]))
        for term, counts in on_path.items()
        if term is not ReplayTerm.HEAT and counts.any()
    )
    heat = float(on_path[ReplayTerm.HEAT].sum() * terms[ReplayTerm.HEAT])
    work = float(exclusive_ns[path].sum())
    return ReplayTime(
        total_ns=terms[ReplayTerm.FIXED]
        + random * terms[ReplayTerm.RANDOM]
        + work
        + schedule.slowed_ns
        + heat
        + sum(ns for _, _, ns in gaps),
        fixed_ns=terms[ReplayTerm.FIXED],
        random_ns=random * terms[ReplayTerm.RANDOM],
        work_ns=work,
        slowed_ns=schedule.slowed_ns,
        heat_ns=heat,
        gaps=gaps,
        features={
            ReplayTerm.FIXED: 1.0,
            ReplayTerm.RANDOM: random,
            **{term.value: float(counts.sum()) for term, counts in on_path.items()},
        },
    )


def _simulate_schedule(
    step: EagerStep, exclusive_ns: Floats, cost: Floats, demand: Floats
) -> Schedule:
    """Start each item ``cost`` after the end of its last predecessor."""
    operations = [
        Operation(duration, share, engine=engine)
        for duration, share, engine in zip(
            exclusive_ns.tolist(), demand.tolist(), get_item_engines(step), strict=True
        )
    ]
    waits = [
        [(source, delay) for source in dict.fromkeys(sources)]
        for sources, delay in zip(find_item_dependencies(step), cost.tolist(), strict=True)
    ]
    return simulate(operations, waits)
