"""Show the step time difference of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import streamlit as st

from graphviz_dash.analysis.attribution.origins import NodeOrigin
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
from graphviz_dash.app.compare.columns import CHANGE
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.answer import Answer, AnswerPart, Evidence
from graphviz_dash.narrative.columns import COUNT, MICROSECONDS, SHARE, Column
from graphviz_dash.narrative.equation import describe_compile_savings, describe_waterfall_method
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import draw_figure, get_figure, show_fold
from graphviz_dash.ui.page.markup import (
    escape_html,
    escape_markdown,
    format_element,
    format_text,
    show_caption,
    show_paragraph,
)
from graphviz_dash.ui.page.navigation import link_markup
from graphviz_dash.ui.page.tables import show_rows
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
        format_text("dt", label) + format_element("dd", _format_parts(parts, available, query))
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
        texts.append(format_text("a", part.text, href=f"#{anchor}"))
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
        show_caption(f"Not available: {reason}.")
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
        show_paragraph(describe_compile_savings(run))
        _show_compile_parts(run.compile_parts)
    _show_pairs(run, waterfall)


def _show_shares(shares: tuple[StepShare, ...], by: str) -> None:
    show_rows(
        [
            Column(
                by.capitalize(), lambda row: shorten_name(row.label), width="medium", is_sticky=True
            ),
            *_list_cause_columns([share.saved for share in shares], lambda row: row.saved),
            Column("Work before", lambda row: row.items[0], COUNT),
            Column("Work after", lambda row: row.items[1], COUNT),
        ],
        shares,
        f"Contribution of each {by} to the difference, by cause",
        height=254 if len(shares) > 6 else "content",
    )


def _show_compile_parts(parts: CompileSavings) -> None:
    rows = [
        (f"compilation ({parts.run_without_graphs})", parts.compilation),
        ("graphs", parts.graphs),
    ]
    show_rows(
        [
            Column("Part", lambda row: row[0], is_sticky=True),
            *_list_cause_columns([saved for _, saved in rows], lambda row: row[1]),
        ],
        rows,
        "Contributions of compilation and of graphs to the difference, by cause",
    )


def _list_cause_columns(
    saved: Sequence[CauseTimes], read: Callable[[Any], CauseTimes]
) -> list[Column[Any]]:
    """List columns of the difference and of each cause with a part in it; savings are negative."""

    def build(index: int, cause: Cause) -> Column[Any]:
        title = cause.value.capitalize()
        return Column(title, lambda row: -read(row).list_items()[index][1] or None, CHANGE)

    return [
        Column("Difference", lambda row: -read(row).total, CHANGE),
        *(
            build(index, cause)
            for index, cause in enumerate(Cause)
            if any(times.list_items()[index][1] for times in saved)
        ),
    ]


def _show_pairs(run: RunComparison, waterfall: Waterfall) -> None:
    counts = waterfall.pairs.counts
    kind_counts = ", ".join(f"{format_count(n)} {kind.value}" for kind, n in counts.items() if n)
    label = f"Method and matched kernels: {kind_counts}"

    def show() -> None:
        show_caption(describe_waterfall_method(run, waterfall))
        kinds = [kind.value for kind in PairKind if counts[kind]]
        selected = kinds
        if len(kinds) > 1:
            selected = url_state.select_several("pairs", "Outcome", kinds, kinds)
        rows = [row for row in waterfall.pairs.rows if row.kind.value in selected]
        _show_pair_table(waterfall, rows[:_MAX_PAIRS])
        show_paragraph(
            f"{format_count(min(len(rows), _MAX_PAIRS))} of "
            f"{format_count(len(waterfall.pairs.rows))} rows. Durations are medians over "
            "the traced steps; matched by: "
            + ", ".join(f"{method} {n:,}" for method, n in waterfall.pairs.methods.items()),
            "muted",
        )

    show_fold(label, "pairs", show, icon=":material/compare_arrows:")


def _show_pair_table(waterfall: Waterfall, rows: list[PairRow]) -> None:
    before, after = waterfall.pairs.before, waterfall.pairs.after
    base, run = waterfall.baseline, waterfall.run
    columns: list[Column[PairRow]] = [
        Column(
            "Outcome",
            lambda row: row.kind.value + (", different launch" if row.launch_differs else ""),
        ),
        Column(f"In {base}", lambda row: _format_names(before, row.before), width="medium"),
        Column(f"In {run}", lambda row: _format_names(after, row.after), width="medium"),
        Column("Node", lambda row: _format_node(after, row)),
        Column("Operator", lambda row: _get_origin(before, after, row).op or ""),
        Column("Module", lambda row: _get_origin(before, after, row).module or ""),
        Column(base, lambda row: _sum_durations_ns(before, row.before), MICROSECONDS),
        Column(run, lambda row: _sum_durations_ns(after, row.after), MICROSECONDS),
        Column("Matched by", lambda row: row.method),
        Column("Confidence", lambda row: row.confidence or None, SHARE),
    ]
    alt = "Kernels, memcpy and memset of the baseline's step next to those of the run's step"
    show_rows(columns, rows, alt, height=420)


def _format_names(work: TypicalStep, positions: tuple[int, ...]) -> str | None:
    if not positions:
        return None
    return " + ".join(shorten_name(work.items[item].name) for item in positions)


def _sum_durations_ns(work: TypicalStep, positions: tuple[int, ...]) -> int | None:
    return sum(int(work.duration[item]) for item in positions) if positions else None


def _format_node(after: TypicalStep, row: PairRow) -> str | None:
    nodes = [after.items[item_index] for item_index in row.after]
    named = [f"{item.graph}#{item.node}" for item in nodes if item.graph is not None]
    return ", ".join(named) or None


def _get_origin(before: TypicalStep, after: TypicalStep, row: PairRow) -> NodeOrigin:
    items = [after.items[item] for item in row.after] or [before.items[item] for item in row.before]
    return items[0].origin
