"""Build the JSON of a folder of experiments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.app.compare.documents.run import IdentityDocument, build_identity_document
from graphviz_dash.exports.documents.figures import FigureDocument, build_figures_document
from graphviz_dash.exports.documents.values import FilePath, Sentence, display_path

UnreadableBundles = Sequence[tuple[Path, str]]
"""Unreadable bundles, each with its error."""


class ListedRunDocument(IdentityDocument):
    """A run with its step time and speedup.

    ``replays_match`` is false if its replays compute something else than the step.
    """

    replays_match: bool
    metrics: dict[str, FigureDocument]


class UnreadableBundleDocument(TypedDict):
    """A bundle that cannot be read."""

    path: FilePath
    error: Sentence


class ListedExperimentDocument(TypedDict):
    """An experiment with its runs."""

    name: str
    path: FilePath
    baseline: str | None
    runs: list[ListedRunDocument]
    unreadable: list[UnreadableBundleDocument]


class ListingDocument(TypedDict):
    """The experiments under a folder."""

    experiments: list[ListedExperimentDocument]


def build_listing_document(
    listed: Sequence[tuple[Comparison, UnreadableBundles]],
) -> ListingDocument:
    """Build the document of experiments that were compared without their traces."""
    return {"experiments": [_build_experiment_document(*experiment) for experiment in listed]}


def _build_experiment_document(
    comparison: Comparison, unreadable: UnreadableBundles
) -> ListedExperimentDocument:
    return {
        "name": comparison.experiment.name,
        "path": display_path(comparison.experiment.path),
        "baseline": comparison.baseline,
        "runs": [
            {
                **build_identity_document(run.run),
                "replays_match": run.replays_match,
                "metrics": build_figures_document((run.step, run.speedup)),
            }
            for run in comparison.runs
        ],
        "unreadable": [
            {"path": display_path(bundle), "error": error} for bundle, error in unreadable
        ],
    }
