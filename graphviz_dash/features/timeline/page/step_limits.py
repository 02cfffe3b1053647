"""Show the distance of an eager step from the hardware limit."""

from __future__ import annotations

from collections.abc import Sequence

from graphviz_dash.features.efficiency.analysis.report import (
    EfficiencyReport,
    measure_run_efficiency,
)
from graphviz_dash.features.efficiency.page.panel import show_efficiency_panel
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run
from graphviz_dash.ui.page.frame import SelectedExperiment, get_theme
from graphviz_dash.ui.state.store import STORE


def show_step_limits(selection: SelectedExperiment, runs: Sequence[Run]) -> None:
    """Show a folded panel for the first imported trace among ``runs`` without graphs.

    The Graph page has that of a graph. Eager passes of collectors record no shapes.
    """
    run = next((run for run in runs if run.manifest.sources and not run.graphs), None)
    if run is None:
        return

    def get_report() -> EfficiencyReport | Missing:
        return STORE.derive(
            selection.key, ("step limits", run.name), lambda _: measure_run_efficiency(run)
        )

    show_efficiency_panel(
        f"step-{run.name}", get_report, None, get_theme(), f"Hardware limits of {run.name}"
    )
