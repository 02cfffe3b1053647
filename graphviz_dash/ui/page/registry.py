"""Pages of the dashboard, one row each.

Rows are strings, so that modules are imported on demand.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

__all__ = ["GROUPS", "PAGES", "Page"]


class Page(Struct, frozen=True):
    """A page: its links and its module."""

    name: str
    """Path in the address."""
    title: str
    """Label of links and of the browser tab."""
    icon: str
    """Material symbol."""
    module: str
    """With a ``render`` function, below ``graphviz_dash``."""
    answers: str
    """Question that the page answers, for the help panel."""
    help: str
    """Place in the documentation: a page of docs/ and an anchor."""
    starts_with_chart: bool = False
    """Whether the first screen shows a Plotly chart, whose script the document preloads."""
    shows_title: bool = True
    """A hidden title is for screen readers."""
    is_linked_from_cards: bool = True
    shows_experiment: bool = True
    group: str = ""
    tab_of: str = ""
    """Page whose first tab this page is if it has content; empty for a page with its own link."""
    tab: str = ""
    """Label as a tab."""


GROUPS: Final = ("", "Results", "Diagnosis", "Cost", "Share")
"""Navigation groups in display order; Overview has none."""

_ROWS: Final = (
    Page(
        "overview",
        "Overview",
        "dashboard",
        "app.overview.page",
        "all experiments and the gain from graphs in each",
        "reference/dashboard.md#dashboard",
        is_linked_from_cards=False,
        shows_experiment=False,
    ),
    Page(
        "compare",
        "Compare",
        "balance",
        "app.compare.page.page",
        "whether graphs pay off, why, and at which cost; for runs without a graph, the predicted "
        "gain and what blocks a capture",
        "explanation/clean-and-profiled-timings.md#where-the-time-went",
        starts_with_chart=True,
        group="Results",
    ),
    Page(
        "graphs",
        "Graphs",
        "stacked_line_chart",
        "features.ladder.page.page",
        "for programs with many graphs: step time by size, cost of padding and fallbacks, and the "
        "best sizes to capture",
        "explanation/padding-and-ladders.md#cost-of-padding-and-fallbacks",
        starts_with_chart=True,
        group="Results",
        tab_of="graph",
        tab="All graphs",
    ),
    Page(
        "graph",
        "Graph",
        "account_tree",
        "features.graph.page.page",
        "the nodes of a graph, their source lines and their times",
        "reference/dashboard.md#graph-page",
        shows_title=False,
        group="Results",
        tab="One graph",
    ),
    Page(
        "timeline",
        "Timeline",
        "view_timeline",
        "features.timeline.page.page",
        "which kernel ran when, one run above the other, and where one run loses time",
        "reference/dashboard.md#timeline-page",
        shows_title=False,
        group="Results",
    ),
    Page(
        "compile",
        "Compile",
        "conversion_path",
        "features.torch_compile.page.page",
        "what torch.compile made of a step, where its time goes, and what to fix first",
        "how-to/fix-torch-compile.md#messages-of-torch",
        starts_with_chart=True,
        group="Diagnosis",
    ),
    Page(
        "memory",
        "Memory",
        "memory",
        "features.memory.page.page",
        "device memory by purpose, and the share of graphs",
        "explanation/memory-of-graphs.md#the-parts",
        starts_with_chart=True,
        is_linked_from_cards=False,
        group="Cost",
    ),
    Page(
        "ranks",
        "Ranks",
        "device_hub",
        "features.ranks.page",
        "which rank is late, and how long the others wait",
        "how-to/look-at-many-ranks.md#a-few-ranks",
        starts_with_chart=True,
        group="Cost",
    ),
    Page(
        "launch",
        "Launch",
        "rocket_launch",
        "features.launch.page.page",
        "launch costs of graphs on a GPU",
        "how-to/measure-launch-costs.md#read-the-result",
        starts_with_chart=True,
        is_linked_from_cards=False,
        group="Cost",
    ),
    Page(
        "doctor",
        "Doctor",
        "stethoscope",
        "features.doctor.page",
        "why a capture fails, why a replay is wrong, what breaks a compiled step, and the fix",
        "how-to/fix-a-capture.md#common-findings",
        shows_title=False,
        group="Diagnosis",
    ),
    Page(
        "export",
        "Export",
        "ios_share",
        "app.report.page",
        "reports, tables and traces as files",
        "how-to/export-to-perfetto.md#other-exports",
        shows_title=False,
        group="Share",
    ),
)
"""In their order within a group."""

PAGES: Final = {
    page.name: page for page in sorted(_ROWS, key=lambda page: GROUPS.index(page.group))
}
"""Pages by name, in the order of the navigation."""
