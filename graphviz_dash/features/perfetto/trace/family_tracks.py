"""Traced steps of a program with many graphs, named by the key of the replayed graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.loop.keys import format_key
from graphviz_dash.analysis.trace.steps import Step
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.perfetto.trace.slices import SliceTable, build_count_arg
from graphviz_dash.model.loop import ProgramLoop, StepKind


def build_family_steps(
    loop: ProgramLoop | None, steps: Sequence[Step], shift: int
) -> tuple[SliceTable, Mapping[str, Ints]]:
    """Build slices for the loop's ``steps``, ``shift`` ns later, and each family's rows.

    A step's name is its key, or its kind if it replayed nothing.
    """
    marked: list[Step] = []
    names: list[str] = []
    families: list[str] = []
    real: list[int | None] = []
    padded: list[int | None] = []
    rows = dict(enumerate(loop.window_rows)) if loop else {}
    for step in steps:
        row = rows.get(step.index)
        if loop is None or row is None:
            continue
        columns = loop.steps
        marked.append(step)
        real.append(columns.real_size[row])
        padded.append(columns.padded_size[row])
        number, member = columns.family[row], columns.member[row]
        family = None if number is None else loop.families[number]
        families.append("no family" if family is None else escape_control_characters(family.name))
        if family is None or member is None or columns.kind[row] is StepKind.FALLBACK:
            names.append(columns.kind[row].value)
        else:
            names.append(escape_control_characters(format_key(family, family.members[member])))
    return _build_table(marked, shift, names, real, padded), {
        name: np.flatnonzero(np.array(families) == name) for name in dict.fromkeys(families)
    }


def _build_table(
    steps: Sequence[Step],
    shift: int,
    names: Sequence[str],
    real: Sequence[int | None],
    padded: Sequence[int | None],
) -> SliceTable:
    count = len(steps)
    args = (
        build_count_arg("real_size", pl.Series(real, dtype=pl.Int64)),
        build_count_arg("padded_size", pl.Series(padded, dtype=pl.Int64)),
    )
    return SliceTable(
        start=np.array([step.start + shift for step in steps], dtype=np.int64),
        end=np.array([step.end + shift for step in steps], dtype=np.int64),
        name=np.arange(count),
        names=tuple(names),
        category=np.zeros(count, dtype=np.int64),
        categories=("family step",),
        args=tuple(arg for arg in args if arg.present.any()),
        flow_first=np.zeros(count + 1, dtype=np.int64),
        flow_ids=np.zeros(0, dtype=np.int64),
    )
