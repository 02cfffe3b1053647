"""Open the steps of a timeline in Perfetto."""

from __future__ import annotations

from collections.abc import Mapping

from graphviz_dash.errors import InputError
from graphviz_dash.features.perfetto.page.component import TracePart, render_perfetto_buttons
from graphviz_dash.features.timeline.page.component.ready import load_timeline
from graphviz_dash.features.timeline.view.run import choose_step
from graphviz_dash.ui.page.frame import SelectedExperiment, show_error_panel


def show_perfetto_steps(chosen: SelectedExperiment, steps: Mapping[str, int | None]) -> None:
    """Show a button for the selected step of each run; None selects the typical step."""
    picked = [(name, _get_step_index(chosen, name, step)) for name, step in steps.items()]
    try:
        render_perfetto_buttons(
            chosen.key,
            TracePart(tuple(picked)),
            label="Open these steps in Perfetto",
            small=True,
            key=f"perfetto-{chosen.key}-{'-'.join(f'{name}.{at}' for name, at in picked)}",
        )
    except InputError as error:
        show_error_panel("These steps cannot be opened in Perfetto", str(error))


def _get_step_index(chosen: SelectedExperiment, run_name: str, step: int | None) -> int | None:
    picked = choose_step(load_timeline(chosen.key, run_name), step).step
    return picked.index if picked else None
