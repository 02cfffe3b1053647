"""Wording about the source lines of a graph."""

from __future__ import annotations

from collections.abc import Sequence

from graphviz_dash.analysis.absence import explain_missing
from graphviz_dash.analysis.nodes.node_table import LineShare
from graphviz_dash.model.absence import Fact
from graphviz_dash.model.run import Run

MORE_FILES = " and other files"


def explain_missing_code(run: Run, lines: Sequence[LineShare]) -> str | None:
    """Explain why ``lines`` have no code; None if all have it."""
    without_code = [line.source for line in lines if line.code is None]
    if not without_code:
        return None
    if run.source_code is None:
        return f"Code not available: {explain_missing(run, Fact.SOURCE_CODE).reason}."
    files = list(dict.fromkeys(source.rpartition(":")[0] for source in without_code))
    reason = run.source_code.missing.get(files[0], "the line was not read")
    suffix = MORE_FILES if len(files) > 1 else ""
    return f"Code not available for {files[0]}{suffix}: {reason}."
