"""Show the step time difference of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import streamlit as st

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.step_comparison.typical_step import TypicalStep
from graphviz_dash.analysis.step_comparison.waterfall import (
    Cause,
    CauseTimes,
    CompileSavings,
    StepShare,
    Waterfall,
)
from graphviz_dash.analysis.step_comparison.work_pairs import PairKind, PairRow
from graphviz_dash.analysis.trace.kernel_names import shorten_name
from graphviz_dash.app.compare.charts.waterfall import draw_waterfall
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.answer import Answer, AnswerPart, Evidence
from graphviz_dash.narrative.equation import describe_compile_savings, describe_waterfall_method
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import draw_figure, get_figure, show_fold
from graphviz_dash.ui.page.markup import escape_html, escape_markdown, format_element, show_markup
from graphviz_dash.ui.page.navigation import link_markup
from graphviz_dash.units import format_count

_MAX_PAIRS: Final = 10_000


def format_answer(
    answer: Answer | None, available: frozenset[Evidence], query: Mapping[str, str]
) -> str:
    """Format the answer as a line with labelled rows; values link to their evidence.

    Links to pages have the parameters ``query``. Empty without an answer.
    """
    if answer is None:
        return ""
    rows = "".join(
        format_element("dt", escape_html(label))
        + format_element("dd", _format_parts(parts, available, query))
        for label, parts in answer.rows
    )
    return format_element(
        "p", _format_parts(answer.verdict, available, query), "answer"
    ) + format_element("dl", rows, "reasons")


def _format_parts(
    parts: Sequence[AnswerPart], available: frozenset[Evidence], query: Mapping[str, str]
) -> str:
    texts = []
    for part in parts:
        if part.page is not None:
            texts.append(link_markup(part.page, part.text, query, icon=False))
            continue
        if part.evidence is None:
            texts.append(escape_html(part.text))
            continue
        anchor = (part.evidence if part.evidence in available else Evidence.FIGURES).value
        if part.metric is not None:
            anchor = format_metric_anchor(part.metric)
        texts.append(format_element("a", escape_html(part.text), href=f"#{anchor}"))
    return "".join(texts)


def find_shown_evidence(result: Comparison, run: RunComparison | None) -> frozenset[Evidence]:
    """Return the evidence that the Compare page shows for ``run``."""
    unavailable = set()
    if run is None or isinstance(run.waterfall, Missing):
        unavailable.add(Evidence.WATERFALL)
    if run is None or isinstance(run.coverage, Missing) or not run.coverage.eager:
        unavailable.add(Evidence.COVERAGE)
    if result.predicted_run is None:
        unavailable.add(Evidence.PREDICTED)
    if all(isinstance(compared.time_by_category, Missing) for compared in result.runs):
        unavailable.add(Evidence.TIME_BREAKDOWN)
    if run is None or run["break_even"].value is None:
        unavailable.add(Evidence.BREAK_EVEN)
    return frozenset(Evidence) - unavailable


def format_metric_anchor(metric: str) -> str:
    """Return the anchor of a metric's row in the metrics table."""
    return f"figure-{metric}"


def show_difference_panel(key: str, result: Comparison, run: RunComparison) -> None:
    """Show the panel; ``key`` is the experiment's key in the store."""
    st.header(
        f"Step time difference vs {escape_markdown(run.baseline)}", anchor=Evidence.WATERFALL.value
    )
    waterfall = run.waterfall
    if isinstance(waterfall, Missing) or run.baseline is None:
        reason = waterfall.reason if isinstance(waterfall, Missing) else "it is the baseline"
        st.caption(escape_markdown(f"Not available: {reason}."))
        return
    left, right = st.columns([0.52, 0.48], gap="medium")
    with left:
        chart = get_figure(
            key, ("waterfall", run.name), lambda theme: draw_waterfall(waterfall, theme)
        )
        draw_figure(chart, "waterfall")
    with right:
        by = url_state.select_option("by", "Group by", ("module", "operator"))
        _show_shares(waterfall.modules if by == "module" else waterfall.operators, by)
    if not isinstance(run.compile_parts, Missing):
        show_markup(format_element("p", escape_html(describe_compile_savings(run))))
        _show_compile_parts(run.compile_parts)
    _show_pairs(run, waterfall)


def _show_shares(shares: tuple[StepShare, ...], by: str) -> None:
    data: dict[str, list[Any]] = {
        by.capitalize(): [shorten_name(escape_control_characters(share.label)) for share in shares],
        "Difference (µs)": [-share.saved.total / 1e3 for share in shares],
    }
    config: dict[str, Any] = {
        by.capitalize(): st.column_config.TextColumn(width="medium", pinned=True),
        "Difference (µs)": st.column_config.NumberColumn(format="%+.2f"),
    }
    _add_causes(data, config, [share.saved for share in shares])
    for column_index, side in enumerate(("before", "after")):
        data[f"Work {side}"] = [share.items[column_index] for share in shares]
    st.dataframe(
        data,
        column_config=config,
        hide_index=True,
        height=254 if len(shares) > 6 else "content",
        placeholder="–",
        alt=f"Contribution of each {by} to the difference, by cause",
    )


def _show_compile_parts(parts: CompileSavings) -> None:
    saved = [parts.compilation, parts.graphs]
    data: dict[str, list[Any]] = {
        "Part": [
            f"compilation ({escape_control_characters(parts.run_without_graphs)})",
            "graphs",
        ],
        "Difference (µs)": [-part.total / 1e3 for part in saved],
    }
    config: dict[str, Any] = {
        "Part": st.column_config.TextColumn(pinned=True),
        "Difference (µs)": st.column_config.NumberColumn(format="%+.2f"),
    }
    _add_causes(data, config, saved)
    st.dataframe(
        data,
        column_config=config,
        hide_index=True,
        height="content",
        placeholder="–",
        alt="Contributions of compilation and of graphs to the difference, by cause",
    )


def _add_causes(
    data: dict[str, list[Any]], config: dict[str, Any], saved: Sequence[CauseTimes]
) -> None:
    """Add a column in µs per cause; savings are negative."""
    for column_index, cause in enumerate(Cause):
        values = [part.list_items()[column_index][1] for part in saved]
        if not any(values):
            continue
        column = f"{cause.value.capitalize()} (µs)"
        data[column] = [-value / 1e3 if value else None for value in values]
        config[column] = st.column_config.NumberColumn(format="%+.2f")


def _show_pairs(run: RunComparison, waterfall: Waterfall) -> None:
    counts = waterfall.pairs.counts
    kind_counts = ", ".join(f"{format_count(n)} {kind.value}" for kind, n in counts.items() if n)
    label = f"Method and matched kernels: {kind_counts}"

    def show() -> None:
        st.caption(escape_markdown(describe_waterfall_method(run, waterfall)))
        kinds = [kind.value for kind in PairKind if counts[kind]]
        selected = kinds
        if len(kinds) > 1:
            selected = url_state.select_several("pairs", "Outcome", kinds, kinds)
        rows = [row for row in waterfall.pairs.rows if row.kind.value in selected]
        _show_pair_table(waterfall, rows[:_MAX_PAIRS])
        show_markup(
            format_element(
                "p",
                escape_html(
                    f"{format_count(min(len(rows), _MAX_PAIRS))} of "
                    f"{format_count(len(waterfall.pairs.rows))} rows. Durations are medians over "
                    "the traced steps; matched by: "
                    + ", ".join(f"{method} {n:,}" for method, n in waterfall.pairs.methods.items())
                ),
                "muted",
            )
        )

    show_fold(label, "pairs", show, icon=":material/compare_arrows:")


def _show_pair_table(waterfall: Waterfall, rows: list[PairRow]) -> None:
    before, after = waterfall.pairs.before, waterfall.pairs.after
    base, run = (
        escape_control_characters(waterfall.baseline),
        escape_control_characters(waterfall.run),
    )
    times = [
        (_sum_durations_us(before, row.before), _sum_durations_us(after, row.after)) for row in rows
    ]
    st.dataframe(
        {
            "Outcome": [
                row.kind.value + (", different launch" if row.launch_differs else "")
                for row in rows
            ],
            f"In {base}": [_format_names(before, row.before) for row in rows],
            f"In {run}": [_format_names(after, row.after) for row in rows],
            "Node": [_format_node(after, row) for row in rows],
            "Operator": [_get_operator(before, after, row) for row in rows],
            "Module": [_get_module(before, after, row) for row in rows],
            f"{base} (µs)": [time for time, _ in times],
            f"{run} (µs)": [time for _, time in times],
            "Matched by": [row.method for row in rows],
            "Confidence": [row.confidence or None for row in rows],
        },
        column_config={
            f"In {base}": st.column_config.TextColumn(width="medium"),
            f"In {run}": st.column_config.TextColumn(width="medium"),
            f"{base} (µs)": st.column_config.NumberColumn(format="%.2f"),
            f"{run} (µs)": st.column_config.NumberColumn(format="%.2f"),
            "Confidence": st.column_config.NumberColumn(format="percent"),
        },
        hide_index=True,
        height=420,
        placeholder="–",
        alt="Kernels, memcpy and memset of the baseline's step next to those of the run's step",
    )


def _format_names(work: TypicalStep, positions: tuple[int, ...]) -> str | None:
    if not positions:
        return None
    return " + ".join(
        shorten_name(escape_control_characters(work.items[item].name)) for item in positions
    )


def _sum_durations_us(work: TypicalStep, positions: tuple[int, ...]) -> float | None:
    return sum(int(work.duration[item]) for item in positions) / 1e3 if positions else None


def _format_node(after: TypicalStep, row: PairRow) -> str | None:
    nodes = [after.items[item_index] for item_index in row.after]
    named = [f"{item.graph}#{item.node}" for item in nodes if item.graph is not None]
    return ", ".join(named) or None


def _get_operator(before: TypicalStep, after: TypicalStep, row: PairRow) -> str:
    items = [after.items[item] for item in row.after] or [before.items[item] for item in row.before]
    return escape_control_characters(items[0].origin.op or "")


def _get_module(before: TypicalStep, after: TypicalStep, row: PairRow) -> str:
    items = [after.items[item] for item in row.after] or [before.items[item] for item in row.before]
    return escape_control_characters(items[0].origin.module or "")
