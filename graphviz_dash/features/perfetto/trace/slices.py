"""Slices as columns, with what a trace viewer shows of each: the same for every trace format."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints, encode
from graphviz_dash.errors import printable

Mask: TypeAlias = npt.NDArray[np.bool_]


class ArgKind(Enum):
    """What the values of an argument are."""

    COUNT = "count"
    NUMBER = "number"
    TEXT = "text"


class Arg(Struct, frozen=True):
    """One argument of all slices of a table."""

    name: str
    """As viewers show it."""
    kind: ArgKind
    """What the values are."""
    values: npt.NDArray[np.uint64] | npt.NDArray[np.float64] | Ints
    """Shape (rows,): uint64 for COUNT, float64 for NUMBER, and for TEXT the index in ``texts`` as
    int64."""
    present: Mask
    """Shape (rows,); where it is false the slice does not have the argument."""
    texts: tuple[str, ...] = ()
    """What the values of TEXT stand for."""


class SliceTable(Struct, frozen=True):
    """Slices; all columns have shape (rows,)."""

    start: Ints
    """In ns of the exported trace."""
    end: Ints
    """In ns of the exported trace, not before ``start``."""
    name: Ints
    """Indices in ``names``."""
    names: tuple[str, ...]
    """Each name once or more often."""
    category: Ints
    """Indices in ``categories``."""
    categories: tuple[str, ...]
    """Each category once or more often."""
    args: tuple[Arg, ...]
    """The arguments that any slice has."""
    flow_first: Ints
    """Shape (rows + 1,): the flows of row ``i`` are ``flow_ids[flow_first[i]:flow_first[i + 1]]``.
    """
    flow_ids: Ints
    """Each id stands at a launch and at one GPU row."""

    def __len__(self) -> int:
        return len(self.start)


def count_arg(name: str, column: pl.Series) -> Arg:
    """A column of non-negative integers; null, and what is negative, is absent."""
    if column.dtype.is_unsigned_integer():
        present = column.is_not_null().to_numpy()
        return Arg(name, ArgKind.COUNT, column.fill_null(0).to_numpy().astype(np.uint64), present)
    values = column.fill_null(-1).to_numpy().astype(np.int64)
    present = values >= 0
    return Arg(name, ArgKind.COUNT, np.where(present, values, 0).astype(np.uint64), present)


def number_arg(name: str, values: npt.NDArray[np.float64]) -> Arg:
    """Numbers; NaN is absent."""
    present = ~np.isnan(values)
    return Arg(name, ArgKind.NUMBER, np.where(present, values, 0.0), present)


def text_arg(name: str, codes: Ints, texts: Iterable[str]) -> Arg:
    """Texts by their index; -1 is absent. Control characters become escapes."""
    shown = tuple(printable(text) for text in texts)
    present = codes >= 0
    return Arg(name, ArgKind.TEXT, np.where(present, codes, 0), present, shown)


def column_arg(name: str, column: pl.Series) -> Arg:
    """A text or categorical column; null is absent."""
    codes, texts = encode(column.cast(pl.Categorical))
    values = np.where(column.is_not_null().to_numpy(), codes, -1).astype(np.int64)
    return text_arg(name, values, texts)


def coded(column: pl.Series) -> tuple[Ints, tuple[str, ...]]:
    """A categorical column as indices and their texts, fit for ``SliceTable.name``."""
    codes, texts = encode(column.cast(pl.Categorical))
    return codes.astype(np.int64), tuple(printable(text) or "(no name)" for text in texts)


def stacked(tables: list[SliceTable]) -> SliceTable:
    """The rows of ``tables`` behind one another; an argument that a table lacks is absent there."""
    names: list[str] = []
    categories: list[str] = []
    name, category = [], []
    for table in tables:
        name.append(table.name + len(names))
        category.append(table.category + len(categories))
        names.extend(table.names)
        categories.extend(table.categories)
    wanted = {arg.name: arg for table in tables for arg in table.args}
    flows = [np.diff(table.flow_first) for table in tables]
    return SliceTable(
        start=_joined([table.start for table in tables]),
        end=_joined([table.end for table in tables]),
        name=_joined(name),
        names=tuple(names),
        category=_joined(category),
        categories=tuple(categories),
        args=tuple(_stacked_arg(arg, tables) for arg in wanted.values()),
        flow_first=np.concatenate((np.zeros(1, np.int64), np.cumsum(_joined(flows)))),
        flow_ids=_joined([table.flow_ids for table in tables]),
    )


def _stacked_arg(like: Arg, tables: list[SliceTable]) -> Arg:
    values: list[npt.NDArray[Any]] = []
    present, texts = [], list[str]()
    for table in tables:
        own = next((arg for arg in table.args if arg.name == like.name), None)
        if own is None:
            values.append(np.zeros(len(table), dtype=like.values.dtype))
            present.append(np.zeros(len(table), dtype=np.bool_))
            continue
        shift = len(texts) if own.kind is ArgKind.TEXT else 0
        values.append(own.values + shift if shift else own.values)
        present.append(own.present)
        texts.extend(own.texts)
    return Arg(like.name, like.kind, np.concatenate(values), np.concatenate(present), tuple(texts))


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
