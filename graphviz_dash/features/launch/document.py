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
    observer_effect,
)
from graphviz_dash.features.launch.analysis.own_graphs import GraphShape, OwnGraph, own_graphs
from graphviz_dash.features.launch.narrative import (
    comparison_sentence,
    costs_sentence,
    own_graph_sentence,
)
from graphviz_dash.features.launch.observer_narrative import effect_sentence, missing_observers
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


class OwnGraphDocument(TypedDict):
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
    graphs: list[OwnGraphDocument]
    observers: list[ObserversDocument]


class LaunchDocument(TypedDict):
    """Launch costs of graphs."""

    recordings: list[RecordingDocument]
    comparison: LaunchComparisonDocument | None
    published: PublicationDocument | None
    experiments: list[ExperimentLaunchDocument]


def launch_document(
    recordings: Mapping[str, LaunchCosts],
    comparison: LaunchComparison | None,
    experiments: Mapping[str, Experiment],
    references: Mapping[str, LaunchCosts],
    publication: PublishedLaunch | None,
    rows: Sequence[PublishedTime],
) -> LaunchDocument:
    """Build the document of recordings, their comparison, published times and captured graphs."""
    return {
        "recordings": [_recording(path, costs) for path, costs in recordings.items()],
        "comparison": None if comparison is None else _comparison(comparison),
        "published": None if publication is None else _published(publication, rows),
        "experiments": [
            {
                "path": path,
                "graphs": [_own(graph) for graph in own_graphs(experiment, references)],
                "observers": [_observed(run) for run in experiment.runs],
            }
            for path, experiment in experiments.items()
        ],
    }


def _observed(run: Run) -> ObserversDocument:
    effect = observer_effect(run)
    if isinstance(effect, Missing):
        return {"run": run.name, "reason": effect.reason}
    return _observers(effect)


def _recording(path: str, costs: LaunchCosts) -> RecordingDocument:
    recording = costs.recording
    return {
        "path": path,
        "sentence": costs_sentence(costs),
        "gpu": recording.environment.gpu_name,
        "driver": recording.environment.driver,
        "created": recording.created,
        "trials": recording.trials,
        "complete": recording.complete,
        "constant_time": costs.constant,
        "process_trials": recording.process_trials,
        "fits": _fits(costs.lines),
        "chain_fits": {_family_key(family): _fits(fits) for family, fits in costs.chains.items()},
        "root": _added_time(costs.root) if costs.root is not None else None,
        "other_kinds": {kind: _added_time(extra) for kind, extra in costs.others.items()},
        "call": None if costs.call is None else _median(costs.call),
        "clock": None if costs.clock is None else _median(costs.clock),
        "rows": [_topology(row) for row in costs.rows],
    }


def _family_key(family: ChainFamily) -> str:
    return f"{family.width} chains, {'one root' if family.single_root else 'a root each'}"


def _topology(row: TopologyCosts) -> TopologyDocument:
    topology = row.topology
    return {
        "width": topology.width,
        "length": topology.length,
        "single_root": topology.single_root,
        "other_kind": topology.other,
        "nodes": topology.nodes,
        "measures": {measure.value: _timing(timing) for measure, timing in row.timings.items()},
        "absent": {measure.value: reason for measure, reason in row.absent.items()},
    }


def _median(summary: Summary) -> MedianDocument:
    spread = summary.spread
    return {
        "median": summary.median,
        "p25": spread.low,
        "p75": spread.high,
        "samples": spread.samples,
    }


def _added_time(extra: AddedTime) -> AddedTimeDocument:
    return {"ns": extra.ns, "interval": _ends(extra.interval)}


def _ends(spread: Spread) -> list[float | None]:
    return [spread.low, spread.high]


def _fits(fits: Mapping[LaunchMeasure, GrowthFit]) -> dict[str, GrowthDocument]:
    return {
        measure.value: {
            "base": fit.base_ns,
            "base_interval": _ends(fit.base_interval),
            "slope": fit.slope_ns,
            "slope_interval": _ends(fit.slope_interval),
            "knee": fit.knee,
            "knee_interval": _ends(fit.knee_interval),
        }
        for measure, fit in fits.items()
    }


def _timing(timing: Timing) -> TimingDocument:
    return {
        **_median(timing.summary),
        "min": timing.shortest,
        "p5": timing.spread.low,
        "p95": timing.spread.high,
    }


def _comparison(comparison: LaunchComparison) -> LaunchComparisonDocument:
    return {
        "sentence": comparison_sentence(comparison),
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
                "within_spread": difference.within,
            }
            for difference in comparison.differences
        ],
    }


def _published(publication: PublishedLaunch, rows: Sequence[PublishedTime]) -> PublicationDocument:
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
                "toolkit_11_8": row.before,
                "toolkit_12_6": row.after,
                "source": row.source,
                "medians": dict(row.medians),
            }
            for row in rows
        ],
    }


def _own(own: OwnGraph) -> OwnGraphDocument:
    return {
        "run": own.run,
        "graph": own.graph,
        "name": own.name,
        "nodes": own.nodes,
        "sentence": own_graph_sentence(own),
        "shape": None if own.shape is None else _shape(own.shape),
        "measures": {measure.value: _timing(timing) for measure, timing in own.timings.items()},
        "absent": {measure.value: reason for measure, reason in own.absent.items()},
        "expected": None
        if isinstance(own.expected, Missing)
        else {
            measure.value: {
                "reference": expected.reference,
                "ns": expected.ns,
                "with_roots": expected.with_roots,
                "measured_over_expected": expected.measured,
                "within_measured_sizes": expected.within,
            }
            for measure, expected in own.expected.items()
        },
        "reason": own.expected.reason if isinstance(own.expected, Missing) else None,
    }


def _shape(shape: GraphShape) -> GraphShapeDocument:
    return {
        "nodes": shape.nodes,
        "edges": shape.edges,
        "kinds": {kind.value: count for kind, count in shape.kinds.items()},
        "roots": shape.roots,
        "leaves": shape.leaves,
        "depth": shape.depth,
        "width": shape.width,
        "linear_share": shape.share,
        "longest_chain": shape.longest,
    }


def _observers(effect: ObserverEffect) -> ObserversDocument:
    return {
        "run": effect.run,
        "sentence": effect_sentence(effect),
        "noise": {measure.value: ratio for measure, ratio in effect.noise.items()},
        "missing_observers": list(missing_observers(effect)),
        "rows": [
            {
                "observer": row.observer.value,
                "source": row.source,
                "steps": row.steps,
                "records_per_step": row.records,
                "effects": {
                    name: _effect(effect_of_row) for name, effect_of_row in row.effects.items()
                },
                "absent": {measure.value: reason for measure, reason in row.absent.items()},
            }
            for row in effect.rows
        ],
    }


def _effect(effect: MeasureEffect) -> MeasureEffectDocument:
    return {
        "median": effect.value,
        "ratio": effect.ratio,
        "interval": None if effect.interval is None else _ends(effect.interval),
        "beyond_noise": effect.beyond,
    }
