"""Open the steps of a timeline in Perfetto."""

from __future__ import annotations

from collections.abc import Mapping

from graphviz_dash.errors import InputError
from graphviz_dash.features.perfetto.page.component import TracePart, perfetto_button
from graphviz_dash.features.timeline.page.component.ready import timeline_of
from graphviz_dash.features.timeline.view.run import choose
from graphviz_dash.ui.page.frame import Chosen, trouble


def perfetto_steps(chosen: Chosen, steps: Mapping[str, int | None]) -> None:
    """Show a button for the selected step of each run; None selects the typical step."""
    picked = [(name, _step_of(chosen, name, step)) for name, step in steps.items()]
    try:
        perfetto_button(
            chosen.key,
            TracePart(tuple(picked)),
            label="Open these steps in Perfetto",
            small=True,
            key=f"perfetto-{chosen.key}-{'-'.join(f'{name}.{at}' for name, at in picked)}",
        )
    except InputError as error:
        trouble("These steps cannot be opened in Perfetto", str(error))


def _step_of(chosen: Chosen, run_name: str, step: int | None) -> int | None:
    picked = choose(timeline_of(chosen.key, run_name), step).step
    return picked.index if picked else None
