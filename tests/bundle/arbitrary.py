from __future__ import annotations

from itertools import pairwise

import msgspec
from hypothesis import strategies as st

from graphviz_dash.model.doctor import (
    CheckStatus,
    CodeLocation,
    DetectionMethod,
    DoctorReport,
    Evidence,
    Finding,
    OutputCheck,
    RuleCheck,
    RuleId,
    Severity,
)
from graphviz_dash.model.gpu import Gpu
from graphviz_dash.model.graph import (
    PARAMS_BY_KIND,
    BatchMemOpParams,
    CapturedGraph,
    ConditionalParams,
    ConditionalType,
    DriverResult,
    EdgeType,
    EventParams,
    GraphEdge,
    GraphNode,
    HostParams,
    KernelParams,
    MemAllocParams,
    MemcpyParams,
    MemFreeParams,
    MemsetParams,
    NodeKind,
    Operand,
    SemaphoreParams,
)
from graphviz_dash.model.memory import (
    Extent,
    GraphMemory,
    LiveExtent,
    MemoryPass,
    MemoryStage,
    OwnedBytes,
    Owner,
    PoolSegment,
    Stage,
)
from graphviz_dash.model.observers import ObservedSeries, Observer, ObserverPass
from graphviz_dash.model.recording import BoundaryKind, RecordedGraph, Recording, WindowEnd
from graphviz_dash.model.run import (
    Absent,
    Environment,
    ExecutionMode,
    Failure,
    FileEntry,
    FileRole,
    GraphUpdate,
    GraphUpdates,
    Manifest,
    MemoryUse,
    Pass,
    PoolUse,
    StepWork,
    WorkloadInfo,
)
from graphviz_dash.model.timings import (
    CleanProcess,
    CleanTimings,
    GpuClocks,
    GraphLifecycle,
    StepTiming,
)

# What a file may hold: any Unicode that JSON can carry, so no lone surrogates.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
counts = st.integers(0, (1 << 63) - 1)
small = st.integers(0, 1 << 20)
dims = st.tuples(counts, counts, counts)
maybe = st.none


def _tuples(values: st.SearchStrategy, most: int = 5) -> st.SearchStrategy:
    return st.lists(values, max_size=most).map(tuple)


finite = st.floats(allow_nan=False, allow_infinity=False)

doctors = st.builds(
    DoctorReport,
    subject=st.sampled_from(["workload", "program"]),
    captured=maybe() | st.booleans(),
    attempts=counts,
    nodes=maybe() | counts,
    steps=counts,
    operators=maybe() | counts,
    replays=counts,
    findings=_tuples(
        st.builds(
            Finding,
            rule=st.sampled_from(RuleId),
            severity=st.sampled_from(Severity),
            detected_by=st.sampled_from(DetectionMethod),
            ends_capture=st.booleans(),
            location=maybe()
            | st.builds(CodeLocation, texts, counts, maybe() | texts, counts, _tuples(texts)),
            op=maybe() | texts,
            stream=maybe() | texts,
            thread=maybe() | texts,
            message=maybe() | texts,
            calls_per_step=maybe() | counts,
            evidence=_tuples(
                st.builds(Evidence, texts, st.integers(-9, 9) | finite | texts, maybe() | texts)
            ),
        ),
        most=3,
    ),
    checks=_tuples(
        st.builds(RuleCheck, st.sampled_from(RuleId), st.sampled_from(CheckStatus), maybe() | texts)
    ),
    outputs=_tuples(
        st.builds(
            OutputCheck,
            name=texts,
            kind=st.sampled_from(["result", "state"]),
            dtype=texts,
            shape=_tuples(counts),
            elements=counts,
            differing_elements=counts,
            max_difference=maybe() | finite,
            eager_difference=maybe() | finite,
        ),
        most=2,
    ),
)

_params = {
    KernelParams: st.builds(
        KernelParams,
        name=texts,
        demangled=texts,
        grid=dims,
        block=dims,
        dynamic_shared=counts,
        static_shared=maybe() | counts,
        registers=maybe() | counts,
        cluster=maybe() | dims,
        cooperative=maybe() | st.booleans(),
        priority=maybe() | st.integers(-10, 10),
        dynamic_parallelism=maybe() | st.booleans(),
    ),
    MemcpyParams: st.builds(
        MemcpyParams,
        *(texts, texts, texts, counts, counts, counts, counts),
        pageable=maybe() | st.booleans(),
    ),
    MemsetParams: st.builds(MemsetParams, counts, counts, counts, counts, counts),
    HostParams: st.builds(HostParams, maybe() | texts, maybe() | texts),
    MemAllocParams: st.builds(MemAllocParams, counts, counts),
    # Which node allocated it must be true of the graph around it.
    MemFreeParams: st.just(MemFreeParams(None)),
    EventParams: st.builds(EventParams, counts),
    SemaphoreParams: st.builds(
        SemaphoreParams, _tuples(counts), _tuples(st.integers(0, (1 << 64) - 1))
    ),
    ConditionalParams: st.builds(
        ConditionalParams, maybe() | st.sampled_from(ConditionalType), maybe() | counts
    ),
    BatchMemOpParams: st.builds(BatchMemOpParams, _tuples(texts)),
}


@st.composite
def nodes(draw: st.DrawFn, index: int) -> GraphNode:
    """A node without bodies; its parameters are of its kind."""
    kind = draw(st.sampled_from(NodeKind))
    of_kind = _params[PARAMS_BY_KIND[kind]] if kind in PARAMS_BY_KIND else maybe()
    return GraphNode(
        index,
        kind,
        draw(maybe() | of_kind),
        enabled=draw(maybe() | st.booleans()),
        device=draw(maybe() | counts),
        operands=draw(maybe() | operands()),
    )


@st.composite
def operands(draw: st.DrawFn) -> tuple[Operand, ...]:
    """In order, and apart from each other."""
    found = []
    for allocation in range(draw(st.integers(0, 2))):
        end = 0
        for gap, size in draw(st.lists(st.tuples(small, st.integers(1, 1 << 20)), max_size=3)):
            found.append(Operand(allocation, end + gap, size))
            end += gap + size
    return tuple(found)


answers = st.builds(DriverResult, texts, maybe() | texts, maybe() | counts, maybe() | counts)


@st.composite
def graphs(draw: st.DrawFn, graph_id: str = "graph-0") -> CapturedGraph:
    """A graph whose edges go from earlier nodes to later ones, as a capture creates them."""
    count = draw(st.integers(0, 8))
    drawn = tuple(draw(nodes(index)) for index in range(count))
    pairs = st.tuples(st.integers(0, count), st.integers(0, count)).filter(
        lambda pair: pair[0] < pair[1] < count
    )
    edges = tuple(
        GraphEdge(source, target, draw(counts), draw(counts), draw(st.sampled_from(EdgeType)))
        for source, target in draw(st.lists(pairs, max_size=12) if count > 1 else st.just([]))
    )
    return CapturedGraph(
        graph_id,
        drawn,
        edges,
        draw(texts),
        name=draw(maybe() | texts),
        device_launch=draw(maybe() | answers),
    )


graph_updates = st.builds(
    GraphUpdates,
    _tuples(
        st.builds(GraphUpdate, texts, texts, answers, _tuples(counts), _tuples(counts)), most=3
    ),
)
"""In a bundle without graphs, updates may name any graph."""


gpu_clocks = st.builds(GpuClocks, counts, counts, counts, _tuples(texts))


@st.composite
def _with_processes(draw: st.DrawFn, timings: st.SearchStrategy[CleanTimings]) -> CleanTimings:
    clean = draw(timings)
    lengths = (len(clean.steps), len(clean.back_to_back_ns))
    cuts = [sorted(draw(st.lists(st.integers(0, most), max_size=2))) for most in lengths]
    ends = [
        list(pairwise((0, *(own + [most] * 2)[:2], most)))
        for own, most in zip(cuts, lengths, strict=True)
    ]
    processes = tuple(
        CleanProcess(
            draw(counts),
            steps[1] - steps[0],
            intervals[1] - intervals[0],
            draw(_tuples(counts)),
            draw(maybe() | gpu_clocks),
        )
        for steps, intervals in zip(*ends, strict=True)
    )
    return msgspec.structs.replace(clean, processes=draw(st.sampled_from([(), processes])))


cleans = _with_processes(
    st.builds(
        CleanTimings,
        warmup_ns=counts,
        steps=_tuples(st.builds(StepTiming, counts, counts)),
        back_to_back_ns=_tuples(counts),
        graphs=_tuples(
            st.builds(
                GraphLifecycle,
                texts,
                counts,
                counts,
                counts,
                maybe() | counts,
                counts,
                counts,
                maybe() | counts,
                maybe() | counts,
                maybe() | counts,
                _tuples(st.builds(StepTiming, counts, counts)),
                _tuples(counts),
            )
        ),
    )
)

_observed = st.builds(
    ObservedSeries,
    st.sampled_from(Observer),
    counts,
    maybe() | texts,
    st.lists(st.builds(StepTiming, counts, counts), min_size=1, max_size=3).map(tuple),
    counts,
    _tuples(counts, most=3),
    _tuples(counts, most=3),
    maybe() | counts,
)

observer_passes = st.builds(
    lambda nothing, others: ObserverPass(3, (nothing, *others)),
    _observed.map(lambda one: msgspec.structs.replace(one, observer=Observer.NONE)),
    _tuples(_observed, most=3),
)

memories = st.builds(
    MemoryUse,
    counts,
    counts,
    counts,
    counts,
    _tuples(st.builds(PoolUse, st.tuples(counts, counts), counts, counts, counts)),
)

_owned = st.builds(OwnedBytes, st.tuples(counts, counts), st.sampled_from(Owner), counts)

memory_passes = st.builds(
    MemoryPass,
    method=texts,
    iterations=counts,
    stages=st.tuples(
        *(
            st.builds(
                MemoryStage,
                st.just(stage),
                counts,
                counts,
                counts,
                counts,
                counts,
                maybe() | counts,
            )
            for stage in Stage
        )
    ),
    owners_at_end=_tuples(_owned),
    owners_at_peak=_tuples(_owned),
    segments=st.just((PoolSegment((1, 0), 1 << 21), PoolSegment((1, 1), 1 << 30))),
    live_extents=_tuples(
        st.builds(
            lambda place, begin, size, owner: LiveExtent(place, begin, begin + size, owner),
            st.integers(0, 1),
            st.integers(0, 1 << 20),
            st.integers(1, 1 << 20),
            st.sampled_from(Owner),
        )
    ),
    graphs=_tuples(
        st.builds(
            GraphMemory,
            texts,
            maybe() | st.tuples(counts, counts),
            counts,
            counts,
            counts,
            st.just((Extent(0, 0, 512),)),
            maybe() | st.integers(-(1 << 63), (1 << 63) - 1),
        )
    ),
)

environments = st.builds(
    Environment,
    gpu=st.builds(Gpu, texts, st.tuples(counts, counts), counts, counts),
    gpu_count=counts,
    driver=maybe() | texts,
    cuda_driver=texts,
    cuda_runtime=texts,
    cupti=maybe() | texts,
    torch=texts,
    cuda_bindings=texts,
    python=texts,
    cpu=texts,
    cpu_count=counts,
    os=texts,
)

recordings = st.builds(
    Recording,
    boundary_kind=maybe() | st.sampled_from(BoundaryKind),
    boundary=maybe() | texts,
    skip_steps=counts,
    requested_window_steps=counts,
    steps=counts,
    step_ns=_tuples(counts),
    final_wait_ns=maybe() | counts,
    window_steps=counts,
    window_missing_reason=maybe() | texts,
    profiler_active=st.booleans(),
    window_open_ns=maybe() | counts,
    window_close_ns=maybe() | counts,
    window_ended_by=maybe() | st.sampled_from(WindowEnd),
    cupti_attached=maybe() | texts,
    reached_end=maybe() | st.booleans(),
    earlier_replays=counts,
    graphs=st.lists(
        st.builds(
            RecordedGraph,
            graph=texts,
            captured_at=_tuples(texts),
            capture_ns=counts,
            step=counts,
            nodes=st.none(),
            replays=counts,
            window_replays=st.just(0),
            profiled=st.booleans(),
            alive=st.booleans(),
            problem=maybe() | texts,
        ),
        max_size=3,
        unique_by=lambda graph: graph.graph,
    ).map(tuple),
    exit_code=maybe() | st.integers(-64, 255),
)

manifests = st.builds(
    Manifest,
    format=st.just("graphviz-dash-run"),
    version=st.just(1),
    tool_version=texts,
    created=texts,
    command=_tuples(texts),
    workload=st.builds(
        WorkloadInfo,
        texts,
        texts,
        st.integers(-(1 << 63), (1 << 63) - 1),
        counts,
        counts,
        counts,
        st.dictionaries(
            texts, st.booleans() | counts | texts | st.floats(allow_nan=False, allow_infinity=False)
        ),
        maybe() | st.builds(StepWork, counts, maybe() | counts, texts, texts),
    ),
    mode=st.sampled_from(ExecutionMode),
    rank=maybe() | counts,
    status=st.sampled_from(["complete", "failed"]),
    failures=_tuples(
        st.builds(Failure, st.sampled_from(Pass), texts, texts, maybe() | texts, texts)
    ),
    absent=_tuples(st.builds(Absent, texts, texts)),
    environment=environments,
    files=st.just(()),
)

entries = st.builds(
    FileEntry,
    path=texts,
    role=st.sampled_from(FileRole),
    bytes=counts,
    sha256=st.text("0123456789abcdef", min_size=64, max_size=64),
)
