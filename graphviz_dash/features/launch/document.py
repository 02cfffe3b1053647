"""JSON of ``graphviz-dash launch``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import UNSET, UnsetType, field

from graphviz_dash.analysis.sample_statistics import Spread, Summary
from graphviz_dash.exports.documents.values import (
    Count,
    Document,
    FilePath,
    Fraction,
    Ns,
    Ratio,
    Sentence,
    build,
)
from graphviz_dash.features.launch.analysis.launch_comparison import LaunchComparison, PublishedTime
from graphviz_dash.features.launch.analysis.launch_costs import (
    ChainFamily,
    LaunchCosts,
    Timing,
)
from graphviz_dash.features.launch.analysis.launch_fit import AddedTime, GrowthFit
from graphviz_dash.features.launch.analysis.observer_effect import (
    MeasureEffect,
    compute_observer_effect,
)
from graphviz_dash.features.launch.analysis.own_graphs import (
    ProgramGraph,
    list_program_graphs,
)
from graphviz_dash.features.launch.narrative import (
    describe_launch_comparison,
    describe_launch_costs,
    describe_own_graph,
)
from graphviz_dash.features.launch.observer_narrative import (
    describe_observer_effect,
    list_missing_observers,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.launch import LaunchMeasure, PublishedLaunch
from graphviz_dash.model.run import Experiment, Run


class MedianDocument(Document, frozen=True):
    """A median with its quartiles, in ns."""

    median: Ns
    low: Ns = field(name="p25")
    high: Ns | None = field(name="p75")
    samples: Count


class TimingDocument(MedianDocument, frozen=True):
    """A median with quartiles, minimum and outer percentiles, in ns."""

    minimum: Ns = field(name="min")
    p5: Ns
    p95: Ns | None


class GrowthDocument(Document, frozen=True):
    """Growth of a measure: ``base`` up to ``knee`` nodes, ``slope`` per additional node."""

    base_ns: Ns = field(name="base")
    base_interval: list[float | None]
    slope_ns: Ns = field(name="slope")
    slope_interval: list[float | None]
    knee: Count
    knee_interval: list[float | None]


class AddedTimeDocument(Document, frozen=True):
    """Time added by a root or by a node of another kind."""

    ns: Ns
    interval: list[float | None]


class TopologyDocument(Document, frozen=True):
    """A synthetic graph and its measures."""

    width: Count
    length: Count
    single_root: bool
    middle_node: str | None = field(name="other_kind")
    nodes: Count
    measures: dict[str, TimingDocument]
    absent: dict[str, Sentence]


class RecordingDocument(Document, frozen=True):
    """A recording of launch costs."""

    path: FilePath
    sentence: Sentence
    gpu: str
    driver: str | None
    created: str
    trials: Count
    complete: bool
    is_constant: bool | None = field(name="constant_time")
    process_trials: Count | None
    fits: dict[str, GrowthDocument]
    chain_fits: dict[str, dict[str, GrowthDocument]]
    root: AddedTimeDocument | None
    other_kinds: dict[str, AddedTimeDocument]
    call: MedianDocument | None
    clock: MedianDocument | None
    rows: list[TopologyDocument]


class LaunchDifferenceDocument(Document, frozen=True):
    """A measure of one graph in several recordings, relative to the first."""

    width: Count
    length: Count
    single_root: bool
    middle_node: str | None = field(name="other_kind")
    measure: str
    medians: list[Ns]
    ratios: list[Ratio]
    largest_gap: Ns
    spread: Ns
    is_within_spread: bool = field(name="within_spread")


class LaunchComparisonDocument(Document, frozen=True):
    """A comparison of several recordings."""

    sentence: Sentence
    differences: list[LaunchDifferenceDocument]


class PublishedTimeDocument(Document, frozen=True):
    """A published time next to the medians of the recordings."""

    measure: str
    chains: Count
    length: Count
    older_ns: Ns | None = field(name="toolkit_11_8")
    newer_ns: Ns | None = field(name="toolkit_12_6")
    source: str
    medians: dict[str, Ns | None]


class PublicationDocument(Document, frozen=True):
    """Published launch times."""

    title: str
    address: str
    gpu: str
    cpu: str
    statements: list[Sentence]
    rows: list[PublishedTimeDocument]


class GraphShapeDocument(Document, frozen=True):
    """The shape of a captured graph."""

    nodes: Count
    edges: Count
    kinds: dict[str, Count]
    roots: Count
    leaves: Count
    depth: Count
    width: Count
    chained_share: Fraction = field(name="linear_share")
    longest_chain: Count


class ExpectedTimeDocument(Document, frozen=True):
    """Time of a chain of the graph's size in a reference recording."""

    reference: str
    ns: Ns
    with_roots: Ns | None
    ratio: Ratio = field(name="measured_over_expected")
    is_in_range: bool = field(name="within_measured_sizes")


class CapturedGraphDocument(Document, frozen=True):
    """A captured graph of an experiment."""

    run: str
    graph: str
    name: str
    nodes: Count
    sentence: Sentence
    shape: GraphShapeDocument | None
    measures: dict[str, TimingDocument]
    absent: dict[str, Sentence]
    chain_times: dict[str, ExpectedTimeDocument] | None = field(name="expected")
    chain_times_reason: Sentence | None = field(name="reason")


class MeasureEffectDocument(Document, frozen=True):
    """A measure under an observer, relative to no observer."""

    value: Ns = field(name="median")
    ratio: Ratio | None
    interval: list[float | None] | None
    is_significant: bool | None = field(name="beyond_noise")


class ObserverDocument(Document, frozen=True):
    """The steps of a run under one observer."""

    observer: str
    source: str | None
    steps: Count
    records: float | None = field(name="records_per_step")
    effects: dict[str, MeasureEffectDocument]
    absent: dict[str, Sentence]


class ObserversDocument(Document, frozen=True):
    """Profiler overhead of a run, or only a ``reason`` if unavailable."""

    run: str
    reason: Sentence | UnsetType = UNSET
    sentence: Sentence | UnsetType = UNSET
    noise: dict[str, Ratio] | UnsetType = UNSET
    missing_observers: list[Sentence] | UnsetType = UNSET
    rows: list[ObserverDocument] | UnsetType = UNSET


class ExperimentLaunchDocument(Document, frozen=True):
    """Captured graphs of an experiment, and the profiler overhead of its runs."""

    path: FilePath
    graphs: list[CapturedGraphDocument]
    observers: list[ObserversDocument]


class LaunchDocument(Document, frozen=True):
    """Launch costs of graphs."""

    recordings: list[RecordingDocument]
    comparison: LaunchComparisonDocument | None
    published: PublicationDocument | None
    experiments: list[ExperimentLaunchDocument]


def build_launch_document(
    recordings: Mapping[str, LaunchCosts],
    comparison: LaunchComparison | None,
    experiments: Mapping[str, Experiment],
    references: Mapping[str, LaunchCosts],
    publication: PublishedLaunch | None,
    rows: Sequence[PublishedTime],
) -> LaunchDocument:
    """Build the document of recordings, their comparison, published times and captured graphs."""
    return build(
        LaunchDocument,
        recordings=[_build_recording(path, costs) for path, costs in recordings.items()],
        comparison=comparison and _build_comparison(comparison),
        published=publication and build(PublicationDocument, publication, rows=rows),
        experiments=[
            ExperimentLaunchDocument(
                path=path,
                graphs=[
                    _build_captured_graph(graph)
                    for graph in list_program_graphs(experiment, references)
                ],
                observers=[_build_observers(run) for run in experiment.runs],
            )
            for path, experiment in experiments.items()
        ],
    )


def _build_recording(path: str, costs: LaunchCosts) -> RecordingDocument:
    recording = costs.recording
    return build(
        RecordingDocument,
        recording,
        costs,
        path=path,
        sentence=describe_launch_costs(costs),
        gpu=recording.environment.gpu_name,
        driver=recording.environment.driver,
        fits=_build_fits(costs.lines),
        chain_fits={
            _format_family_key(family): _build_fits(fits) for family, fits in costs.chains.items()
        },
        root=costs.root and _build_added_time(costs.root),
        other_kinds={kind: _build_added_time(extra) for kind, extra in costs.others.items()},
        call=costs.call and _build_median(costs.call),
        clock=costs.clock and _build_median(costs.clock),
        rows=[
            build(TopologyDocument, row.topology, row, measures=_build_timings(row.timings))
            for row in costs.rows
        ],
    )


def _format_family_key(family: ChainFamily) -> str:
    return f"{family.width} chains, {'one root' if family.single_root else 'a root each'}"


def _build_median(summary: Summary) -> MedianDocument:
    return build(MedianDocument, summary, summary.spread)


def _build_added_time(extra: AddedTime) -> AddedTimeDocument:
    return build(AddedTimeDocument, extra, interval=_list_ends(extra.interval))


def _list_ends(spread: Spread) -> list[float | None]:
    return [spread.low, spread.high]


def _build_fits(fits: Mapping[LaunchMeasure, GrowthFit]) -> dict[LaunchMeasure, GrowthDocument]:
    return {
        measure: build(
            GrowthDocument,
            fit,
            base_interval=_list_ends(fit.base_interval),
            slope_interval=_list_ends(fit.slope_interval),
            knee_interval=_list_ends(fit.knee_interval),
        )
        for measure, fit in fits.items()
    }


def _build_timings(
    timings: Mapping[LaunchMeasure, Timing],
) -> dict[LaunchMeasure, TimingDocument]:
    return {
        measure: build(
            TimingDocument,
            timing.summary,
            timing.summary.spread,
            timing,
            p5=timing.spread.low,
            p95=timing.spread.high,
        )
        for measure, timing in timings.items()
    }


def _build_comparison(comparison: LaunchComparison) -> LaunchComparisonDocument:
    return LaunchComparisonDocument(
        sentence=describe_launch_comparison(comparison),
        differences=[
            build(LaunchDifferenceDocument, row, row.topology) for row in comparison.differences
        ],
    )


def _build_captured_graph(graph: ProgramGraph) -> CapturedGraphDocument:
    return build(
        CapturedGraphDocument,
        graph,
        sentence=describe_own_graph(graph),
        measures=_build_timings(graph.timings),
    )


def _build_observers(run: Run) -> ObserversDocument:
    effect = compute_observer_effect(run)
    if isinstance(effect, Missing):
        return ObserversDocument(run=run.name, reason=effect.reason)
    return build(
        ObserversDocument,
        effect,
        sentence=describe_observer_effect(effect),
        missing_observers=list_missing_observers(effect),
        rows=[
            build(
                ObserverDocument,
                row,
                effects={name: _build_effect(change) for name, change in row.effects.items()},
            )
            for row in effect.rows
        ],
    )


def _build_effect(effect: MeasureEffect) -> MeasureEffectDocument:
    return build(
        MeasureEffectDocument, effect, interval=effect.interval and _list_ends(effect.interval)
    )
