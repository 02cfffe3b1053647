"""What to mind where times of a traced pass are shown."""

from __future__ import annotations

from graphviz_dash.analysis.ranks.shared_steps import shared_steps
from graphviz_dash.ui.state.results import traced_slowdowns
from graphviz_dash.ui.state.store import STORE
from graphviz_dash.units import format_ratio


def traced_note(key: str) -> str:
    """What to mind of traced times of the experiment ``key`` in the store."""
    effects = [f"{name} {format_ratio(effect)}" for name, effect in traced_slowdowns(key).items()]
    said = f" Traced over clean step time: {', '.join(effects)}." if effects else ""
    if STORE.derived(key, "shared steps", shared_steps):
        said += (
            " Ranks of one mode show one step on one clock, from where the first of them begins "
            "it; the clocks are aligned by the ends of collectives."
        )
    return (
        "Times here are from the traced pass, which the profiler slows down: read gaps and "
        f"launches with care.{said}"
    )
