"""List pages without content for an experiment, and the reasons."""

from __future__ import annotations

from collections.abc import Sequence

from graphviz_dash.guidance.gaps import find_gaps
from graphviz_dash.guidance.narrative import format_gap_reason
from graphviz_dash.model.run import Run


def find_empty_pages(runs: Sequence[Run]) -> dict[str, str]:
    """List pages without content, with the reason; needs no traces or graphs."""
    return {part.value: format_gap_reason(gap) for part, gap in find_gaps(runs).items()}
