"""The JSON document of ``graphviz-dash launch``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphviz_dash.analysis.launch.launch_comparison import LaunchComparison, PublishedTime
from graphviz_dash.analysis.launch.launch_costs import (
    ChainFamily,
    LaunchCosts,
    Timing,
    TopologyCosts,
)
from graphviz_dash.analysis.launch.launch_fit import AddedTime, GrowthFit
from graphviz_dash.analysis.launch.observer_effect import (
    MeasureEffect,
    ObserverEffect,
    observer_effect,
)
from graphviz_dash.analysis.launch.own_graphs import GraphShape, OwnGraph, own_graphs
from graphviz_dash.analysis.sample_statistics import Spread, Summary
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.launch import LaunchMeasure, PublishedLaunch
from graphviz_dash.model.run import Experiment
from graphviz_dash.narrative.launch import (
    comparison_sentence,
    costs_sentence,
    own_graph_sentence,
)
from graphviz_dash.narrative.observers import effect_sentence, missing_observers


def launch_document(
    recordings: Mapping[str, LaunchCosts],
    comparison: LaunchComparison | None,
    experiments: Mapping[str, Experiment],
    references: Mapping[str, LaunchCosts],
    publication: PublishedLaunch | None,
    rows: Sequence[PublishedTime],
) -> dict[str, object]:
    """The document, whose fields docs/cli.md tells."""
    return {
        "recordings": [{"path": path, **_recording(costs)} for path, costs in recordings.items()],
        "comparison": None if comparison is None else _comparison(comparison),
        "published": None if publication is None else _published(publication, rows),
        "experiments": [
            {
                "path": path,
                "graphs": [_own(own) for own in own_graphs(experiment, references)],
                "observers": [
                    {"run": run.name, "reason": effect.reason}
                    if isinstance(effect := observer_effect(run), Missing)
                    else _observers(effect)
                    for run in experiment.runs
                ],
            }
            for path, experiment in experiments.items()
        ],
    }


def _recording(costs: LaunchCosts) -> dict[str, object]:
    recording = costs.recording
    return {
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
        "root": _extra_document(costs.root) if costs.root is not None else None,
        "others": {kind: _extra_document(extra) for kind, extra in costs.others.items()},
        "call": _summary(costs.call),
        "clock": _summary(costs.clock),
        "rows": [_row_document(row) for row in costs.rows],
    }


def _family_key(family: ChainFamily) -> str:
    return f"{family.width} chains, {'one root' if family.single_root else 'a root each'}"


def _row_document(row: TopologyCosts) -> dict[str, object]:
    topology = row.topology
    return {
        "width": topology.width,
        "length": topology.length,
        "single_root": topology.single_root,
        "other": topology.other,
        "nodes": topology.nodes,
        "measures": {measure.value: _timing(timing) for measure, timing in row.timings.items()},
        "absent": {measure.value: reason for measure, reason in row.absent.items()},
    }


def _summary(summary: Summary | None) -> dict[str, object] | None:
    if summary is None:
        return None
    spread = summary.spread
    return {
        "median": summary.median,
        "p25": spread.low,
        "p75": spread.high,
        "samples": spread.samples,
    }


def _extra_document(extra: AddedTime) -> dict[str, object]:
    return {"ns": extra.ns, "interval": _ends(extra.interval)}


def _ends(spread: Spread) -> list[float | None]:
    return [spread.low, spread.high]


def _fits(fits: Mapping[LaunchMeasure, GrowthFit]) -> dict[str, object]:
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


def _timing(timing: Timing) -> dict[str, object]:
    return {
        **(_summary(timing.summary) or {}),
        "min": timing.shortest,
        "p5": timing.spread.low,
        "p95": timing.spread.high,
    }


def _comparison(comparison: LaunchComparison) -> dict[str, object]:
    return {
        "sentence": comparison_sentence(comparison),
        "differences": [
            {
                "width": difference.topology.width,
                "length": difference.topology.length,
                "single_root": difference.topology.single_root,
                "other": difference.topology.other,
                "measure": difference.measure.value,
                "medians": difference.medians,
                "ratios": difference.ratios,
                "apart": difference.largest_gap,
                "spread": difference.spread,
                "within": difference.within,
            }
            for difference in comparison.differences
        ],
    }


def _published(publication: PublishedLaunch, rows: Sequence[PublishedTime]) -> dict[str, object]:
    return {
        "title": publication.title,
        "address": publication.address,
        "gpu": publication.gpu,
        "cpu": publication.cpu,
        "statements": publication.statements,
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


def _own(own: OwnGraph) -> dict[str, object]:
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


def _shape(shape: GraphShape) -> dict[str, object]:
    return {
        "nodes": shape.nodes,
        "edges": shape.edges,
        "kinds": {kind.value: count for kind, count in shape.kinds.items()},
        "roots": shape.roots,
        "leaves": shape.leaves,
        "depth": shape.depth,
        "width": shape.width,
        "straight_share": shape.share,
        "longest_line": shape.longest,
    }


def _observers(effect: ObserverEffect) -> dict[str, object]:
    return {
        "run": effect.run,
        "sentence": effect_sentence(effect),
        "noise": effect.noise,
        "without": missing_observers(effect),
        "rows": [
            {
                "observer": row.observer.value,
                "source": row.source,
                "steps": row.steps,
                "records_a_step": row.records,
                "effects": {
                    name: _effect(effect_of_row) for name, effect_of_row in row.effects.items()
                },
                "absent": row.absent,
            }
            for row in effect.rows
        ],
    }


def _effect(effect: MeasureEffect) -> dict[str, object]:
    return {
        "median": effect.value,
        "ratio": effect.ratio,
        "interval": None if effect.interval is None else _ends(effect.interval),
        "beyond_noise": effect.beyond,
    }
