"""List pages without content for an experiment, and the reasons."""

from __future__ import annotations

from collections.abc import Sequence

from graphviz_dash.guidance.gaps import gaps
from graphviz_dash.guidance.narrative import gap_reason
from graphviz_dash.model.run import Run


def empty_pages(runs: Sequence[Run]) -> dict[str, str]:
    """List pages without content for ``runs``, with the reason; needs no traces or graphs."""
    return {part.value: gap_reason(gap) for part, gap in gaps(runs).items()}
