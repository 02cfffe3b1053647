"""Columns of kernels and uncaptured work for the Compare page and the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from graphviz_dash.analysis.metrics.graph_coverage import StayedEager
from graphviz_dash.analysis.metrics.kernel_table import KernelRow, KernelTable
from graphviz_dash.narrative.columns import COUNT, MICROSECONDS, SHARE, Column, Unit
from graphviz_dash.units import format_ns

CHANGE: Final = Unit(
    lambda ns: f"+{format_ns(ns)}" if ns is not None and ns > 0 else format_ns(ns),
    " (µs)",
    1e3,
    "%+.2f",
)

UNCAPTURED_COLUMNS: Final[tuple[Column[tuple[str, StayedEager]], ...]] = (
    Column("Run", lambda row: row[0]),
    Column("Operator", lambda row: row[1].operator or None),
    Column("Reason", lambda row: row[1].reason.value),
    Column("Work", lambda row: row[1].count, COUNT),
    Column("Time", lambda row: row[1].total_ns, MICROSECONDS),
    Column("Share of GPU time", lambda row: row[1].share, SHARE),
)


def list_kernel_columns(kernels: KernelTable, runs: Iterable[int]) -> list[Column[KernelRow]]:
    """List the columns of kernels per traced step, for the runs at ``runs``."""
    columns: list[Column[KernelRow]] = [Column("Category", lambda row: row.category.value)]
    for at in runs:
        run = kernels.runs[at]
        columns += [
            Column(f"{run} (count)", _get_use(at, "count"), COUNT, f"{run}: count"),
            Column(run, _get_use(at, "total_ns"), MICROSECONDS, "time"),
        ]
        if kernels.has_changes(at):
            columns.append(Column("Change", _get_change(at), CHANGE, "change"))
    return columns


def _get_use(at: int, field: str) -> Callable[[KernelRow], float | None]:
    def get(row: KernelRow) -> float | None:
        use = row.uses[at]
        return None if use is None else getattr(use, field)

    return get


def _get_change(at: int) -> Callable[[KernelRow], float | None]:
    return lambda row: row.changes[at]
