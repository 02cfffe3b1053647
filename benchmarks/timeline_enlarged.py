"""Repeat the traced steps of a recorded experiment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import polars as pl
from msgspec.structs import replace

from graphviz_dash.analysis.trace.steps import find_steps
from graphviz_dash.model.marks import STEP
from graphviz_dash.model.run import Experiment, Run
from graphviz_dash.model.trace import Trace

_IDS: Final = ("correlation", "external_id", "sequence")
_TABLES: Final = ("gpu", "runtime", "ops", "annotations")


def enlarged(experiment: Experiment, slices: int) -> Experiment:
    """Repeat the traced steps of each run until they have ``slices`` GPU slices, without Python
    frames. Graphs and clean timings stay as recorded."""
    return replace(experiment, runs=tuple(_enlarged(run, slices) for run in experiment.runs))


def _enlarged(run: Run, slices: int) -> Run:
    trace = run.replay_trace
    if trace is None or not trace.gpu.height:
        return run
    return replace(run, replay_trace=repeated(trace, -(-slices // trace.gpu.height)))


def repeated(trace: Trace, times: int) -> Trace:
    """Repeat ``trace``, one copy after another, with consecutive step numbers."""
    period = trace.info.end_ns + 10_000
    marks = 1 + max(step.index for step in find_steps(trace))
    tables: dict[str, pl.DataFrame] = {name: getattr(trace, name) for name in _TABLES}
    width = {id_name: _width(tables.values(), id_name) for id_name in _IDS}
    copies = {}
    for name, table in tables.items():
        copy = pl.Series("copy", range(times), dtype=pl.Int64)
        all_rows = table.join(copy.to_frame(), how="cross", maintain_order="right_left")
        changed = [(pl.col("ts") + pl.col("copy") * period).alias("ts")]
        changed += [
            (pl.col(id_name) + pl.col("copy").cast(table[id_name].dtype) * size).cast(
                table[id_name].dtype
            )
            for id_name, size in width.items()
            if id_name in table.columns
        ]
        if name == "annotations":
            number = (
                pl.col("name").cast(pl.String).str.strip_prefix(STEP).cast(pl.Int64, strict=False)
            )
            changed.append(
                pl.when(number.is_not_null())
                .then(pl.lit(STEP) + (number + pl.col("copy") * marks).cast(pl.String))
                .otherwise(pl.col("name").cast(pl.String))
                .cast(table["name"].dtype)
                .alias("name")
            )
        copies[name] = all_rows.with_columns(changed).drop("copy")
    info = replace(trace.info, events=trace.info.events * times, end_ns=period * times)
    python = trace.python.clear()
    return Trace(
        info, copies["gpu"], copies["runtime"], copies["ops"], copies["annotations"], python
    )


def _width(tables: Iterable[pl.DataFrame], name: str) -> int:
    """Distance between copies of an id in all tables that have it."""
    return max(int(table[name].max() or 0) for table in tables if name in table.columns) + 1  # type: ignore[arg-type]
