"""What the pages have to show of an experiment, and why one has nothing."""

from __future__ import annotations

from collections.abc import Sequence

from graphviz_dash.analysis.families.family_report import has_many_graphs
from graphviz_dash.analysis.metrics.run_selection import may_be_eager
from graphviz_dash.analysis.remedies import has_trace
from graphviz_dash.model.run import Run


def empty_pages(runs: Sequence[Run]) -> dict[str, str]:
    """The pages that have nothing to show of ``runs``, each with the reason; told without their
    traces."""
    reasons = {
        "graphs": (
            any(has_many_graphs(run.loop) for run in runs),
            "No program here replays many graphs",
        ),
        "graph": (any(run.graphs for run in runs), "No run here holds a captured graph"),
        "timeline": (any(map(has_trace, runs)), "No run here holds a trace of its steps"),
        "compile": (
            any(run.compilation or run.mode.is_compiled for run in runs),
            "Nothing here was compiled by torch.compile",
        ),
        "memory": (
            any(run.memory or run.memory_pass for run in runs),
            "No run here holds memory statistics",
        ),
        "ranks": (
            any(run.manifest.rank is not None for run in runs),
            "The runs here are of one process each",
        ),
        # Where all ran eagerly the trace says what would stop a capture.
        "doctor": (
            any(run.doctor for run in runs) or all(map(may_be_eager, runs)),
            "No doctor examined these runs",
        ),
    }
    return {page: reason for page, (is_there, reason) in reasons.items() if not is_there}
