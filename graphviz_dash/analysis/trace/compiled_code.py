"""Traces of code compiled by torch.compile."""

from __future__ import annotations

import polars as pl

from graphviz_dash.model.trace import Trace


def has_compiled_code(trace: Trace) -> bool:
    """Check whether ``trace`` contains calls of compiled functions."""
    return any(
        table["name"].unique().cast(pl.String).str.starts_with("Torch-Compiled Region").any()
        for table in (trace.ops, trace.annotations)
    )
