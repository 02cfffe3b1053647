"""Figures as surfaces show them: tables of pages, reports and the terminal, tiles and sentences."""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from html.parser import HTMLParser
from math import isnan
from typing import Any, NamedTuple

import pytest
from rich.console import Console
from rich.table import Table as RichTable

from graphviz_dash.analysis.metrics.registry import METRICS
from graphviz_dash.units import format_count, format_ns, format_percent, format_ratio

SIGNED = ("peak_reserved_change", "device_memory_change", "iterate_reserved_change")
"""Changes, whose sign only labelled surfaces show."""

IDS = {metric.title: metric.id for metric in METRICS.values()}


class Table(NamedTuple):
    """Texts of a table, row by row; the heading is the first one."""

    head: list[str]
    rows: list[list[str]]

    def iterate_cells(self) -> Iterator[tuple[str, str, str]]:
        """Yield row title, heading and text of each cell right of the first column."""
        for first, *cells in self.rows:
            yield from (
                (first, name, text) for name, text in zip(self.head[1:], cells, strict=False)
            )


class Figures:
    """Texts of each fact, by run, fact and surface."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
        self.surfaces: set[str] = set()

    def add(self, run: str, fact: str, surface: str, text: str | None) -> None:
        if text and text != "–":
            self.surfaces.add(surface)
            self.texts[run, fact][surface] = text

    def find(self, run: str, fact: str, surface: str, pattern: str, text: str) -> None:
        if match := re.search(pattern, text):
            self.add(run, fact, surface, match[1])

    def add_metrics(self, surface: str, table: Table) -> None:
        """Add a table with a row for each metric and a column for each run."""
        for title, run, text in table.iterate_cells():
            metric = IDS.get(title.strip().removesuffix(", est."))
            if metric is not None and metric not in SIGNED and run not in ("spread", "pass"):
                self.add(run, metric, surface, text)

    def add_columns(self, surface: str, table: Table, facts: dict[str, str]) -> None:
        """Add a table with a row for each run and a column for each fact."""
        for run, heading, text in table.iterate_cells():
            if heading in facts:
                self.add(run, facts[heading], surface, text)

    @property
    def compared(self) -> int:
        return sum(len(texts) for texts in self.texts.values() if len(texts) > 1)

    @property
    def disagreements(self) -> dict[tuple[str, str], dict[str, str]]:
        return {key: texts for key, texts in self.texts.items() if len(set(texts.values())) > 1}


class _Reader(HTMLParser):
    """Reads tables and tiles; a cell is its figure, without the spread next to it."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[Table] = []
        self.tiles: dict[str, str] = {}
        self._classes: list[str] = []
        self._cell: str | None = None
        self._tile: list[str] | None = None
        self._tile_depth = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag in ("br", "img", "path", "rect", "line", "use", "circle"):
            return
        kind = dict(attributes).get("class") or ("spread" if tag == "small" else "")
        self._classes.append(kind)
        if tag == "table":
            self.tables.append(Table([], []))
        elif tag == "tr" and self.tables and self.tables[-1].head:
            self.tables[-1].rows.append([])
        elif tag in ("td", "th"):
            self._cell = ""
        elif tag == "div" and kind == "tile":
            self._tile, self._tile_depth = [], len(self._classes)
        elif self._tile is not None and len(self._classes) == self._tile_depth + 1:
            self._tile.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th") and self._cell is not None:
            table = self.tables[-1]
            (table.rows[-1] if table.rows else table.head).append(self._cell.strip())
            self._cell = None
        if self._tile is not None and len(self._classes) == self._tile_depth:
            label, value, *_ = self._tile
            self.tiles[label] = value
            self._tile = None
        if self._classes:
            self._classes.pop()

    def handle_data(self, data: str) -> None:
        if self._cell is not None and not {"spread", "pass"} & {*self._classes}:
            self._cell += data
        if self._tile:
            self._tile[-1] += data


def show_cell(title: str, value: Any) -> str | None:
    if isinstance(value, str) or value is None or isnan(value):
        return value if isinstance(value, str) else None
    if title.endswith("(µs)"):
        return format_ns(value * 1e3)
    if title == "Repeat vs chain":
        return format_ratio(value)
    return format_percent(value) if title == "Linear" else format_count(int(value))


def read_markup(markup: str) -> tuple[list[Table], dict[str, str]]:
    reader = _Reader()
    reader.feed(re.sub(r"<(style|svg).*?</\1>", "", markup, flags=re.DOTALL))
    return [table for table in reader.tables if table.rows], reader.tiles


def print_tables(act: Callable[..., Any], *values: Any, **named: Any) -> tuple[str, list[Table]]:
    """Run ``act`` and return its terminal output without the tables, and the tables."""
    target, printed, print_one = io.StringIO(), list[Table](), Console.print

    def record(console: Console, *printables: Any, **options: Any) -> None:
        tables = [one for one in printables if isinstance(one, RichTable)]
        printed.extend(map(_read_printed, tables))
        # The layout of a table is tested elsewhere and takes longer than its content.
        if not tables:
            print_one(console, *printables, **options)

    with pytest.MonkeyPatch.context() as patched, redirect_stdout(target):
        patched.setattr(Console, "print", record)
        act(*values, **named)
    return target.getvalue(), printed


def _read_printed(table: RichTable) -> Table:
    columns = [[str(cell).strip() for cell in column.cells] for column in table.columns]
    return Table(
        [str(column.header) for column in table.columns],
        [list(row) for row in zip(*columns, strict=True)],
    )
