"""Name the step of a recorded program that the end of its traced window cut.

The profiler ends the range of an open step when it stops, so the trace shows a step with a part of
the work, or with the end of the program.
"""

from __future__ import annotations

import re
from copy import copy
from typing import Final

import polars as pl

from graphviz_dash.model.marks import STEP, UNFINISHED_STEP
from graphviz_dash.model.recording import Recording
from graphviz_dash.model.trace import Trace

_NUMBER: Final = rf"^{re.escape(STEP)}([0-9]{{1,18}})$"


def name_unfinished_step(trace: Trace, recording: Recording | None) -> Trace:
    """Return ``trace`` with another name for the mark after the complete steps of ``recording``.

    Unchanged if None, for a trace of another origin.
    """
    if recording is None:
        return trace
    annotations = trace.annotations
    numbers = annotations["name"].str.extract(_NUMBER).cast(pl.Int64)
    later_marks = numbers >= recording.window_steps
    if not later_marks.any():
        return trace
    names = pl.when(later_marks).then(pl.lit(UNFINISHED_STEP)).otherwise(pl.col("name"))
    result = copy(trace)
    # Other tables of a cached trace remain unread.
    vars(result)["annotations"] = annotations.with_columns(names.alias("name"))
    return result
