"""A folder of experiments as JSON: what each run is, its step time and speedup."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.exports.documents.figures import figures_document
from graphviz_dash.exports.documents.run import identity_document
from graphviz_dash.exports.documents.values import shown

UnreadableBundles = Sequence[tuple[Path, str]]
"""Bundles that cannot be read, each with the error."""


def listing_document(
    listed: Sequence[tuple[Comparison, UnreadableBundles]],
) -> dict[str, object]:
    """The experiments of a folder, compared without their traces."""
    return {"experiments": [_experiment_document(*experiment) for experiment in listed]}


def _experiment_document(
    comparison: Comparison, unreadable: UnreadableBundles
) -> dict[str, object]:
    return {
        "name": comparison.experiment.name,
        "path": shown(comparison.experiment.path),
        "baseline": comparison.baseline,
        "runs": [
            {
                **identity_document(run.run),
                "sound": run.replays_match,
                "figures": figures_document((run.step, run.speedup)),
            }
            for run in comparison.runs
        ],
        "unreadable": [{"path": shown(bundle), "error": error} for bundle, error in unreadable],
    }
