"""Show captured graphs, compared recordings and published times on the Launch page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphviz_dash.bundle.references import read_published_launch
from graphviz_dash.features.launch import narrative as words
from graphviz_dash.features.launch.analysis.launch_comparison import (
    LaunchComparison,
    compare_launches,
    compare_published,
)
from graphviz_dash.features.launch.analysis.launch_costs import LaunchCosts
from graphviz_dash.features.launch.analysis.own_graphs import ProgramGraph
from graphviz_dash.features.launch.columns import (
    list_comparison_columns,
    list_own_columns,
    list_published_columns,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.ui.page.frame import show_fold
from graphviz_dash.ui.page.markup import (
    escape_html,
    escape_markdown,
    format_element,
    show_caption,
    show_markup,
    show_paragraph,
)
from graphviz_dash.ui.page.tables import show_rows


def show_graphs_table(experiment: str, graphs: Sequence[ProgramGraph]) -> None:
    """Show the graphs with their times, folded."""
    if not graphs:
        return
    show_fold(
        f"Your graphs: {escape_markdown(experiment)}",
        "own-graphs",
        lambda: _show_graphs_table(graphs),
    )


def _show_graphs_table(graphs: Sequence[ProgramGraph]) -> None:
    show_rows(list_own_columns(graphs), graphs, "Shape and launch times of every captured graph")
    missing = sorted(
        {own.chain_times.reason for own in graphs if isinstance(own.chain_times, Missing)}
    )
    show_caption(
        "Times of the unprofiled pass. One-time operations were measured once. "
        + " ".join(
            (
                *words.describe_untimed_measures(graphs),
                *(f"No chain: {reason}." for reason in missing),
            )
        )
    )


def show_comparison_panel(recordings: Mapping[str, LaunchCosts]) -> None:
    """Show medians and ratios, and whether recordings agree within their spread, folded."""
    comparison = compare_launches(recordings)
    if comparison is not None:
        show_fold(
            "Comparison of recordings",
            "launch-comparison",
            lambda: _show_comparison(comparison),
        )


def _show_comparison(comparison: LaunchComparison) -> None:
    show_paragraph(words.describe_launch_comparison(comparison))
    show_rows(
        list_comparison_columns(comparison),
        comparison.differences,
        "Medians of the recordings, their ratios, and whether they agree within their spread",
    )


def show_published_panel(recordings: Mapping[str, LaunchCosts]) -> None:
    """Show NVIDIA's published times next to the recordings, folded."""
    show_fold(
        "Comparison with NVIDIA's published times",
        "published-launches",
        lambda: _show_published(recordings),
    )


def _show_published(recordings: Mapping[str, LaunchCosts]) -> None:
    published = read_published_launch()
    show_markup(
        format_element(
            "p",
            f"<b>{escape_html(published.title)}</b>, {escape_html(published.authors)}; "
            f"{escape_html(published.address)}. On {escape_html(published.gpu)}, "
            f"{escape_html(published.cpu)}, "
            f"with toolkits {escape_html(published.older)} and {escape_html(published.newer)}; "
            f"{escape_html(published.reading_method)}.",
        )
    )
    show_rows(
        list_published_columns(list(recordings)),
        compare_published(published, recordings),
        "Published times of linear and parallel chains next to the recordings",
    )
    show_caption(" ".join(published.statements))
