"""List pages without content for an experiment, and the reasons."""

from __future__ import annotations

from collections.abc import Sequence

from graphviz_dash.guidance.gaps import find_gaps
from graphviz_dash.guidance.narrative import format_gap_reason
from graphviz_dash.model.run import Run
from graphviz_dash.ui.state.store import STORE, Extent


def find_empty_pages(runs: Sequence[Run]) -> dict[str, str]:
    """List pages without content, with the reason; needs no traces or graphs."""
    return {part.value: format_gap_reason(gap) for part, gap in find_gaps(runs).items()}


def get_empty_pages(key: str, extent: Extent = Extent.FULL) -> dict[str, str]:
    """Return the pages without content for the experiment of ``key``, with the reason."""
    return STORE.derive(
        key, "empty pages", lambda experiment: find_empty_pages(experiment.runs), extent
    )
