"""Explain traced times."""

from __future__ import annotations

from graphviz_dash.analysis.ranks.shared_steps import find_shared_steps
from graphviz_dash.ui.state.results import get_traced_slowdowns
from graphviz_dash.ui.state.store import STORE
from graphviz_dash.units import format_ratio


def format_traced_note(key: str) -> str:
    """Describe the profiler's effect on traced times of the experiment ``key``."""
    effects = [
        f"{name} {format_ratio(effect)}" for name, effect in get_traced_slowdowns(key).items()
    ]
    details = f" Traced step time relative to unprofiled: {', '.join(effects)}." if effects else ""
    if STORE.derive(key, "shared steps", find_shared_steps):
        details += (
            " Ranks of one mode show the same step on a shared clock, from its first start. "
            "Clocks are aligned at the ends of collectives."
        )
    return (
        "Times come from the traced pass, which the profiler slows down: gaps and launches "
        f"appear longer.{details}"
    )
