"""Compare: the runs of one experiment side by side, figure by figure and kernel by kernel."""

from __future__ import annotations

from typing import Any, Final

import streamlit as st

from graphviz_dash.analysis.compare import Comparison, RunComparison
from graphviz_dash.analysis.figures import Figure
from graphviz_dash.analysis.kernels import KernelTable
from graphviz_dash.analysis.metrics import SECTIONS, Better, Metric
from graphviz_dash.analysis.names import short_name
from graphviz_dash.charts.comparison import (
    break_even_chart,
    iterations_chart,
    where_time_goes_chart,
)
from graphviz_dash.errors import printable
from graphviz_dash.ui.frame import choose_experiment, empty, theme
from graphviz_dash.ui.markup import element, show, table, text
from graphviz_dash.ui.pieces import failure_notes, variables
from graphviz_dash.ui.results import comparison, kernels
from graphviz_dash.units import format_ns

_TILES: Final = {
    "speedup": "Speedup",
    "step_time": "Step time",
    "launch_cpu_time": "Launch CPU time",
    "break_even": "Break-even replays",
    "peak_reserved_change": "Peak memory",
}
_CHART: Final = {"displayModeBar": False, "displaylogo": False}


def render() -> None:
    """The page."""
    show(variables(theme()))
    chosen = choose_experiment()
    result = comparison(chosen.key)
    show(element("p", text(result.headline), "sentence"), failure_notes(result))
    best = max(
        (run for run in result.runs if run["speedup"].value is not None),
        key=lambda run: run["speedup"].value or 0.0,
        default=None,
    )
    if best is not None:
        show(_tiles(result, best))
    _charts(result, best)
    _weak(result)
    st.subheader("Figures", anchor=False)
    show(element("div", _figures(result), "scroll"))
    st.caption(
        "Spreads are the 25th to the 75th percentile unless they say 95%. Hover a name for its "
        "definition. Clean figures come from processes to which no profiler was ever attached."
    )
    st.subheader("Kernels per traced step", anchor=False)
    _kernels(kernels(chosen.key))


def _tiles(result: Comparison, best: RunComparison) -> str:
    base = result[best.baseline] if best.baseline else None
    cells = []
    for metric, label in _TILES.items():
        figure = best[metric]
        if figure.value is None:
            continue
        before = base[metric] if base else None
        note = f"{base.name} {before.text}" if base and before and before.value is not None else ""
        if metric == "peak_reserved_change":
            note = f"of {best['peak_reserved'].text} reserved"
        cells.append(
            element(
                "div",
                element("span", text(label), "label")
                + element("span", text(_signed(figure)), "value")
                + element("span", text(note or _spread(figure)), "note"),
                "tile",
            )
        )
    return element("div", "".join(cells), "tiles")


def _signed(figure: Figure) -> str:
    signed = figure.metric.id == "peak_reserved_change" and (figure.value or 0) > 0
    return f"+{figure.text}" if signed else figure.text


def _charts(result: Comparison, best: RunComparison | None) -> None:
    where = where_time_goes_chart(result, theme())
    if where is not None:
        st.subheader("Where the time of a step goes", anchor=False)
        st.plotly_chart(where, theme=None, config=_CHART, key="where")
    left, right = st.columns(2, gap="large")
    iterations = iterations_chart(result, theme())
    if iterations is not None:
        with left:
            st.subheader("Every clean iteration", anchor=False)
            st.plotly_chart(iterations, theme=None, config=_CHART, key="iterations")
    pays = break_even_chart(result, best, theme()) if best else None
    if pays is not None:
        with right:
            st.subheader("When the graph has paid for itself", anchor=False)
            st.plotly_chart(pays, theme=None, config=_CHART, key="pays")


def _weak(result: Comparison) -> None:
    notes = [
        element("li", text(f"{run.name}: {weakness.text}. {weakness.advice}".strip()))
        for run in result.runs
        for weakness in run.weaknesses
    ]
    if notes:
        with st.expander(f"Weak figures ({len(notes)})", icon=":material/warning:"):
            show(element("ul", "".join(notes), "notes"))


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
        _cell(run[metric.id], run[metric.id].value is not None and run[metric.id].value == best)
        for run in result.runs
    ]
    name = element("abbr", text(metric.title), title=metric.formula)
    return [name, *cells, element("span", text(metric.source.value), "pass")]


def _cell(figure: Figure, is_best: bool) -> str:
    if figure.value is None:
        return element("span", text(figure.text), "absent", title=figure.reason or "")
    value = element("span", text(figure.text), "num better" if is_best else "num")
    spread = _spread(figure)
    return value + (element("span", text(spread), "spread") if spread else "")


def _best_value(result: Comparison, metric: Metric) -> float | None:
    """The best value where one of several is; None where there is nothing to be better at."""
    values = [run[metric.id].value for run in result.runs]
    known = [value for value in values if value is not None]
    if metric.better is Better.NONE or len(set(known)) < 2:
        return None
    return min(known) if metric.better is Better.LOWER else max(known)


def _spread(figure: Figure) -> str:
    spread = figure.spread
    if spread is None or spread.low == spread.high:
        return ""
    high = "open" if spread.high is None else figure.metric.format(spread.high)
    prefix = "95%: " if spread.kind.value.startswith("95") else ""
    return f"{prefix}{figure.metric.format(spread.low)} to {high}"


def _kernels(found: KernelTable) -> None:
    if not found.rows:
        reasons = [f"{name}: {why}" for name, why in found.without.items()]
        empty("No kernels to show", *(reasons or ["No run has a traced pass."]))
        return
    data: dict[str, list[Any]] = {
        "Kernel": [short_name(printable(row.name)) for row in found.rows],
        "Category": [row.category.value for row in found.rows],
    }
    config: dict[str, Any] = {"Kernel": st.column_config.TextColumn(width="large")}
    for place, run in enumerate(found.runs):
        if run in found.without:
            continue
        name = printable(run)
        uses = [row.uses[place] for row in found.rows]
        data[f"{name}: count"] = [use.count if use else None for use in uses]
        data[f"{name}: us"] = [use.total_ns / 1e3 if use else None for use in uses]
        config[f"{name}: count"] = st.column_config.NumberColumn(format="%d")
        config[f"{name}: us"] = st.column_config.NumberColumn(format="%.2f")
        if found.baseline not in (None, place):
            data[f"{name}: change, us"] = [
                None if row.changes[place] is None else (row.changes[place] or 0.0) / 1e3
                for row in found.rows
            ]
            config[f"{name}: change, us"] = st.column_config.NumberColumn(format="%+.2f")
    data["Full name"] = [printable(row.name) for row in found.rows]
    wanted = st.text_input(
        "Search kernels",
        placeholder="name or category",
        key="kernel",
        bind="query-params",
        width=340,
    )
    keep = [
        place
        for place, row in enumerate(found.rows)
        if wanted.lower() in row.name.lower() or wanted.lower() == row.category.value
    ]
    st.dataframe(
        {column: [values[place] for place in keep] for column, values in data.items()},
        column_config=config,
        hide_index=True,
        height=min(560, 38 + 35 * max(len(keep), 1)),
        alt="Kernels of each run per traced step",
    )
    longest = max((use.total_ns for row in found.rows for use in row.uses if use), default=0.0)
    st.caption(
        f"{len(keep)} of {len(found.rows)} kernels, copies and sets, largest change first. Counts "
        f"and times are medians over the traced steps; the longest takes {format_ns(longest)}."
    )
