"""Build the overview card of an experiment from its comparison, without Streamlit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from graphviz_dash.analysis.comparison.compare import compare
from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.app.hosting.cards_client import KINDS, Card, CardMessage
from graphviz_dash.charts.shades import Theme
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.load import load_experiment, load_without_graphs
from graphviz_dash.model.run import Experiment, Run
from graphviz_dash.narrative.experiment import about
from graphviz_dash.ui.page.contents import empty_pages
from graphviz_dash.ui.page.markup import element, text
from graphviz_dash.ui.page.registry import PAGES
from graphviz_dash.ui.page.time_bars import time_bars, waiting_bars
from graphviz_dash.ui.page.widgets import (
    doctor_notes,
    failure_notes,
    hero,
    incomplete_notes,
    uncompared,
    why,
)
from graphviz_dash.ui.state.identity import identity_of
from graphviz_dash.units import counted, format_count


def card_of(result: Comparison, experiment: Experiment, theme: Theme | None) -> Card:
    """Build the card of ``experiment``; ``theme`` is None while its traces are loading."""
    runs, best = experiment.runs, result.best
    manifest = result.runs[0].run.manifest
    location = f"{manifest.environment.gpu_name} · {manifest.measured[:10]}"
    facts = (
        hero(best) if best else uncompared(result, reading=theme is None),
        failure_notes(result),
        _imported(runs),
        doctor_notes(result),
        incomplete_notes(run.run for run in result.runs),
        waiting_bars(result) if theme is None else time_bars(result, theme),
        why(result, best, reading=theme is None),
    )
    description = about(experiment)
    return Card(
        where=element("span", text(location), "where"),
        facts=element("p", text(description), "about") + "".join(facts),
        pages=_pages(runs),
        about=description,
        created=max(run.manifest.created for run in runs),
        speedup=result.gain,
        kinds=_kinds(runs),
    )


def _kinds(runs: Sequence[Run]) -> tuple[str, ...]:
    imported = any(run.manifest.sources for run in runs)
    recorded = any(run.mode.is_recorded for run in runs) and not imported
    matches = (
        not (imported or recorded),
        recorded,
        imported,
        any(run.manifest.failures for run in runs),
        any(run.manifest.rank_of_several is not None for run in runs),
    )
    return tuple(kind for kind, is_one in zip(KINDS, matches, strict=True) if is_one)


def _pages(runs: Sequence[Run]) -> tuple[str, ...]:
    empty = empty_pages(runs)
    return tuple(
        page.name for page in PAGES.values() if page.is_linked_from_cards and page.name not in empty
    )


def _imported(runs: Sequence[Run]) -> str:
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
        facts.append(f"{counted(graphs, 'graph')} with {counted(nodes, 'node')}")
    if rows:
        facts.append(f"{format_count(rows)} kernels, memcpy and memset on the GPU")
    return element("p", text("; ".join(facts) + "."), "muted")


def first_card_message(path: Path) -> CardMessage:
    """Build the card of the experiment at ``path`` before its traces are loaded."""
    identity = identity_of(path)
    try:
        experiment = load_without_graphs(path)
        if any(run.manifest.sources for run in experiment.runs):
            # The card of an import shows its number of nodes.
            experiment = load_experiment(path, traces=False)
        card = card_of(compare(experiment), experiment, None)
    except InputError:
        card = None  # the page reports the error, if it persists
    return CardMessage(str(path), identity, card)
