from __future__ import annotations

from pathlib import Path

import msgspec

from graphviz_dash.analysis.metrics.loop_columns import (
    FALLBACK,
    NONE,
    SIZE_SOURCES,
    SizeSource,
    build_loop_columns,
)
from graphviz_dash.ingest.load import load_outlines
from graphviz_dash.model.loop import SizeMethod, StepKind
from tests.loops import make_server


def test_sizes_of_eager_passes_are_used_where_those_of_replays_are_known(tmp_path: Path) -> None:
    make_server(tmp_path, sizes=(4, 8), requests=[3, 20, 8, 30])
    loop = load_outlines(tmp_path)[0].loop
    assert loop is not None
    kinds, real = list(loop.steps.kind), list(loop.steps.real_size)
    first, second = (row for row, kind in enumerate(kinds) if kind is StepKind.FALLBACK)
    by_shapes = [
        SizeMethod.SHAPES if kind is StepKind.FALLBACK else method
        for kind, method in zip(kinds, loop.steps.size_method, strict=True)
    ]
    known = msgspec.structs.replace(
        loop, steps=msgspec.structs.replace(loop.steps, size_method=tuple(by_shapes))
    )
    columns = build_loop_columns(known)
    assert columns.real[columns.kind == FALLBACK].tolist() == [20, 30]
    shapes = SIZE_SOURCES.index(SizeSource.SHAPES)
    assert set(columns.size_source[columns.kind == FALLBACK].tolist()) == {shapes}

    # Without the sizes of replays all requests would seem to fit no graph.
    without = [
        size if kind is StepKind.FALLBACK else None for kind, size in zip(kinds, real, strict=True)
    ]
    unknown = msgspec.structs.replace(
        known,
        steps=msgspec.structs.replace(known.steps, real_size=tuple(without)),
        window_rows=(first, first + 1),
    )
    assert set(build_loop_columns(unknown).real.tolist()) == {NONE}

    # Where copies tell those of the traced window, the sizes of its eager passes are used.
    columns = build_loop_columns(unknown, {first + 1: 8})
    assert (columns.real[[first, first + 1, second]]).tolist() == [20, 8, NONE]
