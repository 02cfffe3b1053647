"""Build the overview card of an experiment from its comparison, without Streamlit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.app.hosting.cards_client import KINDS, Card, CardMessage
from graphviz_dash.charts.shades import Theme
from graphviz_dash.errors import InputError, WorkerError
from graphviz_dash.ingest.identity import compute_identity
from graphviz_dash.ingest.load import load_experiment, load_without_graphs
from graphviz_dash.model.run import Experiment, Run
from graphviz_dash.narrative.experiment import describe_experiment
from graphviz_dash.ui.page.contents import find_empty_pages
from graphviz_dash.ui.page.markup import format_text
from graphviz_dash.ui.page.registry import PAGES
from graphviz_dash.ui.page.time_bars import format_placeholder_bars, format_time_bars
from graphviz_dash.ui.page.widgets import (
    format_changes,
    format_doctor_verdicts,
    format_failures,
    format_hero,
    format_incomplete_traces,
    format_uncompared,
)
from graphviz_dash.units import format_count, pluralize


def build_card(result: Comparison, experiment: Experiment, theme: Theme | None) -> Card:
    """Build the card of ``experiment``; ``theme`` is None while its traces are loading."""
    runs, best = experiment.runs, result.best
    manifest = result.runs[0].run.manifest
    gpu = manifest.environment.gpu_name.removeprefix("NVIDIA ")
    description = describe_experiment(experiment)
    location = " · ".join(filter(None, (gpu, manifest.recording_day)))
    outcome = (
        format_text("p", description, "about"),
        format_hero(best) if best else format_uncompared(result, reading=theme is None),
        format_failures(result),
        _format_import(runs),
        format_doctor_verdicts(result),
        format_incomplete_traces(run.run for run in result.runs),
    )
    return Card(
        location_markup=format_text("span", location, "where"),
        outcome_markup="".join(outcome),
        bars_markup=(
            format_placeholder_bars(result) if theme is None else format_time_bars(result, theme)
        ),
        facts_markup=format_changes(result, best, reading=theme is None),
        pages=_list_pages(runs),
        description=description,
        created=max(run.manifest.created for run in runs),
        speedup=result.gain,
        kinds=_list_kinds(runs),
    )


def _list_kinds(runs: Sequence[Run]) -> tuple[str, ...]:
    imported = any(run.manifest.sources for run in runs)
    recorded = any(run.mode.is_recorded for run in runs) and not imported
    matches = (
        not (imported or recorded),
        recorded,
        imported,
        any(run.manifest.failures for run in runs),
        any(run.manifest.job_rank is not None for run in runs),
    )
    return tuple(kind for kind, matches_kind in zip(KINDS, matches, strict=True) if matches_kind)


def _list_pages(runs: Sequence[Run]) -> tuple[str, ...]:
    empty = find_empty_pages(runs)
    names = [
        page.name for page in PAGES.values() if page.is_linked_from_cards and page.name not in empty
    ]
    # A page is reached from its first tab.
    parents = {PAGES[name].tab_of for name in names}
    return tuple(name for name in names if name not in parents)


def _format_import(runs: Sequence[Run]) -> str:
    """Format the sources of imported runs; empty if there are none."""
    imported = [run for run in runs if run.manifest.sources]
    if not imported:
        return ""
    kinds = Counter(source.kind for run in imported for source in run.manifest.sources)
    files = ", ".join(f"{count} × {kind}" for kind, count in kinds.items())
    nodes = sum(len(graph.nodes) for run in imported for graph in run.graphs)
    graphs = sum(graph.parent is None for run in imported for graph in run.graphs)
    rows = sum(run.replay_trace.gpu.height for run in imported if run.replay_trace)
    facts = [f"Imported from {files}"]
    if graphs:
        facts.append(f"{pluralize(graphs, 'graph')} with {pluralize(nodes, 'node')}")
    if rows:
        facts.append(f"{format_count(rows)} kernels, memcpy and memset on the GPU")
    return format_text("p", "; ".join(facts) + ".", "muted")


def build_card_message(path: Path, theme: Theme | None = None) -> CardMessage:
    """Build the card of the experiment at ``path``; without ``theme``, without its traces."""
    identity = compute_identity(path)
    try:
        if theme is not None:
            experiment = load_experiment(path)
        else:
            experiment = load_without_graphs(path)
            if any(run.manifest.sources for run in experiment.runs):
                # The card of an import shows its number of nodes.
                experiment = load_experiment(path, traces=False)
        card = build_card(compare_runs(experiment), experiment, theme)
    except (InputError, WorkerError):
        card = None  # the page reports the error, if it persists
    return CardMessage(str(path), identity, card, theme)
