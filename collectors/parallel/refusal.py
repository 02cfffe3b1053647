"""Why a step is not run in parallel."""

from __future__ import annotations

from graphviz_dash.errors import GraphvizDashError


class RefusedError(GraphvizDashError):
    """The step cannot be run in parallel without the danger of wrong results; the message says why,
    and which line of the program is the cause where that is known."""

    def __init__(self, why: str, source: str | None = None) -> None:
        at = f" ({source})" if source else ""
        super().__init__(f"Mode parallel is refused: {why}{at}. Mode graph runs this step.")
