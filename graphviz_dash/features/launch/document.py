"""Build the JSON of ``graphviz-dash launch``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

from graphviz_dash.analysis.sample_statistics import Spread, Summary
from graphviz_dash.exports.documents.values import Count, FilePath, Fraction, Ns, Ratio, Sentence
from graphviz_dash.features.launch.analysis.launch_comparison import LaunchComparison, PublishedTime
from graphviz_dash.features.launch.analysis.launch_costs import (
    ChainFamily,
    LaunchCosts,
    Timing,
    TopologyCosts,
)
from graphviz_dash.features.launch.analysis.launch_fit import AddedTime, GrowthFit
from graphviz_dash.features.launch.analysis.observer_effect import (
    MeasureEffect,
    ObserverEffect,
    compute_observer_effect,
)
from graphviz_dash.features.launch.analysis.own_graphs import (
    GraphShape,
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


class MedianDocument(TypedDict):
    """A median with its quartiles, in ns."""

    median: Ns
    p25: Ns
    p75: Ns | None
    samples: Count


class TimingDocument(MedianDocument):
    """A median with quartiles, minimum and outer percentiles, in ns."""

    min: Ns
    p5: Ns
    p95: Ns | None


class GrowthDocument(TypedDict):
    """Growth of a measure: ``base`` up to ``knee`` nodes, ``slope`` per additional node."""

    base: Ns
    base_interval: list[float | None]
    slope: Ns
    slope_interval: list[float | None]
    knee: Count
    knee_interval: list[float | None]


class AddedTimeDocument(TypedDict):
    """Time added by a root or by a node of another kind."""

    ns: Ns
    interval: list[float | None]


class TopologyDocument(TypedDict):
    """A synthetic graph and its measures."""

    width: Count
    length: Count
    single_root: bool
    other_kind: str | None
    nodes: Count
    measures: dict[str, TimingDocument]
    absent: dict[str, Sentence]


class RecordingDocument(TypedDict):
    """A recording of launch costs."""

    path: FilePath
    sentence: Sentence
    gpu: str
    driver: str | None
    created: str
    trials: Count
    complete: bool
    constant_time: bool | None
    process_trials: Count | None
    fits: dict[str, GrowthDocument]
    chain_fits: dict[str, dict[str, GrowthDocument]]
    root: AddedTimeDocument | None
    other_kinds: dict[str, AddedTimeDocument]
    call: MedianDocument | None
    clock: MedianDocument | None
    rows: list[TopologyDocument]


class LaunchDifferenceDocument(TypedDict):
    """A measure of one graph in several recordings, relative to the first."""

    width: Count
    length: Count
    single_root: bool
    other_kind: str | None
    measure: str
    medians: list[Ns]
    ratios: list[Ratio]
    largest_gap: Ns
    spread: Ns
    within_spread: bool


class LaunchComparisonDocument(TypedDict):
    """A comparison of several recordings."""

    sentence: Sentence
    differences: list[LaunchDifferenceDocument]


class PublishedTimeDocument(TypedDict):
    """A published time next to the medians of the recordings."""

    measure: str
    chains: Count
    length: Count
    toolkit_11_8: Ns | None
    toolkit_12_6: Ns | None
    source: str
    medians: dict[str, Ns | None]


class PublicationDocument(TypedDict):
    """Published launch times."""

    title: str
    address: str
    gpu: str
    cpu: str
    statements: list[Sentence]
    rows: list[PublishedTimeDocument]


class GraphShapeDocument(TypedDict):
    """The shape of a captured graph."""

    nodes: Count
    edges: Count
    kinds: dict[str, Count]
    roots: Count
    leaves: Count
    depth: Count
    width: Count
    linear_share: Fraction
    longest_chain: Count


class ExpectedTimeDocument(TypedDict):
    """Time of a chain of the graph's size in a reference recording."""

    reference: str
    ns: Ns
    with_roots: Ns | None
    measured_over_expected: Ratio
    within_measured_sizes: bool


class CapturedGraphDocument(TypedDict):
    """A captured graph of an experiment."""

    run: str
    graph: str
    name: str
    nodes: Count
    sentence: Sentence
    shape: GraphShapeDocument | None
    measures: dict[str, TimingDocument]
    absent: dict[str, Sentence]
    expected: dict[str, ExpectedTimeDocument] | None
    reason: Sentence | None


class MeasureEffectDocument(TypedDict):
    """A measure under an observer, relative to no observer."""

    median: Ns
    ratio: Ratio | None
    interval: list[float | None] | None
    beyond_noise: bool | None


class ObserverDocument(TypedDict):
    """The steps of a run under one observer."""

    observer: str
    source: str | None
    steps: Count
    records_per_step: float | None
    effects: dict[str, MeasureEffectDocument]
    absent: dict[str, Sentence]


class ObserversDocument(TypedDict):
    """Profiler overhead of a run, or only a ``reason`` if unavailable."""

    run: str
    reason: NotRequired[Sentence]
    sentence: NotRequired[Sentence]
    noise: NotRequired[dict[str, Ratio]]
    missing_observers: NotRequired[list[Sentence]]
    rows: NotRequired[list[ObserverDocument]]


class ExperimentLaunchDocument(TypedDict):
    """Captured graphs of an experiment, and the profiler overhead of its runs."""

    path: FilePath
    graphs: list[CapturedGraphDocument]
    observers: list[ObserversDocument]


class LaunchDocument(TypedDict):
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
    return {
        "recordings": [_build_recording(path, costs) for path, costs in recordings.items()],
        "comparison": None if comparison is None else _build_comparison(comparison),
        "published": None if publication is None else _build_publication(publication, rows),
        "experiments": [
            {
                "path": path,
                "graphs": [
                    _build_captured_graph(graph)
                    for graph in list_program_graphs(experiment, references)
                ],
                "observers": [_build_observers_of_run(run) for run in experiment.runs],
            }
            for path, experiment in experiments.items()
        ],
    }


def _build_observers_of_run(run: Run) -> ObserversDocument:
    effect = compute_observer_effect(run)
    if isinstance(effect, Missing):
        return {"run": run.name, "reason": effect.reason}
    return _build_observers(effect)


def _build_recording(path: str, costs: LaunchCosts) -> RecordingDocument:
    recording = costs.recording
    return {
        "path": path,
        "sentence": describe_launch_costs(costs),
        "gpu": recording.environment.gpu_name,
        "driver": recording.environment.driver,
        "created": recording.created,
        "trials": recording.trials,
        "complete": recording.complete,
        "constant_time": costs.is_constant,
        "process_trials": recording.process_trials,
        "fits": _build_fits(costs.lines),
        "chain_fits": {
            _format_family_key(family): _build_fits(fits) for family, fits in costs.chains.items()
        },
        "root": _build_added_time(costs.root) if costs.root is not None else None,
        "other_kinds": {kind: _build_added_time(extra) for kind, extra in costs.others.items()},
        "call": None if costs.call is None else _build_median(costs.call),
        "clock": None if costs.clock is None else _build_median(costs.clock),
        "rows": [_build_topology(row) for row in costs.rows],
    }


def _format_family_key(family: ChainFamily) -> str:
    return f"{family.width} chains, {'one root' if family.single_root else 'a root each'}"


def _build_topology(row: TopologyCosts) -> TopologyDocument:
    topology = row.topology
    return {
        "width": topology.width,
        "length": topology.length,
        "single_root": topology.single_root,
        "other_kind": topology.other,
        "nodes": topology.nodes,
        "measures": {
            measure.value: _build_timing(timing) for measure, timing in row.timings.items()
        },
        "absent": {measure.value: reason for measure, reason in row.absent.items()},
    }


def _build_median(summary: Summary) -> MedianDocument:
    spread = summary.spread
    return {
        "median": summary.median,
        "p25": spread.low,
        "p75": spread.high,
        "samples": spread.samples,
    }


def _build_added_time(extra: AddedTime) -> AddedTimeDocument:
    return {"ns": extra.ns, "interval": _list_ends(extra.interval)}


def _list_ends(spread: Spread) -> list[float | None]:
    return [spread.low, spread.high]


def _build_fits(fits: Mapping[LaunchMeasure, GrowthFit]) -> dict[str, GrowthDocument]:
    return {
        measure.value: {
            "base": fit.base_ns,
            "base_interval": _list_ends(fit.base_interval),
            "slope": fit.slope_ns,
            "slope_interval": _list_ends(fit.slope_interval),
            "knee": fit.knee,
            "knee_interval": _list_ends(fit.knee_interval),
        }
        for measure, fit in fits.items()
    }


def _build_timing(timing: Timing) -> TimingDocument:
    return {
        **_build_median(timing.summary),
        "min": timing.minimum,
        "p5": timing.spread.low,
        "p95": timing.spread.high,
    }


def _build_comparison(comparison: LaunchComparison) -> LaunchComparisonDocument:
    return {
        "sentence": describe_launch_comparison(comparison),
        "differences": [
            {
                "width": difference.topology.width,
                "length": difference.topology.length,
                "single_root": difference.topology.single_root,
                "other_kind": difference.topology.other,
                "measure": difference.measure.value,
                "medians": list(difference.medians),
                "ratios": list(difference.ratios),
                "largest_gap": difference.largest_gap,
                "spread": difference.spread,
                "within_spread": difference.is_within_spread,
            }
            for difference in comparison.differences
        ],
    }


def _build_publication(
    publication: PublishedLaunch, rows: Sequence[PublishedTime]
) -> PublicationDocument:
    return {
        "title": publication.title,
        "address": publication.address,
        "gpu": publication.gpu,
        "cpu": publication.cpu,
        "statements": list(publication.statements),
        "rows": [
            {
                "measure": row.measure.value,
                "chains": row.chains,
                "length": row.length,
                "toolkit_11_8": row.older_ns,
                "toolkit_12_6": row.newer_ns,
                "source": row.source,
                "medians": dict(row.medians),
            }
            for row in rows
        ],
    }


def _build_captured_graph(graph: ProgramGraph) -> CapturedGraphDocument:
    return {
        "run": graph.run,
        "graph": graph.graph,
        "name": graph.name,
        "nodes": graph.nodes,
        "sentence": describe_own_graph(graph),
        "shape": None if graph.shape is None else _build_shape(graph.shape),
        "measures": {
            measure.value: _build_timing(timing) for measure, timing in graph.timings.items()
        },
        "absent": {measure.value: reason for measure, reason in graph.absent.items()},
        "expected": None
        if isinstance(graph.chain_times, Missing)
        else {
            measure.value: {
                "reference": expected.reference,
                "ns": expected.ns,
                "with_roots": expected.with_roots,
                "measured_over_expected": expected.ratio,
                "within_measured_sizes": expected.is_in_range,
            }
            for measure, expected in graph.chain_times.items()
        },
        "reason": graph.chain_times.reason if isinstance(graph.chain_times, Missing) else None,
    }


def _build_shape(shape: GraphShape) -> GraphShapeDocument:
    return {
        "nodes": shape.nodes,
        "edges": shape.edges,
        "kinds": {kind.value: count for kind, count in shape.kinds.items()},
        "roots": shape.roots,
        "leaves": shape.leaves,
        "depth": shape.depth,
        "width": shape.width,
        "linear_share": shape.chained_share,
        "longest_chain": shape.longest_chain,
    }


def _build_observers(effect: ObserverEffect) -> ObserversDocument:
    return {
        "run": effect.run,
        "sentence": describe_observer_effect(effect),
        "noise": {measure.value: ratio for measure, ratio in effect.noise.items()},
        "missing_observers": list(list_missing_observers(effect)),
        "rows": [
            {
                "observer": row.observer.value,
                "source": row.source,
                "steps": row.steps,
                "records_per_step": row.records,
                "effects": {
                    name: _build_effect(effect_of_row)
                    for name, effect_of_row in row.effects.items()
                },
                "absent": {measure.value: reason for measure, reason in row.absent.items()},
            }
            for row in effect.rows
        ],
    }


def _build_effect(effect: MeasureEffect) -> MeasureEffectDocument:
    return {
        "median": effect.value,
        "ratio": effect.ratio,
        "interval": None if effect.interval is None else _list_ends(effect.interval),
        "beyond_noise": effect.is_significant,
    }
