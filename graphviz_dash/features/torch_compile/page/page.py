"""Compile: what torch.compile made of a step, where its time goes, and what to mend first."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.features.torch_compile.analysis.program_tree import Box
from graphviz_dash.features.torch_compile.analysis.report import CompileReport, has_compile_report
from graphviz_dash.features.torch_compile.narrative import (
    cause_title,
    compile_sentence,
    saving_text,
    unexplained_hint,
)
from graphviz_dash.features.torch_compile.page.compile_causes import (
    cause_cards,
    keep_room,
    step_parts,
)
from graphviz_dash.features.torch_compile.page.program import program_tree_view
from graphviz_dash.features.torch_compile.page.state import compiled
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import (
    Chosen,
    choose_run,
    chosen_experiment,
    empty,
    nothing,
)
from graphviz_dash.ui.page.help import page_heading
from graphviz_dash.ui.page.markup import element, show, text
from graphviz_dash.ui.page.navigation import link
from graphviz_dash.ui.page.widgets import facts, tiles
from graphviz_dash.units import counted, format_count, format_ns, format_percent

_TIME, _CAUSE = "time", "cause"
_STEP_PARTS = "step-parts"


def render() -> None:
    """The page."""
    chosen = chosen_experiment()
    runs = [run for run in chosen.experiment.runs if has_compile_report(run)]
    if not runs:
        show(page_heading("compile", text(chosen.entry.name)))
        nothing(
            "compile",
            chosen.experiment.runs,
            "Nothing here was compiled",
            "Runs of the modes compile, compile-default and compile-graph are explained here, and "
            "recorded programs that call torch.compile; graphviz-dash import reads TORCH_TRACE "
            "logs beside a trace.",
        )
        return
    explained = next((run.name for run in runs if run.compilation is not None), None)
    title = st.container()
    with st.container(width=640):
        run = choose_run(runs, default=explained) if len(runs) > 1 else runs[0]
    report = compiled(chosen.key, run.name)
    if isinstance(report, Missing):
        empty("Nothing is known of its compilation", report.reason)
        return
    with title:
        show(
            page_heading("compile", text(f"{chosen.entry.name}, {run.name}")),
            element("p", text(compile_sentence(report)), "sentence"),
        )
    show(_tiles(report))
    st.header("Where the step's time goes", anchor=False)
    chart = st.container(key=_STEP_PARTS)
    keep_room(chosen, report, _STEP_PARTS)
    if not report.compilation.sources:
        lead, command = unexplained_hint(run, chosen.experiment.runs)
        show(
            element("p", text(lead), "muted"),
            element("pre", text(command), "command") if command else "",
        )
    _causes(report)
    _program(chosen, run, report)
    _sources(report)
    # Last: Plotly keeps a browser busy for longer than all the rest of the page does.
    with chart:
        step_parts(chosen, report)


def _tiles(report: CompileReport) -> str:
    step = None if isinstance(report.step_ns, Missing) else report.step_ns
    saved = [cause.saves_ns for cause in report.causes if not isinstance(cause.saves_ns, Missing)]
    cells = [
        ("Step", format_ns(step), "without a profiler" if step else "no step was timed"),
        (
            "Graph launches",
            format_count(None if report.replays is None else round(report.replays)),
            "by compiled code, in each step",
        ),
        *_compilations(report),
    ]
    if saved and step:
        first = next(cause for cause in report.causes if cause.saves_ns == max(saved))
        sure = first.saves_range is None or first.saves_range.is_clear
        share = f"{format_percent(max(saved) / step)} of the step"
        note = share if sure else f"{share}, too small to tell"
        cells.append(("Mending the first saves", format_ns(max(saved)), note))
    return tiles(cells)


def _compilations(report: CompileReport) -> tuple[tuple[str, str, str], ...]:
    """What the compiler did, as far as it was recorded: a trace alone does not tell."""
    made = report.compilation
    if not made.sources:
        return tuple(
            (title, format_count(None), "not recorded") for title in ("Graph breaks", "Recompiles")
        )
    lines = {graph_break.lines[:1] for graph_break in made.breaks}
    spent = sum(frame.compile_ns or 0 for frame in made.frames)
    where = f"by line, in {counted(len(made.frames), 'compilation')}"
    return (
        ("Graph breaks", format_count(len(lines)), where),
        ("Recompiles", format_count(len(made.recompiles)), f"{format_ns(spent)} spent compiling"),
    )


def _causes(report: CompileReport) -> None:
    if not report.causes:
        return
    st.header("What to mend first", anchor=False)
    show(*cause_cards(report.causes))


def _program(chosen: Chosen, run: Run, report: CompileReport) -> None:
    if not report.tree.roots:
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.header("The compiled program", anchor=False)
        colour = url_state.choose("colour", "Colour by", [_TIME, _CAUSE])
    step = None if isinstance(report.step_ns, Missing) else report.step_ns
    selected = program_tree_view(
        report.tree, step, colour=colour, selected=url_state.value("box"), key="program"
    )
    box = next((each for each in report.tree.walk() if each.id == selected), None)
    if box is not None:
        _box(chosen, run, report, box)


def _box(chosen: Chosen, run: Run, report: CompileReport, box: Box) -> None:
    """What is known of one box, and where it leads."""
    where = f", {box.line.text}" if box.line is not None else ""
    show(element("h2", text(f"{box.kind.value} {box.title}{where}")), facts(box.facts))
    mends = "; ".join(
        f"{cause_title(report.causes[index])} ({saving_text(report.causes[index])})"
        for index in box.causes
    )
    if mends:
        show(element("p", text(f"To mend: {mends}.")))
    query = {"experiment": chosen.entry.name}
    with st.container(horizontal=True):
        if box.graph is not None:
            link("graph", "Its graph", query | {"run": run.name, "graph": box.graph})
        if run.replay_trace is not None:
            link("timeline", "The step in the timeline", query | {"runs": run.name})
    if box.code is not None:
        st.code(box.code, language="python", height=420)


def _sources(report: CompileReport) -> None:
    sources = report.compilation.sources
    if not sources:
        return
    with st.expander("Where these facts come from", icon=":material/menu_book:"):
        rows = "".join(
            element("dt", text(source.fact.value))
            + element("dd", text(source.source or f"absent: {source.missing}"))
            for source in sources
        )
        version = report.compilation.torch or "a version that is not told"
        show(element("p", text(f"torch {version}")), element("dl", rows, "sources"))
