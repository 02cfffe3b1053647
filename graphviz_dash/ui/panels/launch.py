"""The Launch page's panels below the toy graphs: own graphs, observers, comparison, published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import streamlit as st

from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.analysis.launch.launch_comparison import LaunchComparison, beside_published
from graphviz_dash.analysis.launch.launch_costs import LaunchCosts
from graphviz_dash.analysis.launch.observer_effect import ObserverEffect, StepMeasure
from graphviz_dash.analysis.launch.own_graphs import OwnGraph
from graphviz_dash.bundle.references import published_launch
from graphviz_dash.charts.figures.observers import observer_chart
from graphviz_dash.errors import InputError
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.launch import LaunchMeasure
from graphviz_dash.narrative import launch as words
from graphviz_dash.narrative import observers
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import draw, theme
from graphviz_dash.ui.page.markup import element, plain, show, table, text
from graphviz_dash.ui.state.catalogue import Entry
from graphviz_dash.ui.state.results import observer_effects, outcome
from graphviz_dash.units import format_count, format_ns, format_percent, format_ratio

_MOST_SENTENCES: Final = 3
_TABLE_PX: Final = 420


def own_panel(experiment: str, graphs: Sequence[OwnGraph]) -> None:
    """The life of every captured graph of an experiment, beside a chain of its size."""
    st.header(f"Your graphs: {plain(experiment)}", anchor=False)
    if not graphs:
        st.caption("No run of this experiment launched a graph in its clean pass.")
        return
    largest = sorted(graphs, key=lambda own: own.nodes, reverse=True)[:_MOST_SENTENCES]
    show("".join(element("p", text(words.own_graph_sentence(own)), "said") for own in largest))
    measures = [one for one in LaunchMeasure if any(one in own.timings for own in graphs)]
    data: dict[str, list[Any]] = {
        "Run": [own.run for own in graphs],
        "Graph": [own.name for own in graphs],
        "Nodes": [own.nodes for own in graphs],
        "Straight": [own.shape.share if own.shape else None for own in graphs],
        "Roots": [own.shape.roots if own.shape else None for own in graphs],
        "Width": [own.shape.width if own.shape else None for own in graphs],
        "Depth": [own.shape.depth if own.shape else None for own in graphs],
        "Repeat, of a chain": [own.chain.measured if own.chain else None for own in graphs],
        "Chain, us": [own.chain.ns / 1e3 if own.chain else None for own in graphs],
        "Chain and roots, us": [
            own.chain.with_roots / 1e3 if own.chain and own.chain.with_roots else None
            for own in graphs
        ],
    }
    config: dict[str, Any] = {
        "Run": st.column_config.TextColumn(pinned=True),
        "Graph": st.column_config.TextColumn(pinned=True),
        "Straight": st.column_config.NumberColumn(
            format="percent", help="Share of the nodes that lies on straight lines"
        ),
        "Width": st.column_config.NumberColumn(help="Most nodes at one depth"),
        "Depth": st.column_config.NumberColumn(help="Nodes on the longest path"),
        "Repeat, of a chain": st.column_config.NumberColumn(
            format="%.2fx", help="CPU time of a repeat launch over that of a chain of its size"
        ),
        "Chain, us": st.column_config.NumberColumn(
            format="%.2f", help="CPU time of a repeat launch of a line of as many empty kernels"
        ),
        "Chain and roots, us": st.column_config.NumberColumn(
            format="%.2f", help="The same, and what as many roots cost toy graphs"
        ),
    }
    for measure in measures:
        name = f"{words.MEASURE_TITLES[measure]}, us"
        data[name] = [
            own.timings[measure].summary.median / 1e3 if measure in own.timings else None
            for own in graphs
        ]
        config[name] = st.column_config.NumberColumn(
            format="%.2f", help=words.MEASURE_MEANINGS[measure]
        )
    st.dataframe(
        data,
        column_config=config,
        hide_index=True,
        height="content" if len(graphs) <= 12 else _TABLE_PX,
        placeholder="–",
        alt="Shape and launch times of every captured graph",
    )
    missing = sorted({own.expected.reason for own in graphs if isinstance(own.expected, Missing)})
    st.caption(
        plain(
            "Times of the clean pass, to which no profiler was attached; what a graph does once "
            "was measured once. "
            + " ".join(
                (*words.untimed_sentences(graphs), *(f"Without a chain: {one}." for one in missing))
            )
        )
    )


def observer_panel(entry: Entry) -> None:
    """What each profiler does to the steps of an experiment's runs."""
    try:
        found = observer_effects(entry.key)
    except InputError:
        return
    st.header("What watching costs", anchor=False)
    known = {name: one for name, one in found.items() if isinstance(one, ObserverEffect)}
    if not known:
        reasons = dict.fromkeys(one.reason for one in found.values() if isinstance(one, Missing))
        st.caption(
            plain(
                f"Not known for {entry.name}: {'; '.join(reasons)}. graphviz-dash collect "
                "--observers times the step with nothing attached, with CUDA events, under "
                "torch.profiler, and under CUPTI by graph and by node."
            )
        )
        return
    names = [*known]
    usual = next((name for name in names if name == "graph"), names[0])
    chosen = names[0]
    if len(names) > 1:
        chosen = url_state.choose("watched", "Run", names, default=usual)
    effect = known[chosen]
    show(element("p", text(observers.effect_sentence(effect)), "sentence"))
    draw(observer_chart(effect, theme()), "observers")
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
            one = row.effects.get(measure)
            if one is None:
                cells.append(f'<span class="absent" title="{text(row.absent[measure])}">–</span>')
                continue
            times = "" if one.beyond is None else format_ratio(one.ratio)
            mark = ' class="better"' if one.beyond else ""
            cells.append(
                f'<span class="num">{text(format_ns(one.value))}</span>'
                f'<span class="spread"><b{mark}>{text(times)}</b></span>'
            )
        if row.records is None:
            cells.append('<span class="absent" title="it makes no records of work">–</span>')
        else:
            records = format_count(round(row.records))
            cells.append(f'<span class="num">{text(records)}</span>')
        rows.append(cells)
    show(element("div", table(head, [("", rows)], "figures runs"), "scroll"))


def comparison_panel(comparison: LaunchComparison | None) -> None:
    """Recordings over each other: medians, ratios, and whether they lie within their spread."""
    if comparison is None:
        return
    st.header("The recordings over each other", anchor=False)
    show(element("p", text(words.comparison_sentence(comparison))))
    differences = comparison.differences
    data: dict[str, list[Any]] = {
        "Measure": [words.MEASURE_TITLES[one.measure] for one in differences],
        "Graph": [words.topology_name(one.topology) for one in differences],
        "Nodes": [one.topology.nodes for one in differences],
    }
    config: dict[str, Any] = {}
    for place, name in enumerate(comparison.names):
        data[f"{name}, us"] = [one.medians[place] / 1e3 for one in differences]
        config[f"{name}, us"] = st.column_config.NumberColumn(format="%.2f")
        if place:
            data[f"{name}, ratio"] = [one.ratios[place] for one in differences]
            config[f"{name}, ratio"] = st.column_config.NumberColumn(format="%.2fx")
    data["Apart, us"] = [one.apart / 1e3 for one in differences]
    data["Spread, us"] = [one.shown / 1e3 for one in differences]
    data["Within"] = [one.within for one in differences]
    for name in ("Apart, us", "Spread, us"):
        config[name] = st.column_config.NumberColumn(format="%.3f")
    st.dataframe(
        data,
        column_config=config,
        hide_index=True,
        height=_TABLE_PX,
        alt="Medians of the recordings, their ratios, and whether they lie within their spread",
    )


def published_panel(recordings: Mapping[str, LaunchCosts]) -> None:
    """What NVIDIA published, with its source, beside the recordings."""
    known = published_launch()
    with st.expander("Beside what NVIDIA published"):
        show(
            element(
                "p",
                f"<b>{text(known.title)}</b>, {text(known.authors)}; {text(known.address)}. "
                f"Straight lines on {text(known.gpu)}, {text(known.cpu)}; {text(known.read_as)}.",
            )
        )
        rows = beside_published(known, recordings)
        data: dict[str, list[Any]] = {
            "Measure": [words.MEASURE_TITLES[row.measure] for row in rows],
            "Nodes": [row.nodes for row in rows],
            "Toolkit 11.8, us": [row.before / 1e3 for row in rows],
            "Toolkit 12.6, us": [row.after / 1e3 for row in rows],
            "Quoted by": [row.quoted_by for row in rows],
        }
        config: dict[str, Any] = {
            name: st.column_config.NumberColumn(format="%.2f")
            for name in ("Toolkit 11.8, us", "Toolkit 12.6, us")
        }
        for name in recordings:
            medians = [row.medians[name] for row in rows]
            data[f"{name}, us"] = [None if one is None else one / 1e3 for one in medians]
            config[f"{name}, us"] = st.column_config.NumberColumn(format="%.2f")
        st.dataframe(
            data,
            column_config=config,
            hide_index=True,
            placeholder="–",
            alt="Published times of straight lines beside the recordings",
        )
        st.caption(plain(f"Not here: {'; '.join(known.absent)}."))
