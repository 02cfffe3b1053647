from __future__ import annotations

from msgspec.structs import replace

from graphviz_dash.analysis.loop.family_report import LoopReport, build_loop_report
from graphviz_dash.model.loop import StepKind
from graphviz_dash.narrative.answer import build_answer, format_answer
from graphviz_dash.narrative.engine_steps import describe_graph_share
from graphviz_dash.narrative.headline import build_headline
from tests.samples import compared_sample


def report_on(name: str) -> LoopReport:
    (compared,) = compared_sample(name).runs
    report = build_loop_report(compared.run)
    assert isinstance(report, LoopReport)
    return report


def test_engine_without_a_baseline_is_answered_by_its_eager_steps() -> None:
    answer = build_answer(compared_sample("recorded-sglang"))
    assert answer is not None
    (compared,) = compared_sample("recorded-sglang").runs
    loop = compared.run.loop
    assert loop is not None
    kinds = list(loop.steps.kind)
    eager = kinds.count(StepKind.FALLBACK)
    graphed = len(kinds) - eager - kinds.count(StepKind.CAPTURE)
    lines = format_answer(answer).splitlines()
    assert lines[0].startswith(f"Graphs ran {graphed:,} of {graphed + eager:,} engine steps; ")
    assert "exceeded the largest graph, 32." in lines[1]


def test_killed_engine_has_not_failed() -> None:
    headline = build_headline(compared_sample("recorded-sglang"))
    assert headline.endswith("the process was killed")
    assert "failed" not in headline


def test_share_is_absent_without_engine_facts() -> None:
    report = report_on("recorded-vllm")
    assert describe_graph_share(report) is not None
    assert describe_graph_share(replace(report, engine=None)) is None
    graphed = tuple(mode for mode in report.modes if mode.kind is StepKind.REPLAY)
    total = f"{sum(mode.steps for mode in graphed):,}"
    assert describe_graph_share(replace(report, modes=graphed)) == (
        f"Graphs ran all {total} engine steps."
    )
