"""What a replay of an eager step would take: the work along its longest way, what passes between
one node and the next by the kinds of both, and what a launch takes by itself.

Kernels take in a replay about what they take in the eager trace, whatever the profiler does to the
time between them. What passes between nodes depends on their kinds, and on whether a kernel is so
large that its last blocks end long after its first ones; a calibration says how much on one
machine.
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
from graphviz_dash.analysis.trace.collectives import collective_kind
from graphviz_dash.planning.operations import Operation
from graphviz_dash.planning.share import kernel_share
from graphviz_dash.planning.simulation import Schedule, simulate


class ReplayTerm(StrEnum):
    """What a replay takes beside its work. In ns for each of its kind, except WARPS."""

    FIXED = "fixed"
    """Once: from the call to the first node, and from the end of the last one to the return."""
    RANDOM = "random"
    """Once, where the step draws random numbers: the replay first says where in the sequence."""
    KERNEL = "kernel"
    """Before each kernel."""
    WIDE = "wide"
    """Before each kernel that comes behind one that fills the GPU, on top."""
    SET = "set"
    """Before a memory set, and from it to what follows."""
    COPY = "copy"
    """The same for a copy within the device."""
    HOST_COPY = "host_copy"
    """The same for a copy from or to the host."""
    JOIN = "join"
    """Before an item that waits for work on another stream, on top."""
    HEAT = "heat"
    """For each ns of a kernel that keeps the tensor cores busy for long: a GPU reaches its power
    limit in a loop of such steps, not in the few of a trace."""
    WARPS = "warps"
    """Warps on each multiprocessor with which kernels that run at the same time fill the GPU."""


_RANDOM: Final = re.compile(
    r"dropout|philox|distribution_|bernoulli|random_|normal_|uniform_", re.I
)
_HOT: Final = re.compile(r"nvjet|bf16|f16|hgemm|1688|16816|tensorop|tf32|sdpa|flash|fmha")
_HOT_NS: Final = 20_000


class ReplayTime(Struct, frozen=True):
    """A predicted replay, by its parts; times in ns."""

    total_ns: float
    """All parts together."""
    fixed_ns: float
    """Once: launch and return."""
    random_ns: float
    """Once: seeding of random numbers; 0 where the step draws none."""
    work_ns: float
    """Items along the longest way, as traced."""
    slowed_ns: float
    """By how much work at the same time lengthens these."""
    heat_ns: float
    """What the power limit adds."""
    gaps: tuple[tuple[ReplayTerm, int, float], ...]
    """What passes between nodes along the way: term, how often and how much."""
    features: Mapping[str, float]
    """How often each term counts, by its name: what a calibration is fitted to."""

    @property
    def gap_ns(self) -> float:
        """What passes between nodes, of all kinds."""
        return sum(ns for _, _, ns in self.gaps)


def item_features(step: EagerStep, multiprocessors: int) -> dict[ReplayTerm, Floats]:
    """For each term that counts items how often it counts each, shape (items,)."""
    kind = np.array(step.kind)
    kernel = kind == "kernel"
    host = np.array([engine > 0 for engine in item_engines(step)], dtype=np.bool_)
    ahead = _ahead(step)
    warps = gpu_demand(step, multiprocessors, 1.0)
    wide = np.where(ahead >= 0, (warps[ahead] >= 1.0) & kernel[ahead], False)
    other = np.array([bool(sources) for sources in step.after], dtype=np.bool_)
    return {
        ReplayTerm.KERNEL: kernel.astype(np.float64),
        ReplayTerm.WIDE: (kernel & wide).astype(np.float64),
        ReplayTerm.SET: (kind == "memset").astype(np.float64),
        ReplayTerm.COPY: ((kind == "memcpy") & ~host).astype(np.float64),
        ReplayTerm.HOST_COPY: ((kind == "memcpy") & host).astype(np.float64),
        ReplayTerm.JOIN: other.astype(np.float64),
        ReplayTerm.HEAT: np.where(is_hot(step), step.duration, 0).astype(np.float64),
    }


def is_hot(step: EagerStep) -> Flags:
    """Which items are kernels that keep the tensor cores busy for long, by which a GPU reaches its
    power limit, shape (items,)."""
    named = np.array([bool(_HOT.search(name)) for name in step.name], dtype=np.bool_)
    kernel = np.array([kind == "kernel" for kind in step.kind], dtype=np.bool_)
    return np.asarray(named & kernel & (step.duration >= _HOT_NS), dtype=np.bool_)


def gpu_demand(step: EagerStep, multiprocessors: int, warps: float) -> Floats:
    """The share of the GPU that each item asks for: a kernel's by its launch, where ``warps`` fill
    a multiprocessor. A copy to or from the host asks for its whole engine, other copies and sets
    for nothing."""
    launches = zip(
        step.kind,
        step.name,
        step.blocks.tolist(),
        step.threads.tolist(),
        item_engines(step),
        strict=True,
    )
    return np.array(
        [
            kernel_share(name, blocks, threads, multiprocessors, warps)
            if kind == "kernel"
            else float(engine > 0)
            for kind, name, blocks, threads, engine in launches
        ]
    )


def item_engines(step: EagerStep) -> list[int]:
    """What each item runs on: 1 and 2 are the engines that copy to the device and from it."""
    return [1 if "HtoD" in name else 2 if "DtoH" in name else 0 for name in step.name]


def draws_random(step: EagerStep) -> bool:
    """Whether a kernel of the step draws random numbers, by its name."""
    return any(_RANDOM.search(name) for name in step.name)


def item_dependencies(step: EagerStep) -> list[list[int]]:
    """What each item waits for: the one ahead of it on its stream, and those of other streams."""
    ahead = _ahead(step).tolist()
    return [
        [*([previous] if previous >= 0 else []), *others]
        for previous, others in zip(ahead, step.after, strict=True)
    ]


def _ahead(step: EagerStep) -> np.typing.NDArray[np.int64]:
    ahead = np.full(len(step), -1, dtype=np.int64)
    for lane in range(step.streams):
        mine = np.flatnonzero(step.lane == lane)
        ahead[mine[1:]] = mine[:-1]
    return ahead


def replay_time(step: EagerStep, terms: Mapping[str, float], multiprocessors: int) -> ReplayTime:
    """The replay of ``step`` as one graph on a machine whose calibration has ``terms``."""
    features = item_features(step, multiprocessors)
    cost = np.zeros(len(step))
    for term, counts in features.items():
        cost += counts * terms[term]
    random = float(draws_random(step))
    # What is launched programmatically begins before the end of what is ahead of it.
    alone = np.maximum(step.alone - step.overlapped, 0).astype(np.float64)
    demand = gpu_demand(step, multiprocessors, terms[ReplayTerm.WARPS])
    # Collectives run beside the work beside which they were traced, and it took that long there.
    talks = [collective_kind(name) is not None for name in step.name]
    schedule = _schedule(step, alone, cost, np.where(talks, 0.0, demand))
    path = np.array(schedule.path, dtype=np.int64)
    on_path = {term: counts[path] for term, counts in features.items()}
    gaps = tuple(
        (term, int(np.count_nonzero(counts)), float(counts.sum() * terms[term]))
        for term, counts in on_path.items()
        if term is not ReplayTerm.HEAT and counts.any()
    )
    heat = float(on_path[ReplayTerm.HEAT].sum() * terms[ReplayTerm.HEAT])
    work = float(alone[path].sum())
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


def _schedule(step: EagerStep, alone: Floats, cost: Floats, demand: Floats) -> Schedule:
    """When each item runs, ``cost`` after the last of those before it has ended."""
    operations = [
        Operation(duration, share, engine=engine)
        for duration, share, engine in zip(
            alone.tolist(), demand.tolist(), item_engines(step), strict=True
        )
    ]
    waits = [
        [(source, delay) for source in dict.fromkeys(sources)]
        for sources, delay in zip(item_dependencies(step), cost.tolist(), strict=True)
    ]
    return simulate(operations, waits)
