"""Slices as columns with the arguments that trace viewers show, for every trace format."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints, encode
from graphviz_dash.errors import escape_control_characters

Mask: TypeAlias = npt.NDArray[np.bool_]


class ArgKind(Enum):
    """Value type of an argument."""

    COUNT = "count"
    NUMBER = "number"
    TEXT = "text"


class Arg(Struct, frozen=True):
    """Argument of all slices of a table."""

    name: str
    kind: ArgKind
    values: npt.NDArray[np.uint64] | npt.NDArray[np.float64] | Ints
    """Shape (rows,): uint64 for COUNT, float64 for NUMBER, int64 indices of ``texts`` for TEXT."""
    present: Mask
    """Shape (rows,); false if the slice lacks the argument."""
    texts: tuple[str, ...] = ()
    """Texts of TEXT values."""


class SliceTable(Struct, frozen=True):
    """Slices; all columns have shape (rows,)."""

    start: Ints
    """In ns of the exported trace."""
    end: Ints
    """In ns of the exported trace, not before ``start``."""
    name: Ints
    """Indices in ``names``."""
    names: tuple[str, ...]
    """Names, possibly repeated."""
    category: Ints
    """Indices in ``categories``."""
    categories: tuple[str, ...]
    """Categories, possibly repeated."""
    args: tuple[Arg, ...]
    """Arguments of any slice."""
    flow_first: Ints
    """Shape (rows + 1,): row ``i`` has ``flow_ids[flow_first[i]:flow_first[i + 1]]``."""
    flow_ids: Ints
    """Each appears at a launch and at one GPU row."""

    def __len__(self) -> int:
        return len(self.start)


def build_count_arg(name: str, column: pl.Series) -> Arg:
    """Convert non-negative integers; null and negative values are absent."""
    if column.dtype.is_unsigned_integer():
        present = column.is_not_null().to_numpy()
        return Arg(name, ArgKind.COUNT, column.fill_null(0).to_numpy().astype(np.uint64), present)
    values = column.fill_null(-1).to_numpy().astype(np.int64)
    present = values >= 0
    return Arg(name, ArgKind.COUNT, np.where(present, values, 0).astype(np.uint64), present)


def build_number_arg(name: str, values: npt.NDArray[np.float64]) -> Arg:
    """Convert numbers; NaN is absent."""
    present = ~np.isnan(values)
    return Arg(name, ArgKind.NUMBER, np.where(present, values, 0.0), present)


def build_text_arg(name: str, codes: Ints, texts: Iterable[str]) -> Arg:
    """Convert texts by index; -1 is absent. Control characters become escapes."""
    safe_texts = tuple(escape_control_characters(text) for text in texts)
    present = codes >= 0
    return Arg(name, ArgKind.TEXT, np.where(present, codes, 0), present, safe_texts)


def build_column_arg(name: str, column: pl.Series) -> Arg:
    """Convert a text or categorical column; null is absent."""
    codes, texts = encode(column.cast(pl.Categorical))
    values = np.where(column.is_not_null().to_numpy(), codes, -1).astype(np.int64)
    return build_text_arg(name, values, texts)


def encode_names(column: pl.Series) -> tuple[Ints, tuple[str, ...]]:
    """Convert a categorical column to indices and texts."""
    codes, texts = encode(column.cast(pl.Categorical))
    return codes.astype(np.int64), tuple(
        escape_control_characters(text) or "(no name)" for text in texts
    )


def stack_tables(tables: list[SliceTable]) -> SliceTable:
    """Concatenate ``tables``; an argument that a table lacks is absent there."""
    names: list[str] = []
    categories: list[str] = []
    name, category = [], []
    for table in tables:
        name.append(table.name + len(names))
        category.append(table.category + len(categories))
        names.extend(table.names)
        categories.extend(table.categories)
    args_by_name = {arg.name: arg for table in tables for arg in table.args}
    flows = [np.diff(table.flow_first) for table in tables]
    return SliceTable(
        start=_join_arrays([table.start for table in tables]),
        end=_join_arrays([table.end for table in tables]),
        name=_join_arrays(name),
        names=tuple(names),
        category=_join_arrays(category),
        categories=tuple(categories),
        args=tuple(_stack_arg(arg, tables) for arg in args_by_name.values()),
        flow_first=np.concatenate((np.zeros(1, np.int64), np.cumsum(_join_arrays(flows)))),
        flow_ids=_join_arrays([table.flow_ids for table in tables]),
    )


def _stack_arg(template: Arg, tables: list[SliceTable]) -> Arg:
    values: list[npt.NDArray[Any]] = []
    present, texts = [], list[str]()
    for table in tables:
        table_arg = next((arg for arg in table.args if arg.name == template.name), None)
        if table_arg is None:
            values.append(np.zeros(len(table), dtype=template.values.dtype))
            present.append(np.zeros(len(table), dtype=np.bool_))
            continue
        shift = len(texts) if table_arg.kind is ArgKind.TEXT else 0
        values.append(table_arg.values + shift if shift else table_arg.values)
        present.append(table_arg.present)
        texts.extend(table_arg.texts)
    return Arg(
        template.name, template.kind, np.concatenate(values), np.concatenate(present), tuple(texts)
    )


def _join_arrays(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
