"""Compare: the runs of one experiment side by side, figure by figure and kernel by kernel."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import streamlit as st

from graphviz_dash.analysis.comparison.break_even import pays_text
from graphviz_dash.analysis.comparison.result import Comparison, Evidence, RunComparison
from graphviz_dash.analysis.failures import refused, when
from graphviz_dash.analysis.metrics.kernel_table import KernelTable
from graphviz_dash.analysis.metrics.registry import SECTIONS, Better, Metric
from graphviz_dash.analysis.metrics.run_metrics import Figure
from graphviz_dash.analysis.prediction.evaluation import scored_text
from graphviz_dash.analysis.trace.kernel_names import short_name
from graphviz_dash.charts.figures.comparison import (
    break_even_chart,
    iterations_chart,
    where_time_goes_chart,
)
from graphviz_dash.errors import printable
from graphviz_dash.narrative.numbers import spread_text
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import chosen_experiment, draw, empty, figure
from graphviz_dash.ui.page.markup import element, plain, show, table, text
from graphviz_dash.ui.page.navigation import link
from graphviz_dash.ui.page.widgets import doctor_notes, failure_notes, signed, tiles
from graphviz_dash.ui.panels.equation import answer_markup, equation_panel, figure_anchor
from graphviz_dash.ui.panels.recorded import recorded_section
from graphviz_dash.ui.state.results import comparison, kernels
from graphviz_dash.units import format_count, format_ns, format_percent

_TILES: Final = {
    "speedup": "Speedup",
    "recorded_speedup": "Speedup in its loop",
    "recorded_step": "Step in its loop",
    "step_time": "Step time",
    "launch_cpu_time": "Launch CPU time",
    "break_even": "Break-even replays",
    "peak_reserved_change": "Peak memory",
}

_OF_THE_STEP: Final = frozenset(
    {"speedup", "recorded_speedup", "step_saving", "recorded_saving", "break_even"}
)
"""What says nothing where replays do other work than the step."""


def render() -> None:
    """The page."""
    chosen = chosen_experiment()
    result = comparison(chosen.key)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        title = st.container()
        run = _run(result)
    with title:
        show(
            element("h1", text(chosen.entry.name)),
            answer_markup(run.answer if run else result.answer, _evidence(result, run)),
        )
    if notes := failure_notes(result) + doctor_notes(result):
        show(element("div", notes, id=Evidence.FAILURES.value))
    examined = [one for one in chosen.experiment.runs if one.doctor and one.doctor.findings]
    for one in examined:
        which = f" in {plain(one.name)}" if len(examined) > 1 else ""
        query = {url_state.EXPERIMENT: chosen.entry.name, "run": one.name}
        link("doctor", f"What the doctor found{which}, and what to write instead", query)
    _tracebacks(result)
    if run is not None:
        show(_tiles(result, run))
        link(
            "memory",
            "What its memory is made of",
            {url_state.EXPERIMENT: chosen.entry.name, "run": run.name},
        )
        equation_panel(chosen.key, result, run)
    _predictions(result)
    _charts(chosen.key, result, run)
    _weak(result)
    st.header("Figures", anchor=Evidence.FIGURES.value)
    show(element("div", _figures(result), "scroll"))
    st.caption(
        "Spreads are the 25th to the 75th percentile unless they say 95%. Hover a name for its "
        "definition. Clean figures come from processes to which no profiler was ever attached."
    )
    if recorded := recorded_section(result):
        st.header("What the recorder saw", anchor=False)
        show(recorded)
    st.header("Kernels per traced step", anchor=False)
    _kernels(kernels(chosen.key), run)
    if run is not None:
        _stayed_eager(run)


def _evidence(result: Comparison, run: RunComparison | None) -> frozenset[Evidence]:
    """What the page shows of the evidence of the answer."""
    lacking = set()
    if run is None or run.waterfall is None:
        lacking.add(Evidence.WATERFALL)
    if all(one.where is None for one in result.runs):
        lacking.add(Evidence.WHERE)
    if run is None or run["break_even"].value is None:
        lacking.add(Evidence.BREAK_EVEN)
    return frozenset(Evidence) - lacking


def _tracebacks(result: Comparison) -> None:
    for run in result.runs:
        for place, failure in enumerate(run.failures):
            if failure.traceback and not refused(failure):
                label = f"Traceback of {plain(run.name)}, {when(failure)}"
                lines = [printable(line) for line in failure.traceback.splitlines()]
                with st.expander(label, icon=":material/bug_report:", key=f"{run.name}-{place}"):
                    st.code("\n".join(lines), language=None, wrap_lines=True)


def _run(result: Comparison) -> RunComparison | None:
    """The run that is held against the baseline: of those that could be, the chosen one."""
    best = result.best
    if best is None:
        return None
    names = [run.name for run in result.runs if run.speedup.value is not None]
    if len(names) == 1:
        return best
    # Each of several ranks is held against the baseline of its own.
    baselines = {result[name].baseline for name in names}
    label = f"Against {plain(best.baseline)}" if len(baselines) == 1 else "Against its own rank"
    return result[url_state.choose("run", label, names, default=best.name)]


def _tiles(result: Comparison, run: RunComparison) -> str:
    base = result[run.baseline] if run.baseline else None
    cells = []
    for metric, label in _TILES.items():
        figure = run[metric]
        if figure.value is None:
            continue
        before = base[metric] if base else None
        note = f"{base.name} {before.text}" if base and before and before.value is not None else ""
        if metric == "break_even":
            note = f"for {run['one_off_cost'].text} spent once"
        if metric == "peak_reserved_change":
            note = f"of {run['peak_reserved'].text} reserved"
        if metric in _OF_THE_STEP and not run.sound:
            note = "replays do other work"
        shown = signed(figure) if metric == "peak_reserved_change" else figure.text
        cells.append((label, shown, note or spread_text(figure)))
    return tiles(cells)


def _charts(key: str, result: Comparison, run: RunComparison | None) -> None:
    where = figure(key, "where", partial(where_time_goes_chart, result))
    if where is not None:
        st.header("Where the time of a step goes", anchor=Evidence.WHERE.value)
        draw(where, "where")
        show(*(element("p", text(_longer(run)), "muted") for run in result.runs))
    left, right = st.columns(2, gap="large")
    iterations = figure(key, "iterations", partial(iterations_chart, result))
    if iterations is not None:
        with left:
            st.header(_iterations_title(result), anchor=Evidence.ITERATIONS.value)
            draw(iterations, "iterations")
            if any(run.run.recording for run in result.runs):
                st.caption(
                    "Recorded steps are from one boundary to the next on the CPU, which runs ahead "
                    "of the GPU until its queue is full; the step in the program's loop is their "
                    "sum and the wait at the end, over their number."
                )
    pays = None
    if run is not None:
        pays = figure(key, ("pays", run.name), partial(break_even_chart, result, run))
    if pays is not None and run is not None:
        with right:
            st.header(
                f"When {plain(run.name)} has paid for itself", anchor=Evidence.BREAK_EVEN.value
            )
            draw(pays, "pays")
            st.caption(plain(pays_text(run.pays)) if run.pays else "")


def _longer(run: RunComparison) -> str:
    """Why a bar is longer than the step that it divides; nothing where it is not."""
    where = run.where
    if where is None or where.excess_ns is None:
        return ""
    ranks = "" if run.run.manifest.rank is None else ", waiting for other ranks included"
    return (
        f"{run.name}: under the profiler its GPU work takes {format_ns(where.busy_ns)}{ranks}, "
        f"longer than its step of {format_ns(where.step_ns)}, where the bar is marked: how long "
        "the GPU is idle cannot be told."
    )


def _iterations_title(result: Comparison) -> str:
    clean = any(run.run.clean for run in result.runs)
    recorded = any(run.run.recording for run in result.runs)
    kinds = " and ".join(["clean iteration"] * clean + ["recorded step"] * recorded)
    return f"Every {kinds}"


def _weak(result: Comparison) -> None:
    notes = [
        element("li", text(f"{run.name}: {weakness.text}. {weakness.advice}".strip()))
        for run in result.runs
        for weakness in run.weaknesses
    ]
    if notes:
        with st.expander(f"Weak figures ({len(notes)})", icon=":material/warning:"):
            show(element("ul", "".join(notes), "notes"))


def _predictions(result: Comparison) -> None:
    told = [run for run in result.runs if run.prediction is not None]
    if not told:
        return
    st.subheader("As predicted from the eager trace", anchor="predicted")
    for run in told:
        name = element("strong", text(run.name)) if len(told) > 1 else ""
        said = scored_text(run.prediction, run["step_time"].value) if run.prediction else ""
        show(element("p", f"{name} {text(said)}"))
    st.caption(
        "From the kernels of the eager trace, the order of its streams and a calibration of the "
        "GPU; no graph was looked at. `graphviz-dash predict` gives the reasons in numbers."
    )


def _figures(result: Comparison) -> str:
    names = [run.name for run in result.runs]
    groups = [
        (text(section), [_row(result, metric) for metric in metrics if _anywhere(result, metric)])
        for section, metrics in SECTIONS.items()
    ]
    head = ["", *(text(name) for name in names), "pass"]
    return table(head, [group for group in groups if group[1]], "figures")


def _anywhere(result: Comparison, metric: Metric) -> bool:
    return any(run[metric.id].value is not None for run in result.runs)


def _row(result: Comparison, metric: Metric) -> list[str]:
    best = _best_value(result, metric)
    cells = [
        _cell(run[metric.id], best is not None and run[metric.id].text == best)
        for run in result.runs
    ]
    title = f"{metric.title}, est." if metric.estimate else metric.title
    name = element(
        "abbr", text(title), id=figure_anchor(metric.id), title=metric.formula, tabindex="0"
    )
    return [name, *cells, element("span", text(metric.source.value), "pass")]


def _cell(figure: Figure, is_best: bool) -> str:
    if figure.value is None:
        return element("span", text(figure.text), "absent", title=figure.reason or "")
    value = element("span", text(figure.text), "num better" if is_best else "num")
    spread = spread_text(figure)
    return value + (element("span", text(spread), "spread") if spread else "")


def _best_value(result: Comparison, metric: Metric) -> str | None:
    """The best value, as it is shown, of the runs whose replays do the work of the step; None where
    there is nothing to be better at, and where all that is shown is alike."""
    known = [(run[metric.id].value, run[metric.id].text) for run in result.runs if run.sound]
    told = [(value, shown) for value, shown in known if value is not None]
    if metric.better is Better.NONE or len({shown for _, shown in told}) < 2:
        return None
    return min(told)[1] if metric.better is Better.LOWER else max(told)[1]


def _kernels(found: KernelTable, run: RunComparison | None) -> None:
    if not found.rows:
        reasons = [f"{name}: {why}" for name, why in found.without.items()]
        empty("No kernels to show", *(reasons or ["No run has a traced pass."]))
        return
    wanted = url_state.search("kernel", "Search kernels", "Search by name or category")
    places = _places(found, run)
    rows = [
        row
        for row in found.rows
        if any(row.uses[place] for place in places)
        and (wanted in row.name.lower() or wanted == row.category.value)
    ]
    data: dict[str, list[Any]] = {
        "Kernel": [short_name(printable(row.name)) for row in rows],
        "Category": [row.category.value for row in rows],
    }
    config: dict[str, Any] = {"Kernel": st.column_config.TextColumn(width=290)}
    for place in places:
        name = printable(found.runs[place])
        uses = [row.uses[place] for row in rows]
        data[f"{name}, count"] = [use.count if use else None for use in uses]
        data[f"{name}, us"] = [use.total_ns / 1e3 if use else None for use in uses]
        config[f"{name}, count"] = st.column_config.NumberColumn(format="%d")
        config[f"{name}, us"] = st.column_config.NumberColumn(format="%.2f")
        if found.changes(place):
            data["Change, us"] = [_us(row.changes[place]) for row in rows]
            config["Change, us"] = st.column_config.NumberColumn(format="%+.2f")
    data["Full name"] = [printable(row.name) for row in rows]
    st.dataframe(
        data,
        column_config=config,
        hide_index=True,
        height="content" if len(rows) < 16 else 560,
        placeholder="–",
        alt="Kernels of the baseline and of the run per traced step",
    )
    changed = any(found.changes(place) for place in places)
    order = "largest change" if changed else "longest"
    st.caption(
        f"{len(rows)} of {len(found.rows)} kernels, copies and sets, {order} first. Counts "
        "and times are medians over the traced steps; their sums exceed the busy time where work "
        "overlaps. Click a heading to sort."
    )


def _stayed_eager(run: RunComparison) -> None:
    st.header(f"What stayed eager in {plain(run.name)}", anchor=False)
    if run.coverage is None:
        st.caption(plain(run.coverage_reason or ""))
        return
    if not run.coverage.eager:
        st.caption("Nothing: graph launches started all GPU work of the traced steps.")
        return
    by_reason: dict[str, list[list[str]]] = {}
    for group in run.coverage.eager:
        by_reason.setdefault(group.reason.value, []).append(
            [
                text(short_name(printable(group.operator)) if group.operator else "–"),
                element("span", text(format_count(group.count)), "num"),
                element("span", text(format_ns(group.total_ns)), "num"),
                element("span", text(format_percent(group.share)), "num"),
            ]
        )
    groups = [(text(reason.capitalize()), rows) for reason, rows in by_reason.items()]
    head = ["Operator", "Work per step", "Time per step", "Of GPU time"]
    show(element("div", table(head, groups, "figures runs"), "scroll"))
    st.caption(
        f"{run['graph_work_share'].text} of the kernels, copies and sets and "
        f"{run['graph_time_share'].text} of their time ran from graphs. Told by the operators and "
        "ranges around each launch of the traced pass."
    )


def _places(found: KernelTable, run: RunComparison | None) -> list[int]:
    """The columns of the table to show: the baseline and the run, or all where none is compared."""
    wanted = {run.baseline, run.name} if run else set(found.runs)
    return [
        place
        for place, name in enumerate(found.runs)
        if name in wanted and name not in found.without
    ]


def _us(ns: float | None) -> float | None:
    return None if ns is None else ns / 1e3
