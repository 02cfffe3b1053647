"""Memory: the breakdown of device memory in each run, and what graphs cost of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from graphviz_dash.analysis.memory.allocator import AllocatorUse, allocator_uses
from graphviz_dash.analysis.memory.report import MemoryDifference, MemoryPart, MemoryReport
from graphviz_dash.features.memory.chart import allocator_chart, memory_chart
from graphviz_dash.features.memory.comparison import MemoryComparison
from graphviz_dash.features.memory.narrative import (
    PART_MEANINGS,
    PUBLISHED_OVERHEAD,
    allocator_hint,
    allocator_sentence,
    memory_pass_hint,
    memory_sentence,
)
from graphviz_dash.features.memory.page.memory_pools import pools_panel
from graphviz_dash.features.memory.page.state import memory
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.memory import Stage
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import Chosen, chosen_experiment, draw, figure, let_draw, nothing
from graphviz_dash.ui.page.help import page_heading
from graphviz_dash.ui.page.markup import element, plain, show, table, text
from graphviz_dash.ui.page.widgets import failure_notes, tiles
from graphviz_dash.ui.state.results import comparison
from graphviz_dash.units import (
    counted,
    format_bytes,
    format_count,
    format_signed_bytes,
    format_signed_percent,
)

_ALLOCATOR, _DEVICE = "allocator", "whole device"
_MIB: Final = 1 << 20


def render() -> None:
    """The page."""
    chosen = chosen_experiment()
    result = memory(chosen.key)
    if not result.reports:
        show(page_heading("memory", text(chosen.entry.name)))
        show(failure_notes(comparison(chosen.key)))
        uses = allocator_uses(chosen.experiment.runs)
        _allocator(chosen, uses)
        _statistics(chosen)
        _nothing(chosen, result, known=bool(uses))
        return
    with st.container(horizontal=True, vertical_alignment="bottom", key="page-head"):
        title = st.container()
        report = _report(result)
    with title:
        show(
            page_heading("memory", text(chosen.entry.name)),
            element("p", text(memory_sentence(result)), "sentence"),
        )
    show(failure_notes(comparison(chosen.key)))
    show(_tiles(result, report))
    change = result.difference(report.run)
    if (
        report.mode.captures_layers
        and change
        and not isinstance(change.activation_overhead, Missing)
    ):
        st.caption(plain(f"{PUBLISHED_OVERHEAD}."))
    _parts(chosen, result)
    pools_panel(chosen, report)
    _stages(result)
    _terms(report)


def _allocator(chosen: Chosen, uses: Sequence[AllocatorUse]) -> None:
    """What the allocator's own statistics come to, of runs that have no more."""
    show("".join(element("p", text(allocator_sentence(use)), "sentence") for use in uses))
    chart = figure(chosen.key, "memory-allocator", lambda seen: allocator_chart(uses, seen))
    if chart is not None:
        draw(chart, "memory-allocator")


def _statistics(chosen: Chosen) -> None:
    """The allocator's own statistics, of runs that have no more: imported snapshots, recordings."""
    measured = [(run.name, run.memory) for run in chosen.experiment.runs if run.memory is not None]
    if not measured:
        return
    uses = [
        [
            text(name),
            format_bytes(use.reserved_bytes),
            format_bytes(use.allocated_bytes),
            format_bytes(use.peak_reserved_bytes),
            format_bytes(use.peak_allocated_bytes),
            format_count(len(use.pools)),
        ]
        for name, use in measured
    ]
    pools = [
        [
            text(f"{name}, pool {pool.id[0]}/{pool.id[1]}"),
            format_bytes(pool.reserved_bytes),
            format_bytes(pool.allocated_bytes),
            "",
            "",
            f"{format_count(pool.segments)} segments",
        ]
        for name, use in measured
        for pool in use.pools
    ]
    head = ("", "Reserved", "Allocated", "Peak reserved", "Peak allocated", "Private pools")
    groups = [("The caching allocator", uses), *([("Private pools", pools)] if pools else [])]
    show(element("div", table(head, groups, "figures runs"), "scroll"))


def _nothing(chosen: Chosen, result: MemoryComparison, *, known: bool) -> None:
    """Why no run has a memory pass, which ``known`` statistics make less of a loss."""
    by_reason: dict[str, list[str]] = {}
    for name, missing in result.without.items():
        by_reason.setdefault(missing.reason, []).append(name)
    reasons = [f"{', '.join(names)}: {reason}." for reason, names in by_reason.items()]
    runs = chosen.experiment.runs
    if known:
        how, command = memory_pass_hint(runs)
        said = (
            "What the memory is for, and which graph uses which part of a pool, a memory pass "
            f"tells. {' '.join(reasons)} {how}"
        )
        show(
            element("p", text(said), "muted")
            + (element("pre", text(command), "command") if command else "")
        )
        return
    nothing(
        "memory",
        runs,
        "No run of this experiment has a memory pass",
        "A memory pass says what each part of it is for, and what graphs use of their pools.",
        *reasons,
        allocator_hint(runs),
    )


def _report(result: MemoryComparison) -> MemoryReport:
    """The run that is looked into: the chosen one, or the first with graphs."""
    names = [report.run for report in result.reports]
    graphed = [report.run for report in result.reports if report.pools]
    if len(names) == 1:
        return result.reports[0]
    return result[url_state.choose("run", "Run", names, default=(graphed or names)[0])]


def _tiles(result: MemoryComparison, report: MemoryReport) -> str:
    change = result.difference(report.run)
    pools = sum(pool.reserved for pool in report.pools)
    prepare = report.stage(Stage.PREPARE).peak_reserved_bytes
    cells = [
        (
            "Device memory" if report.alone else "Reserved",
            format_bytes(report.own),
            f"{format_signed_bytes(change.own)} against {change.baseline}" if change else "",
        ),
        (
            "Private pools",
            format_bytes(pools) if report.pools else "none",
            f"{format_count(len(report.pools))} for {counted(len(report.graphs), 'graph')}"
            if report.pools
            else "no graph was captured",
        ),
        (
            "Activations",
            format_bytes(report.parts[MemoryPart.ACTIVATIONS]),
            "at the peak, in the default pool",
        ),
        ("Peak during setup", format_bytes(prepare), "reserved, captures included"),
    ]
    if change and not isinstance(change.activation_overhead, Missing):
        cells.insert(
            3,
            (
                "Activation overhead",
                format_signed_percent(change.activation_overhead),
                f"of the activations of {change.baseline}",
            ),
        )
    return tiles(cells)


def _parts(chosen: Chosen, result: MemoryComparison) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.header("Memory breakdown at the peak of a step", anchor=False)
        shown = url_state.choose("memory", "Show", [_ALLOCATOR, _DEVICE])
    chart = figure(
        chosen.key,
        ("memory-parts", shown),
        lambda seen: memory_chart(result, seen, outside=shown == _DEVICE),
    )
    if chart is not None:
        draw(chart, "memory-parts")
        let_draw()
    show(element("div", _part_table(result), "scroll"))
    if not all(report.alone for report in result.reports):
        st.caption(
            "The driver did not list these processes, so what lies outside the allocator has in it "
            "whatever else was on the device, and its changes may be another process's."
        )
    for name, missing in result.without.items():
        show(element("p", text(f"{name}: {missing.reason}"), "muted"))


def _part_table(result: MemoryComparison) -> str:
    head = ["", *(text(report.run) for report in result.reports)]
    rows = [
        [
            element("abbr", text(part.value), title=PART_MEANINGS[part], tabindex="0"),
            *(
                _cell(report.parts[part], change.parts[part] if change else None)
                for report, change in _changes(result)
            ),
        ]
        for part in MemoryPart
        if any(report.parts[part] for report in result.reports)
    ]
    totals = [
        [
            text("reserved"),
            *(
                _cell(report.reserved, change.reserved if change else None)
                for report, change in _changes(result)
            ),
        ],
        [
            text("device memory"),
            *(
                _cell(report.total, change.total if change else None)
                for report, change in _changes(result)
            ),
        ],
    ]
    return table(head, [("Parts", rows), ("Together", totals)], "figures runs")


def _changes(
    result: MemoryComparison,
) -> list[tuple[MemoryReport, MemoryDifference | None]]:
    return [(report, result.difference(report.run)) for report in result.reports]


def _cell(size: int, change: int | None) -> str:
    value = element("span", text(format_bytes(size)), "num")
    return value + (element("span", text(format_signed_bytes(change)), "spread") if change else "")


def _stages(result: MemoryComparison) -> None:
    st.header("Peak reserved by stage", anchor=False)
    head = ["", *(text(report.run) for report in result.reports)]
    rows = [
        [
            text(_STAGES[stage]),
            *(
                element("span", text(format_bytes(report.stage(stage).peak_reserved_bytes)), "num")
                for report in result.reports
            ),
        ]
        for stage in Stage
        if stage is not Stage.START
    ]
    show(
        element(
            "div", table(head, [("Peak reserved in each stage", rows)], "figures runs"), "scroll"
        )
    )


_STAGES: Final = {
    Stage.BUILD: "model and inputs are built",
    Stage.WARM_UP: "warm-up",
    Stage.PREPARE: "made ready: graphs captured",
    Stage.ITERATE: "iterations",
}


def _terms(report: MemoryReport) -> None:
    with st.expander("What each part is", icon=":material/menu_book:"):
        show(
            element(
                "ul",
                "".join(
                    element("li", element("b", text(part.value)) + text(f": {meaning}"))
                    for part, meaning in PART_MEANINGS.items()
                ),
            ),
            element("p", text(f"How it was read: {report.method}."), "muted"),
        )
