"""Show the overhead of each profiler on the steps of an experiment's runs."""

from __future__ import annotations

from collections.abc import Iterator

from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.errors import InputError
from graphviz_dash.features.launch import observer_narrative as observers
from graphviz_dash.features.launch.analysis.observer_effect import (
    ObserverEffect,
    StepMeasure,
    compute_observer_effect,
)
from graphviz_dash.features.launch.charts.observers import draw_observers
from graphviz_dash.model.absence import Missing
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import draw_figure, get_figure
from graphviz_dash.ui.page.markup import (
    escape_html,
    format_element,
    format_table,
    format_text,
    show_caption,
    show_markup,
    show_paragraph,
)
from graphviz_dash.ui.state.catalogue import Entry
from graphviz_dash.ui.state.results import get_comparison_without_traces
from graphviz_dash.ui.state.store import STORE, Extent
from graphviz_dash.units import format_count, format_ns, format_percent, format_ratio


def _get_effects(key: str) -> dict[str, ObserverEffect | Missing]:
    return STORE.derive(
        key,
        "observers",
        lambda experiment: {run.name: compute_observer_effect(run) for run in experiment.runs},
        Extent.NO_TRACES,
    )


def show_observer_panel(entry: Entry) -> None:
    """Show the profiler overhead of an experiment's runs."""
    try:
        outcomes = _get_effects(entry.key)
    except InputError:
        return
    effects = {
        name: effect for name, effect in outcomes.items() if isinstance(effect, ObserverEffect)
    }
    if not effects:
        reasons = dict.fromkeys(
            effect.reason for effect in outcomes.values() if isinstance(effect, Missing)
        )
        show_caption(
            f"Not available for {entry.name}: {'; '.join(reasons)}. graphviz-dash collect "
            "--observers times the step without a profiler, with CUDA events, under "
            "torch.profiler, and under CUPTI by graph and by node."
        )
        return
    names = [*effects]
    default = next((name for name in names if name == "graph"), names[0])
    selected = names[0]
    if len(names) > 1:
        selected = url_state.select_option("watched", "Run", names, default=default)
    effect = effects[selected]
    show_paragraph(observers.describe_observer_effect(effect), "sentence")
    chart = get_figure(
        entry.key,
        ("observers", selected),
        lambda theme: draw_observers(effect, theme),
        Extent.NO_TRACES,
    )
    draw_figure(chart, "observers")
    _show_observer_table(effect)
    noise = format_percent(effect.noise[StepMeasure.STEP] - 1)
    lines = [
        f"Grey band: two processes without a profiler differ by {noise} of a step.",
        "GPU times need events, so the other tools are compared with events.",
        *_compare_with_clean(get_comparison_without_traces(entry.key)[selected]),
        *(f"Without {reason}." for reason in observers.list_missing_observers(effect)),
    ]
    show_caption(" ".join(lines))


def _compare_with_clean(run: RunComparison) -> Iterator[str]:
    step, issued = run["step_time"], run["launch_cpu_time"]
    if step.value is not None and issued.value is not None:
        verb = "launch" if run.run.graphs else "issue"
        yield (
            "Each row comes from a separate process. In the clean pass a step lasted "
            f"{step.text}, including {issued.text} to {verb} it."
        )


def _show_observer_table(effect: ObserverEffect) -> None:
    head = [
        "",
        *(
            format_text("abbr", title, title=explanation)
            for title, explanation in observers.MEASURE_TITLES.values()
        ),
    ]
    head.append("records/step")
    rows = []
    for row in effect.rows:
        cells = [escape_html(observers.OBSERVER_TITLES[row.observer])]
        for measure in StepMeasure:
            cell = row.effects.get(measure)
            if cell is None:
                cells.append(format_text("span", "–", "absent", title=row.absent[measure]))
                continue
            ratio_text = "" if cell.is_significant is None else format_ratio(cell.ratio)
            mark = ' class="better"' if cell.is_significant else ""
            cells.append(
                f'<span class="num">{escape_html(format_ns(cell.value))}</span>'
                f'<span class="spread"><b{mark}>{escape_html(ratio_text)}</b></span>'
            )
        if row.records is None:
            cells.append(format_text("span", "–", "absent", title="it records no work"))
        else:
            cells.append(format_text("span", format_count(round(row.records)), "num"))
        rows.append(cells)
    show_markup(format_element("div", format_table(head, [("", rows)], "figures runs"), "scroll"))
