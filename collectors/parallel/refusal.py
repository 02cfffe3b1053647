"""Error for steps that cannot run in parallel."""

from __future__ import annotations

from graphviz_dash.errors import GraphvizDashError


class RefusedError(GraphvizDashError):
    """The step cannot run in parallel safely."""

    def __init__(self, reason: str, source: str | None = None) -> None:
        location = f" ({source})" if source else ""
        super().__init__(
            f"Parallel mode is not possible: {reason}{location}. Use mode graph for this step."
        )
