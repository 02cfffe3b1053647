"""JSON of a folder of experiments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.app.compare.documents.run import IdentityDocument, build_run
from graphviz_dash.exports.documents.figures import FigureDocument, build_figures_document
from graphviz_dash.exports.documents.values import (
    Document,
    FilePath,
    Sentence,
    build,
    display_path,
)

UnreadableBundles = Sequence[tuple[Path, str]]
"""Unreadable bundles, each with its error."""


class ListedRunDocument(IdentityDocument, frozen=True):
    """A run with its step time and speedup.

    ``replays_match`` is false if its replays compute something else than the step.
    """

    replays_match: bool
    metrics: dict[str, FigureDocument]


class UnreadableBundleDocument(Document, frozen=True):
    """A bundle that cannot be read."""

    path: FilePath
    error: Sentence


class ListedExperimentDocument(Document, frozen=True):
    """An experiment with its runs."""

    name: str
    path: FilePath
    baseline: str | None
    runs: list[ListedRunDocument]
    unreadable: list[UnreadableBundleDocument]


class ListingDocument(Document, frozen=True):
    """The experiments under a folder."""

    experiments: list[ListedExperimentDocument]


def build_listing_document(
    listed: Sequence[tuple[Comparison, UnreadableBundles]],
) -> ListingDocument:
    """Build the document of experiments that were compared without their traces."""
    return ListingDocument(experiments=[_build_experiment_document(*row) for row in listed])


def _build_experiment_document(
    comparison: Comparison, unreadable: UnreadableBundles
) -> ListedExperimentDocument:
    return build(
        ListedExperimentDocument,
        comparison,
        name=comparison.experiment.name,
        path=display_path(comparison.experiment.path),
        runs=[
            build_run(
                ListedRunDocument,
                run.run,
                run,
                metrics=build_figures_document((run.step, run.speedup)),
            )
            for run in comparison.runs
        ],
        unreadable=[
            UnreadableBundleDocument(path=display_path(bundle), error=error)
            for bundle, error in unreadable
        ],
    )
