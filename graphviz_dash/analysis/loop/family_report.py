"""The families of a recorded program's graphs: what each graph costs, and what its steps lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.loop.copied_sizes import copied_sizes
from graphviz_dash.analysis.loop.loop_columns import (
    CAPTURE,
    FALLBACK,
    NONE,
    SIZE_SOURCES,
    LoopColumns,
    SizeSource,
    loop_columns,
)
from graphviz_dash.analysis.loop.padding import PaddingCost, padding_cost
from graphviz_dash.analysis.loop.size_times import (
    ReplaySamples,
    median,
    size_times,
    times_at,
)
from graphviz_dash.analysis.sample_statistics import Summary, percentiles, summarise
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.loop import FamilyMember, GraphCost, GraphFamily, ProgramLoop
from graphviz_dash.model.recording import RecordedGraph
from graphviz_dash.model.run import Run

_FEWEST: Final = 3
"""GPU times from which a median stands by itself."""
_FEWEST_STEPS: Final = 32
"""Times to the next step from which one does: they vary with what the host does."""

_USUAL_NODE_BYTES: Final = 3_072
"""Device memory outside the allocator that an executable takes for each node, measured on driver
580 with kernels of few arguments."""
_FEWEST_MEASURED: Final = 32 * 2**20
"""Bytes that executables take together from which they tell it themselves: the driver takes memory
in chunks of 2 MiB."""


class NodeBytes(Struct, frozen=True):
    """What the executables of a program take of the device outside the allocator."""

    bytes: float
    """For each node."""
    graphs: int
    """By so many graphs, whose instantiations left so much less memory free; 0: by what was
    measured elsewhere, for the program's own took too little to tell."""


class MemberReport(Struct, frozen=True):
    """What serves one key of a family."""

    index: int
    """Its place among the members of the family."""
    member: FamilyMember
    """The key, and the graphs."""
    size: int | None
    """The number of its key that is padded; None where none is known."""
    rest: tuple[int, ...]
    """The other numbers of its key."""
    steps: int
    """Steps that it served."""
    gpu: Summary | None
    """GPU time of a replay of all its graphs, in ns; None where none was sampled."""
    gpu_ns: Floats
    """The samples, shape (samples,)."""
    launch: Summary | None
    """CPU time of the calls that replay them, in ns; None where none was seen."""
    period: Summary | None
    """From the begin of its steps to that of the next, in ns; None where it served none."""
    nodes: int | None
    """Nodes of its graphs; None where one could not be read."""
    capture_ns: int
    """Their captures, instantiation included, in ns."""
    first_launch_ns: int | None
    """The calls of their first replays; None where one was never replayed."""
    own_bytes: int | None
    """Bytes of the pool that only they can use; None where it was not read."""
    pool_added_bytes: int | None
    """Bytes by which their captures made the pool larger; None where it was not read."""
    executable_bytes: int | None
    """Device memory of their executables outside the allocator, by their nodes; None where these
    are not known."""

    @property
    def startup_ns(self) -> int:
        """What they take until they can be replayed at full speed."""
        return self.capture_ns + (self.first_launch_ns or 0)


class SizeLoss(Struct, frozen=True):
    """What the requests of one real size lost."""

    size: int
    """The real size."""
    requests: int
    """How many steps asked for it."""
    fallbacks: int
    """How many of them ran without a graph."""
    padding_ns: float
    """GPU time of the others over what a graph of that very size would take, in ns."""
    fallback_ns: float | None
    """Time of the steps without a graph over what a graph of that size would take, in ns; None
    where there are some, and none of any size was timed."""


def total_fallback_ns(losses: Iterable[SizeLoss]) -> float | None:
    """Their sum, in ns; None where one is not known."""
    known = [loss.fallback_ns for loss in losses]
    return None if None in known else sum(ns for ns in known if ns is not None)


class FamilyReport(Struct, frozen=True):
    """One family, and the steps that it served."""

    index: int
    """Its place among the families of the program."""
    family: GraphFamily
    """What it is called, and where it was captured."""
    members: tuple[MemberReport, ...]
    """By size, those of unknown size behind in the order of their captures."""
    replays: int
    """Steps that replayed its graphs."""
    fallbacks: int
    """Steps that ran eagerly, for no graph fitted."""
    captures: int
    """Steps in which a graph was captured."""
    step_ns: float | None
    """What a step takes besides its replay, in ns: the median, over the steps of members that were
    sampled, of the time to the next step less the member's median replay. None where none was."""
    samples: tuple[ReplaySamples, ...]
    """Times of the members of known size; none where no replay was timed."""
    real_sizes: tuple[tuple[SizeSource, int], ...]
    """Of how many of its replays and fallbacks the real size is known, and how, surest first."""
    losses: tuple[SizeLoss, ...] | Missing
    """By real size, ascending; or why padding is not known."""
    padding: PaddingCost | Missing
    """What padding took of all its steps of known size; missing with ``losses``."""
    node_bytes: NodeBytes
    """What executables are taken to need, of this family and the program's others."""

    @property
    def fallback_ns(self) -> float | None:
        """Time that its steps without a graph took over what graphs of their sizes would, in ns;
        None where that is not known."""
        if isinstance(self.losses, Missing):
            return None
        return total_fallback_ns(self.losses)

    @property
    def key_count(self) -> int:
        """How many keys its members have: several may share one, as graphs of one size for each
        place in a text; those of unknown key count each."""
        known = [member.member.key for member in self.members if member.member.key]
        return len(set(known)) + len(self.members) - len(known)

    @property
    def has_sizes(self) -> bool:
        """Whether its graphs are told apart by a size."""
        return any(member.size is not None for member in self.members)

    @property
    def is_segmented(self) -> bool:
        """Whether a step replays several graphs."""
        return any(len(member.member.graphs) > 1 for member in self.members)

    @property
    def graphs(self) -> tuple[str, ...]:
        """The ids of its graphs, each once."""
        return tuple(dict.fromkeys(g for member in self.members for g in member.member.graphs))


class LoopReport(Struct, frozen=True):
    """The loop of one recorded program."""

    run: str
    """The run's name."""
    families: tuple[FamilyReport, ...]
    """Those with the most steps first."""
    columns: LoopColumns
    """All steps."""
    steps_seen: int
    """How many steps there were; more than there are rows where these were too many."""
    outside: int
    """Steps of no family."""
    engine: str | None
    """The engine whose state was read."""


def has_many_graphs(loop: ProgramLoop | None) -> bool:
    """Whether a program has a family of several graphs: several keys, or segments."""
    return loop is not None and any(
        len(family.members) > 1 or any(len(member.graphs) > 1 for member in family.members)
        for family in loop.families
    )


def loop_report(run: Run) -> LoopReport | Missing:
    """The families of ``run``, or why it has none."""
    loop, recording = run.loop, run.recording
    if loop is None or recording is None:
        reason = "no program was recorded" if recording is None else "recorded by an older version"
        return Missing(Fact.FAMILIES, reason)
    if not loop.families:
        return Missing(Fact.FAMILIES, "the program captured no graph")
    columns = loop_columns(loop, copied_sizes(loop, run.replay_trace) if run.replay_trace else {})
    costs = {cost.graph: cost for cost in loop.graphs}
    recorded = {graph.graph: graph for graph in recording.graphs}
    uses = Counter(g for f in loop.families for member in f.members for g in set(member.graphs))
    graphs = _Graphs(costs, recorded, uses, _node_bytes(costs, recorded))
    families = [
        _family(index, family, columns, graphs) for index, family in enumerate(loop.families)
    ]
    families.sort(key=lambda family: -(family.replays + family.fallbacks))
    return LoopReport(
        run=run.name,
        families=tuple(families),
        columns=columns,
        steps_seen=loop.steps_seen,
        outside=int((columns.family == NONE).sum()),
        engine=loop.engine,
    )


class _Graphs(Struct, frozen=True):
    """What is known of each graph by its id."""

    costs: Mapping[str, GraphCost]
    recorded: Mapping[str, RecordedGraph]
    uses: Mapping[str, int]
    node_bytes: NodeBytes


def _node_bytes(costs: Mapping[str, GraphCost], recorded: Mapping[str, RecordedGraph]) -> NodeBytes:
    known = [
        (cost.outside_bytes, nodes)
        for graph, cost in costs.items()
        if cost.outside_bytes is not None and graph in recorded and (nodes := recorded[graph].nodes)
    ]
    taken = sum(taken for taken, _ in known)
    if taken < _FEWEST_MEASURED:
        return NodeBytes(_USUAL_NODE_BYTES, 0)
    return NodeBytes(taken / sum(nodes for _, nodes in known), len(known))


def _family(index: int, family: GraphFamily, columns: LoopColumns, graphs: _Graphs) -> FamilyReport:
    own = np.flatnonzero(columns.family == index)
    kind = columns.kind[own]
    served = own[columns.replayed[own]]
    # One pass for all members: the steps in groups of one member each.
    order = served[np.argsort(columns.member[served], kind="stable")]
    bounds = np.searchsorted(columns.member[order], np.arange(len(family.members) + 1))
    members = [
        _member(number, family, member, columns, order[bounds[number] : bounds[number + 1]], graphs)
        for number, member in enumerate(family.members)
    ]
    members.sort(key=lambda each: (each.size is None, each.size or 0, each.rest, each.index))
    step_ns = _besides_replays(columns, served, members)
    samples = _samples(members, columns, served, step_ns)
    losses = _losses(samples, columns, own, step_ns or 0.0)
    return FamilyReport(
        index=index,
        family=family,
        members=tuple(members),
        replays=len(served),
        fallbacks=int((kind == FALLBACK).sum()),
        captures=int((kind == CAPTURE).sum()),
        step_ns=step_ns,
        samples=samples,
        real_sizes=_real_sizes(columns, own),
        losses=losses,
        padding=_padding(samples, columns, own, losses),
        node_bytes=graphs.node_bytes,
    )


def _member(
    index: int,
    family: GraphFamily,
    member: FamilyMember,
    columns: LoopColumns,
    steps: Ints,
    graphs: _Graphs,
) -> MemberReport:
    size, rest = _split_key(family, member)
    ids = tuple(dict.fromkeys(member.graphs))
    costs = [graphs.costs[graph] for graph in ids]
    recorded = [graphs.recorded[graph] for graph in ids if graph in graphs.recorded]
    nodes = _sum([graph.nodes for graph in recorded])
    alone = len(member.graphs) == 1 and graphs.uses[ids[0]] == 1
    gpu = np.array(costs[0].gpu_ns, dtype=np.float64) if alone else np.zeros(0)
    if not len(gpu):
        gpu = _present(columns.gpu_ns[steps])
    return MemberReport(
        index=index,
        member=member,
        size=size,
        rest=rest,
        steps=len(steps),
        gpu=summarise(gpu),
        gpu_ns=gpu,
        launch=summarise(_present(columns.launch_ns[steps])),
        period=summarise(_present(columns.period_ns[steps])),
        nodes=nodes,
        capture_ns=sum(graph.capture_ns for graph in recorded),
        first_launch_ns=_sum([cost.first_launch_ns for cost in costs]),
        own_bytes=_sum([cost.own_bytes for cost in costs]),
        pool_added_bytes=_sum([cost.pool_added_bytes for cost in costs]),
        executable_bytes=None if nodes is None else round(nodes * graphs.node_bytes.bytes),
    )


def _split_key(family: GraphFamily, member: FamilyMember) -> tuple[int | None, tuple[int, ...]]:
    """The number of a key that is padded, and the others."""
    axis, key = family.size_axis, member.key
    if key is None or axis is None:
        return None, ()
    return key[axis], (*key[:axis], *key[axis + 1 :])


def _sum(values: Sequence[int | None]) -> int | None:
    present = [value for value in values if value is not None]
    return sum(present) if len(present) == len(values) else None


def _present(values: Ints) -> Floats:
    present: Floats = values[values != NONE].astype(np.float64)
    return present


def _besides_replays(
    columns: LoopColumns, served: Ints, members: Sequence[MemberReport]
) -> float | None:
    """See ``FamilyReport.step_ns``. Not of the sampled steps alone: their events take time too."""
    medians = np.full(1 + max((member.index for member in members), default=0), np.nan)
    for member in members:
        if member.gpu is not None:
            medians[member.index] = member.gpu.median
    timed = columns.settled(served)
    besides = columns.period_ns[timed] - medians[columns.member[timed]]
    besides = besides[np.isfinite(besides)]
    return max(percentiles(besides, (50,))[0], 0.0) if len(besides) else None


def _samples(
    members: Sequence[MemberReport], columns: LoopColumns, served: Ints, step_ns: float | None
) -> tuple[ReplaySamples, ...]:
    """Times of the members of known size: GPU times; of members with fewer than three the time from
    their steps to the next, less what a step takes besides. Those with fewer than three of either
    count only where no other has more: one slow sample would bend the line for its neighbours."""
    timed = columns.settled(served)
    timed = timed[np.argsort(columns.member[timed], kind="stable")]
    besides = np.maximum(columns.period_ns[timed] - (step_ns or 0.0), 0.0)
    member_of = columns.member[timed]
    many: list[ReplaySamples] = []
    few: list[ReplaySamples] = []
    for member in members:
        if not member.size:
            continue
        times = member.gpu_ns
        if len(times) < _FEWEST and step_ns is not None:
            first, last = np.searchsorted(member_of, (member.index, member.index + 1))
            by_period = besides[first:last]
            times = by_period if len(by_period) >= _FEWEST_STEPS else times
        if len(times):
            group = many if len(times) >= _FEWEST else few
            group.append(ReplaySamples(member.size, member.rest, times, member.steps))
    return tuple(many or few)


def _real_sizes(columns: LoopColumns, own: Ints) -> tuple[tuple[SizeSource, int], ...]:
    known = own[(columns.real[own] != NONE) & (columns.kind[own] != CAPTURE)]
    counts = np.bincount(columns.size_source[known], minlength=len(SIZE_SOURCES)).tolist()
    return tuple(pair for pair in zip(SIZE_SOURCES, counts, strict=True) if pair[1])


def _padding(
    samples: Sequence[ReplaySamples],
    columns: LoopColumns,
    own: Ints,
    losses: tuple[SizeLoss, ...] | Missing,
) -> PaddingCost | Missing:
    if isinstance(losses, Missing):
        return losses
    served = own[(columns.real[own] > 0) & (columns.padded[own] != NONE)]
    served = served[~np.isin(columns.kind[served], (CAPTURE, FALLBACK))]
    steps = sum(loss.requests for loss in losses)
    return padding_cost(samples, columns.real[served], columns.padded[served], steps)


def _losses(
    samples: Sequence[ReplaySamples], columns: LoopColumns, own: Ints, step_ns: float
) -> tuple[SizeLoss, ...] | Missing:
    """What each real size lost to padding and to fallbacks, by the medians of sampled replays and,
    between the sizes of these, straight lines."""
    own = own[(columns.real[own] > 0) & (columns.kind[own] != CAPTURE)]
    if not len(own):
        return Missing(Fact.LADDER, "no step of a known real size")
    if not samples:
        return Missing(Fact.LADDER, "no replay of a known size was timed on the GPU")
    seen, curve = size_times(samples, np.array([median(each.replay_ns) for each in samples]))
    real, padded = columns.real[own], columns.padded[own]
    wider = padded > real
    if wider.any() and bool((real[wider] < seen[0]).all()):
        # The curve is flat below its first size: zero would be a guess, and a kind one.
        return Missing(Fact.LADDER, f"no size below {seen[0]:,} was timed, and padded steps were")
    exact_ns = times_at(real, seen, curve)
    padded_ns = times_at(np.maximum(padded, 0), seen, curve)
    fell = columns.kind[own] == FALLBACK
    period = columns.period_ns[own]
    timed = np.isin(own, columns.settled(own[fell]))
    over_ns = period - step_ns - exact_ns
    # Fallbacks that were not timed, as the last step of a thread, lost what the others did; so did
    # the first of a size, whose libraries prepared themselves.
    usual_ns = float(over_ns[timed].mean()) if timed.any() else np.nan
    fallback_ns = np.where(timed, over_ns, np.where(fell, usual_ns, 0.0))
    padding_ns = np.where(fell | (padded == NONE), 0.0, padded_ns - exact_ns)
    sizes, places = np.unique(real, return_inverse=True)
    columns_of = [
        np.bincount(places, weights=weights, minlength=len(sizes))
        for weights in (np.ones(len(real)), fell, padding_ns, fallback_ns)
    ]
    return tuple(
        SizeLoss(
            int(size),
            int(count),
            int(fallbacks),
            float(padding),
            float(fallback) if np.isfinite(fallback) else None,
        )
        for size, count, fallbacks, padding, fallback in zip(sizes, *columns_of, strict=True)
    )
