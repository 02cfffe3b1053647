"""Traces of code compiled by torch.compile."""

from __future__ import annotations

from graphviz_dash.analysis.arrays import encode
from graphviz_dash.model.trace import Trace


def has_compiled_code(trace: Trace) -> bool:
    """Check whether ``trace`` contains calls of compiled functions."""
    return any(
        name.startswith("Torch-Compiled Region")
        for table in (trace.ops, trace.annotations)
        for name in encode(table["name"])[1]
    )
