"""What the pages have to show of an experiment, and why one has nothing."""

from __future__ import annotations

from collections.abc import Sequence

from graphviz_dash.guidance.gaps import gaps
from graphviz_dash.guidance.narrative import gap_reason
from graphviz_dash.model.run import Run


def empty_pages(runs: Sequence[Run]) -> dict[str, str]:
    """The pages that have nothing to show of ``runs``, each with the reason; told without their
    traces and graphs."""
    return {part.value: gap_reason(gap) for part, gap in gaps(runs).items()}
