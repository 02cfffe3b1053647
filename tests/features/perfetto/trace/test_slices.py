from __future__ import annotations

import numpy as np
import polars as pl

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.features.perfetto.trace.slices import (
    Arg,
    ArgKind,
    SliceTable,
    build_column_arg,
    build_count_arg,
    build_number_arg,
    build_text_arg,
    encode_names,
    stack_tables,
)


def told(arg: Arg) -> list[object]:
    values = [arg.texts[v] if arg.kind is ArgKind.TEXT else v for v in arg.values.tolist()]
    return [
        value if present else None
        for value, present in zip(values, arg.present.tolist(), strict=True)
    ]


def test_counts_that_are_null_or_negative_are_absent() -> None:
    assert told(build_count_arg("bytes", pl.Series([3, None, -1, 0]))) == [3, None, None, 0]
    large = pl.Series([None, (1 << 64) - 1], dtype=pl.UInt64)
    assert told(build_count_arg("id", large)) == [None, (1 << 64) - 1]


def test_numbers_that_are_none_are_absent() -> None:
    assert told(build_number_arg("confidence", np.array([0.5, np.nan, 0.0]))) == [0.5, None, 0.0]


def test_texts_by_their_index_without_control_characters() -> None:
    arg = build_text_arg("op", np.array([1, -1, 0]), ["a\x1b", "b"])
    assert told(arg) == ["b", None, "a\\x1b"]
    column = pl.Series(["x", None, "x"], dtype=pl.Categorical)
    assert told(build_column_arg("op", column)) == ["x", None, "x"]


def test_names_are_never_empty() -> None:
    codes, names = encode_names(pl.Series(["", "k", "k"], dtype=pl.Categorical))
    assert [names[code] for code in codes] == ["(no name)", "k", "k"]


def table(name: str, args: tuple[Arg, ...], flows: list[list[int]]) -> SliceTable:
    rows = len(flows)
    zeros: Ints = np.zeros(rows, np.int64)
    return SliceTable(
        start=np.arange(rows),
        end=np.arange(rows) + 1,
        name=zeros,
        names=(name,),
        category=zeros,
        categories=(f"category of {name}",),
        args=args,
        flow_first=np.cumsum([0, *map(len, flows)]),
        flow_ids=np.array([flow for own in flows for flow in own], np.int64),
    )


def test_stacked_rows_keep_their_names_arguments_and_flows() -> None:
    first = table("a", (build_text_arg("op", np.array([0, -1]), ["x"]),), [[], [7]])
    second = table("b", (build_text_arg("op", np.array([0]), ["y"]),), [[8, 9]])
    third = table("c", (build_count_arg("bytes", pl.Series([4])),), [[]])
    whole = stack_tables([first, second, third])
    assert [whole.names[code] for code in whole.name] == ["a", "a", "b", "c"]
    assert whole.categories[whole.category[-1]] == "category of c"
    by_name = {arg.name: told(arg) for arg in whole.args}
    assert by_name == {"op": ["x", None, "y", None], "bytes": [None, None, None, 4]}
    flows = [
        whole.flow_ids[begin:end].tolist()
        for begin, end in zip(whole.flow_first, whole.flow_first[1:], strict=False)
    ]
    assert flows == [[], [7], [8, 9], []]
    assert len(stack_tables([])) == 0
