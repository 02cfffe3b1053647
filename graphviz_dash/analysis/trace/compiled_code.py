"""Traces of code compiled by torch.compile."""

from __future__ import annotations

from graphviz_dash.model.trace import Trace


def has_compiled_code(trace: Trace) -> bool:
    """Check whether ``trace`` contains calls of compiled functions."""
    for table in (trace.ops, trace.annotations):
        names = table["name"].unique().drop_nulls().cast(str).to_list()
        if any(name.startswith("Torch-Compiled Region") for name in names):
            return True
    return False
