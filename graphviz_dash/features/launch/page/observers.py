"""What each profiler does to the steps of an experiment's runs."""

from __future__ import annotations

from collections.abc import Iterator

import streamlit as st

from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.errors import InputError
from graphviz_dash.features.launch import observer_narrative as observers
from graphviz_dash.features.launch.analysis.observer_effect import (
    ObserverEffect,
    StepMeasure,
    observer_effect,
)
from graphviz_dash.features.launch.charts.observers import observer_chart
from graphviz_dash.model.absence import Missing
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import bare_figure, draw
from graphviz_dash.ui.page.markup import element, plain, show, table, text
from graphviz_dash.ui.state.catalogue import Entry
from graphviz_dash.ui.state.results import outcome
from graphviz_dash.ui.state.store import STORE
from graphviz_dash.units import format_count, format_ns, format_percent, format_ratio


def _effects(key: str) -> dict[str, ObserverEffect | Missing]:
    return STORE.derived_bare(
        key,
        "observers",
        lambda experiment: {run.name: observer_effect(run) for run in experiment.runs},
    )


def observer_panel(entry: Entry) -> None:
    """What each profiler does to the steps of an experiment's runs."""
    try:
        outcomes = _effects(entry.key)
    except InputError:
        return
    st.header("Profiler overhead", anchor=False)
    effects = {
        name: effect for name, effect in outcomes.items() if isinstance(effect, ObserverEffect)
    }
    if not effects:
        reasons = dict.fromkeys(
            effect.reason for effect in outcomes.values() if isinstance(effect, Missing)
        )
        st.caption(
            plain(
                f"Not known for {entry.name}: {'; '.join(reasons)}. graphviz-dash collect "
                "--observers times the step with nothing attached, with CUDA events, under "
                "torch.profiler, and under CUPTI by graph and by node."
            )
        )
        return
    names = [*effects]
    usual = next((name for name in names if name == "graph"), names[0])
    chosen = names[0]
    if len(names) > 1:
        chosen = url_state.choose("watched", "Run", names, default=usual)
    effect = effects[chosen]
    show(element("p", text(observers.effect_sentence(effect)), "sentence"))
    chart = bare_figure(entry.key, ("observers", chosen), lambda seen: observer_chart(effect, seen))
    draw(chart, "observers")
    _observer_table(effect)
    noise = format_percent(effect.noise[StepMeasure.STEP] - 1)
    lines = [
        f"The grey band: two processes with nothing attached differ by {noise} of a step.",
        "On the GPU there is nothing to read without events; the other tools are set beside them.",
        *_beside_clean(outcome(entry.key)[chosen]),
        *(f"Without {reason}." for reason in observers.missing_observers(effect)),
    ]
    st.caption(plain(" ".join(lines)))


def _beside_clean(run: RunComparison) -> Iterator[str]:
    """What the clean pass says of the same step, for it is another process again."""
    step, issued = run["step_time"], run["launch_cpu_time"]
    if step.value is not None and issued.value is not None:
        what = "launch" if run.run.graphs else "issue"
        yield (
            "Each row is of a process of its own; in that of the clean pass a step took "
            f"{step.text}, {issued.text} of them to {what} it."
        )


def _observer_table(effect: ObserverEffect) -> None:
    head = [
        "",
        *(
            f'<abbr title="{text(why)}">{text(title)}</abbr>'
            for title, why in observers.MEASURE_TITLES.values()
        ),
    ]
    head.append("records a step")
    rows = []
    for row in effect.rows:
        cells = [text(observers.OBSERVER_TITLES[row.observer])]
        for measure in StepMeasure:
            cell = row.effects.get(measure)
            if cell is None:
                cells.append(f'<span class="absent" title="{text(row.absent[measure])}">–</span>')
                continue
            times = "" if cell.beyond is None else format_ratio(cell.ratio)
            mark = ' class="better"' if cell.beyond else ""
            cells.append(
                f'<span class="num">{text(format_ns(cell.value))}</span>'
                f'<span class="spread"><b{mark}>{text(times)}</b></span>'
            )
        if row.records is None:
            cells.append('<span class="absent" title="it makes no records of work">–</span>')
        else:
            records = format_count(round(row.records))
            cells.append(f'<span class="num">{text(records)}</span>')
        rows.append(cells)
    show(element("div", table(head, [("", rows)], "figures runs"), "scroll"))
