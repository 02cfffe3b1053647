"""Memory: device memory breakdown of each run, and the memory cost of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from graphviz_dash.analysis.ledger.report import LedgerReport, list_ledger_reports
from graphviz_dash.analysis.memory.allocator import AllocatorState, list_allocator_states
from graphviz_dash.analysis.memory.report import MemoryPart, MemoryReport
from graphviz_dash.analysis.metrics.registry import METRICS
from graphviz_dash.features.ledger.page import show_ledgers
from graphviz_dash.features.memory.chart import draw_allocator, draw_memory
from graphviz_dash.features.memory.comparison import MemoryComparison, compare_memory
from graphviz_dash.features.memory.narrative import (
    PART_MEANINGS,
    PUBLISHED_OVERHEAD,
    SHARE_COLUMNS,
    STAGE_LABELS,
    TOTAL_ROWS,
    SizeRow,
    build_memory_pass_hint,
    describe_memory_cost,
    describe_snapshot,
    get_allocator_hint,
    list_part_rows,
    list_size_columns,
    list_stage_columns,
    summarize_allocators,
)
from graphviz_dash.features.memory.page.memory_pools import show_pools_panel
from graphviz_dash.features.memory.snapshots import SNAPSHOT_GROUPS, list_snapshots
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.memory import Stage
from graphviz_dash.model.run import MemoryShare
from graphviz_dash.narrative.summary import build_memory_tiles
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import (
    SelectedExperiment,
    draw_figure,
    flush_to_browser,
    get_figure,
    load_selected_experiment,
    show_missing_content,
)
from graphviz_dash.ui.page.help import format_page_heading
from graphviz_dash.ui.page.markup import (
    escape_html,
    escape_markdown,
    format_details,
    format_element,
    format_table,
    format_text,
    show_caption,
    show_markup,
    show_paragraph,
)
from graphviz_dash.ui.page.tables import format_row_table
from graphviz_dash.ui.page.widgets import format_failures, format_tiles
from graphviz_dash.ui.state.results import get_comparison
from graphviz_dash.ui.state.store import STORE
from graphviz_dash.units import format_bytes, format_count, format_signed_percent, pluralize

_ALLOCATOR, _DEVICE = "allocator", "whole device"
_MIB: Final = 1 << 20
_MAX_SHARES: Final = 12
"""Rows of each group of a snapshot."""


def render() -> None:
    """Render the page."""
    selection = load_selected_experiment()
    result = get_memory(selection.key)
    if not result.reports:
        show_markup(format_page_heading("memory", selection.entry.name))
        show_markup(format_failures(get_comparison(selection.key)))
        uses = list_allocator_states(selection.experiment.runs)
        _show_allocator(selection, uses)
        _show_snapshots(selection)
        ledgers = get_ledgers(selection.key)
        show_ledgers(selection, ledgers)
        _show_statistics(selection)
        if not ledgers:
            _show_missing_pass(selection, result, has_statistics=bool(uses))
        return
    with st.container(horizontal=True, vertical_alignment="bottom", key="page-head"):
        title = st.container()
        report = _select_report(result)
    with title:
        show_markup(
            format_page_heading("memory", selection.entry.name),
            format_text("p", describe_memory_cost(result, report.run), "sentence"),
        )
    show_markup(format_failures(get_comparison(selection.key)))
    show_markup(_format_tiles(result, report))
    change = result.get_difference(report.run)
    if (
        report.mode.captures_layers
        and change
        and not isinstance(change.activation_overhead, Missing)
    ):
        show_caption(f"{PUBLISHED_OVERHEAD}.")
    _show_parts(selection, result, report)
    show_pools_panel(selection, report)
    _show_snapshots(selection)
    show_ledgers(selection, get_ledgers(selection.key))
    show_markup(_format_stages(result), _format_definitions(report))


def _show_allocator(selection: SelectedExperiment, uses: Sequence[AllocatorState]) -> None:
    if uses:
        show_paragraph(summarize_allocators(uses), "sentence")
    chart = get_figure(selection.key, "memory-allocator", lambda theme: draw_allocator(uses, theme))
    draw_figure(chart, "memory-allocator")


def _show_snapshots(selection: SelectedExperiment) -> None:
    for name, use in list_snapshots(selection.experiment.runs):
        if use.live is None:
            continue
        st.header(f"Live memory of {escape_markdown(name)}", anchor=False)
        show_paragraph(describe_snapshot(use), "sentence")
        groups = [
            (title, _cut_shares(getattr(use.live, attribute)))
            for title, attribute in SNAPSHOT_GROUPS
            if getattr(use.live, attribute)
        ]
        show_markup(format_row_table(SHARE_COLUMNS, groups))


def _cut_shares(shares: Sequence[MemoryShare]) -> list[MemoryShare]:
    """Sum the shares that are not listed in the last one."""
    rows, rest = list(shares[:_MAX_SHARES]), shares[_MAX_SHARES:]
    if rest:
        size, blocks = sum(share.live_bytes for share in rest), sum(share.blocks for share in rest)
        rows.append(MemoryShare(f"{len(rest):,} more", blocks, size))
    return rows


def _show_statistics(selection: SelectedExperiment) -> None:
    memory_uses = [
        (run.name, run.memory) for run in selection.experiment.runs if run.memory is not None
    ]
    if not memory_uses:
        return
    uses = [
        [
            escape_html(name),
            format_bytes(use.reserved_bytes),
            format_bytes(use.allocated_bytes),
            format_bytes(use.peak_reserved_bytes),
            format_bytes(use.peak_allocated_bytes),
            format_count(len(use.pools)),
        ]
        for name, use in memory_uses
    ]
    pools = [
        [
            escape_html(f"{name}, pool {pool.id[0]}/{pool.id[1]}"),
            format_bytes(pool.reserved_bytes),
            format_bytes(pool.allocated_bytes),
            "",
            "",
            f"{format_count(pool.segments)} segments",
        ]
        for name, use in memory_uses
        for pool in use.pools
    ]
    head = ("", "Reserved", "Allocated", "Peak reserved", "Peak allocated", "Private pools")
    groups = [("Caching allocator", uses), *([("Private pools", pools)] if pools else [])]
    show_markup(format_element("div", format_table(head, groups, "figures runs"), "scroll"))


def _show_missing_pass(
    selection: SelectedExperiment, result: MemoryComparison, *, has_statistics: bool
) -> None:
    """Explain the missing pass; briefly if there are statistics."""
    by_reason: dict[str, list[str]] = {}
    for name, missing in result.missing.items():
        by_reason.setdefault(missing.reason, []).append(name)
    reasons = [f"{', '.join(names)}: {reason}." for reason, names in by_reason.items()]
    runs = selection.experiment.runs
    if has_statistics:
        hint, command = build_memory_pass_hint(runs)
        message = (
            "A memory pass records the use of memory and the pool memory of each graph. "
            f"{' '.join(reasons)} {hint}"
        )
        show_markup(
            format_text("p", message, "muted")
            + (format_text("pre", command, "command") if command else "")
        )
        return
    show_missing_content(
        "memory",
        runs,
        "No memory pass in this experiment",
        "A memory pass records the use of each part and the pool memory of graphs.",
        *reasons,
        get_allocator_hint(runs),
    )


def _select_report(result: MemoryComparison) -> MemoryReport:
    """Return the selected report, by default the first with graphs."""
    names = [report.run for report in result.reports]
    graph_runs = [report.run for report in result.reports if report.pools]
    if len(names) == 1:
        return result.reports[0]
    return result[url_state.select_option("run", "Run", names, default=(graph_runs or names)[0])]


def _format_tiles(result: MemoryComparison, report: MemoryReport) -> str:
    change = result.get_difference(report.run)
    pools = sum(pool.reserved for pool in report.pools)
    prepare = report.get_stage(Stage.PREPARE).peak_reserved_bytes
    tiles = build_memory_tiles(result.runs[report.run])
    memory = "device_memory" if report.is_process_only else "iterate_reserved"
    cells = [(tile.label, tile.value, tile.note) for tile in tiles] or [
        (METRICS[memory].title, format_bytes(report.process_bytes), "in steady state")
    ]
    cells += [
        (
            "Private pools",
            format_bytes(pools) if report.pools else "none",
            f"{format_count(len(report.pools))} for {pluralize(len(report.graphs), 'graph')}"
            if report.pools
            else "no graph captured",
        ),
        (
            "Activations",
            format_bytes(report.parts[MemoryPart.ACTIVATIONS]),
            "at the peak, in the default pool",
        ),
        ("Peak during setup", format_bytes(prepare), "reserved, including captures"),
    ]
    if change and not isinstance(change.activation_overhead, Missing):
        cells.insert(
            len(cells) - 1,
            (
                "Activation overhead",
                format_signed_percent(change.activation_overhead),
                f"of the activations of {change.baseline}",
            ),
        )
    return format_tiles(cells)


def _show_parts(
    selection: SelectedExperiment, result: MemoryComparison, report: MemoryReport
) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.header("Memory breakdown at the peak of a step", anchor=False)
        display = url_state.select_option("memory", "Show", [_ALLOCATOR, _DEVICE])
    chart = get_figure(
        selection.key,
        ("memory-parts", display),
        lambda theme: draw_memory(result, theme, outside=display == _DEVICE),
    )
    if chart is not None:
        draw_figure(chart, "memory-parts")
        flush_to_browser()
    change = result.get_difference(report.run)
    visible_reports = [report] if change is None else [result[change.baseline], report]
    everything = _format_part_table(result, result.reports, list_part_rows(result.reports))
    if len(result.reports) > len(visible_reports):
        rows = [
            row
            for row in list_part_rows(visible_reports)
            if change is None or len({row.read(report) for report in visible_reports}) > 1
        ]
        show_markup(
            _format_part_table(result, visible_reports, rows),
            format_details(f"All parts of {pluralize(len(result.reports), 'run')}", everything),
        )
    else:
        show_markup(everything)
    if not all(report.is_process_only for report in result.reports):
        st.caption(
            "The driver did not list these processes. Memory outside the allocator includes "
            "other processes on the device, and so may its changes."
        )
    for name, missing in result.missing.items():
        show_paragraph(f"{name}: {missing.reason}", "muted")


def _format_part_table(
    result: MemoryComparison, reports: Sequence[MemoryReport], rows: Sequence[SizeRow]
) -> str:
    """List parts with their changes, then the totals."""
    groups = [("Parts", rows), ("Total", TOTAL_ROWS)]
    return format_row_table(list_size_columns(result, reports), groups)


def _format_stages(result: MemoryComparison) -> str:
    table = format_row_table(list_stage_columns(result.reports), [("", list(STAGE_LABELS))])
    return format_details("Peak reserved by stage", table)


def _format_definitions(report: MemoryReport) -> str:
    meanings = "".join(
        format_element("li", format_text("b", part.value) + escape_html(f": {meaning}"))
        for part, meaning in PART_MEANINGS.items()
    )
    return format_details(
        "Definitions of parts",
        format_element("ul", meanings),
        format_text("p", f"Method: {report.method}.", "muted"),
    )


def get_ledgers(key: str) -> tuple[LedgerReport, ...]:
    """Return the ledgers of the experiment's runs."""
    return STORE.derive(key, "ledgers", lambda experiment: list_ledger_reports(experiment.runs))


def get_memory(key: str) -> MemoryComparison:
    """Compare the runs with the same baseline."""
    return STORE.derive(key, "memory", lambda _: compare_memory(get_comparison(key)))
