"""Compile: how torch.compile ran a step, its time breakdown, and the top fixes."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.features.torch_compile.analysis.program_tree import TreeBox
from graphviz_dash.features.torch_compile.analysis.report import CompileReport, has_compile_report
from graphviz_dash.features.torch_compile.narrative import (
    build_compile_log_hint,
    format_saving,
    get_cause_title,
    name_step,
    summarize_compilation,
)
from graphviz_dash.features.torch_compile.page.compile_causes import (
    generate_cause_cards,
    render_step_parts,
    reserve_height,
)
from graphviz_dash.features.torch_compile.page.program import render_program_tree
from graphviz_dash.features.torch_compile.page.state import get_compile_report
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import (
    SelectedExperiment,
    load_selected_experiment,
    select_run,
    show_empty_state,
    show_missing_content,
)
from graphviz_dash.ui.page.help import format_page_heading
from graphviz_dash.ui.page.markup import format_element, format_text, show_markup, show_paragraph
from graphviz_dash.ui.page.navigation import show_link
from graphviz_dash.ui.page.widgets import format_facts, format_tiles
from graphviz_dash.units import format_count, format_ns, format_percent, pluralize

_TIME, _CAUSE = "time", "cause"
_STEP_PARTS = "step-parts"


def render() -> None:
    """Render the page."""
    selection = load_selected_experiment()
    runs = [run for run in selection.experiment.runs if has_compile_report(run)]
    if not runs:
        show_markup(format_page_heading("compile", selection.entry.name))
        show_missing_content(
            "compile",
            selection.experiment.runs,
            "No compiled runs",
            "This page shows runs of the modes compile, compile-default and compile-graph, "
            "and recorded programs that call torch.compile. graphviz-dash import reads "
            "TORCH_TRACE logs next to a trace.",
        )
        return
    explained = next((run.name for run in runs if run.compilation is not None), None)
    title = st.container()
    with st.container(width=640):
        run = select_run(runs, default=explained) if len(runs) > 1 else runs[0]
    report = get_compile_report(selection.key, run.name)
    if isinstance(report, Missing):
        show_empty_state("No compilation data", report.reason)
        return
    with title:
        show_markup(
            format_page_heading("compile", f"{selection.entry.name}, {run.name}"),
            format_text("p", summarize_compilation(report), "sentence"),
        )
    show_markup(_format_tiles(report))
    st.header("Step time breakdown", anchor=False)
    chart = st.container(key=_STEP_PARTS)
    reserve_height(selection, report, _STEP_PARTS)
    if not report.compilation.sources:
        lead, command = build_compile_log_hint(run, selection.experiment.runs)
        show_markup(
            format_text("p", lead, "muted"),
            format_text("pre", command, "command") if command else "",
        )
    _show_causes(report)
    _show_program(selection, run, report)
    _show_sources(report)
    # Last, because Plotly keeps the browser busy longer than the rest of the page.
    with chart:
        render_step_parts(selection, report)


def _format_tiles(report: CompileReport) -> str:
    step = None if isinstance(report.step_ns, Missing) else report.step_ns
    saved = [cause.gain_ns for cause in report.causes if not isinstance(cause.gain_ns, Missing)]
    traced_ns = None if isinstance(report.time, Missing) else report.time.median_ns
    cells = [
        (
            name_step(report).capitalize(),
            format_ns(step or traced_ns),
            "unprofiled" if step else "under the profiler" if traced_ns else "no step was timed",
        ),
        (
            "Graph launches",
            format_count(None if report.replays is None else round(report.replays)),
            "by compiled code, per step",
        ),
        *_list_compilations(report),
    ]
    if saved and step:
        first = next(cause for cause in report.causes if cause.gain_ns == max(saved))
        is_significant = first.gain_range is None or first.gain_range.is_significant
        share = f"{format_percent(max(saved) / step)} of the step"
        note = share if is_significant else f"{share}, within noise"
        cells.append(("Top fix saves", format_ns(max(saved)), note))
    return format_tiles(cells)


def _list_compilations(report: CompileReport) -> tuple[tuple[str, str, str], ...]:
    """List compiler activity, if recorded; a trace alone does not contain it."""
    compilation = report.compilation
    if not compilation.sources:
        return tuple(
            (title, format_count(None), "not recorded") for title in ("Graph breaks", "Recompiles")
        )
    lines = {graph_break.lines[:1] for graph_break in compilation.breaks}
    times = [frame.compile_ns for frame in compilation.frames if frame.compile_ns is not None]
    spent = f"{format_ns(sum(times))} spent compiling" if times else "compile time not recorded"
    places = f", in {pluralize(len(compilation.frames), 'compilation')}"
    return (
        (
            "Graph breaks",
            format_count(len(lines)),
            f"by line{places if compilation.frames else ''}",
        ),
        ("Recompiles", format_count(len(compilation.recompiles)), spent),
    )


def _show_causes(report: CompileReport) -> None:
    if not report.causes:
        return
    st.header("Top fixes", anchor=False)
    show_markup(*generate_cause_cards(report.causes))


def _show_program(selection: SelectedExperiment, run: Run, report: CompileReport) -> None:
    if not report.tree.roots:
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.header("Compiled program", anchor=False)
        colour = url_state.select_option("colour", "Colour by", [_TIME, _CAUSE])
    step = None if isinstance(report.step_ns, Missing) else report.step_ns
    selected = render_program_tree(
        report.tree, step, colour=colour, selected=url_state.get_value("box"), key="program"
    )
    box = next((node for node in report.tree.walk() if node.id == selected), None)
    if box is not None:
        _show_box(selection, run, report, box)


def _show_box(selection: SelectedExperiment, run: Run, report: CompileReport, box: TreeBox) -> None:
    location = f", {box.line.text}" if box.line is not None else ""
    show_markup(
        format_text("h2", f"{box.kind.value} {box.title}{location}"),
        format_facts(box.facts),
    )
    fixes = "; ".join(
        f"{get_cause_title(report.causes[index])} ({format_saving(report.causes[index])})"
        for index in box.causes
    )
    if fixes:
        show_paragraph(f"Fix: {fixes}.")
    query = {"experiment": selection.entry.name}
    with st.container(horizontal=True):
        if box.graph is not None:
            show_link("graph", "Graph", query | {"run": run.name, "graph": box.graph})
        if run.replay_trace is not None:
            show_link("timeline", "Step in the timeline", query | {"runs": run.name})
    if box.code is not None:
        st.code(box.code, language="python", height=420)


def _show_sources(report: CompileReport) -> None:
    sources = report.compilation.sources
    if not sources:
        return
    with st.expander("Data sources", icon=":material/menu_book:"):
        rows = "".join(
            format_text("dt", source.fact.value)
            + format_text("dd", source.source or f"not available: {source.missing_reason}")
            for source in sources
        )
        version = report.compilation.torch or "unknown version"
        show_markup(
            format_text("p", f"torch {version}"),
            format_element("dl", rows, "sources"),
        )
