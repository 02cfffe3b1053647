"""Whether a run is worth it, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphviz_dash.analysis.comparison.compare import compare
from graphviz_dash.model.run import ExecutionMode
from graphviz_dash.narrative.answer import Evidence, answer, answer_text, run_answer
from graphviz_dash.narrative.headline import headline, run_sentence
from tests.analysis.eager_and_graph import both, eager, graphed
from tests.analysis.frames import (
    GRAPH,
    LIFE,
    clean_timings,
    failure,
    make_experiment,
    make_run,
)
from tests.doctors import MOVED, report


def test_where_nothing_could_be_compared_the_answer_says_why_and_what_is_to_gain() -> None:
    broken = make_run("graph", failures=(failure(),))
    found = compare(make_experiment(eager(), broken))
    assert answer_text(answer(found)) == (
        "Not as it stands: graph failed in its clean pass at model.py:12. A step of eager "
        "takes 1.00 ms, in which the GPU is idle for 925 µs (92.5%), which is what graphs "
        "could save."
    )
    assert [piece.evidence for piece in answer(found) if piece.evidence] == [
        Evidence.FAILURES,
        Evidence.ITERATIONS,
        Evidence.WHERE,
    ]
    assert answer(compare(make_experiment(broken))) == ()
    assert answer(both()) == run_answer(both()["graph"])


def test_where_there_is_nothing_to_compare_the_answer_says_why_and_what_a_step_takes() -> None:
    alone = answer(compare(make_experiment(eager())))
    assert answer_text(alone) == (
        "Not available: eager is the only run here, and none is there to compare it with. A step "
        "takes 1.00 ms."
    )
    traces = make_experiment(eager(clean=None), graphed(clean=None))
    untimed = answer(compare(traces))
    assert answer_text(untimed) == (
        "Not available: no run has clean timings. Under the profiler a step takes 2.00 ms in "
        "eager, 150 µs in graph."
    )
    evidence = [(piece.evidence, piece.metric) for piece in untimed if piece.evidence]
    assert evidence == [(Evidence.FIGURES, "traced_step_time")] * 2
    lost = answer(compare(make_experiment(eager(clean=None, trace=None))))
    assert answer_text(lost).endswith("to compare it with.")


def test_a_graph_that_replays_other_work_is_not_worth_it_as_it_stands() -> None:
    examined = replace(make_run("doctor", ExecutionMode.GRAPH), doctor=report(MOVED, captured=True))
    found = compare(make_experiment(eager(), graphed(), examined))
    assert answer_text(answer(found)).startswith(
        "Not as it stands: replays do other work than the step. As it was timed, graph makes "
        "a step 8.00x faster than eager"
    )
    assert headline(found).endswith("; but replays do other work than the step")
    assert answer(found)[1].evidence is Evidence.FAILURES
    assert found.examinations == (("doctor", report(MOVED, captured=True)),)
    matching = replace(make_run("doctor", ExecutionMode.GRAPH), doctor=report(captured=True))
    found = compare(make_experiment(eager(), graphed(), matching))
    assert answer_text(answer(found)).startswith("Yes: ")


def test_replays_of_other_work_are_the_outcome_only_where_no_others_are() -> None:
    examined = replace(make_run("doctor", ExecutionMode.GRAPH), doctor=report(MOVED, captured=True))
    parts = make_run(
        "callables",
        ExecutionMode.CALLABLES,
        clean=clean_timings([500_000] * 40, intervals=[490_000] * 40, lives=(LIFE,)),
        graphs=(GRAPH,),
    )
    found = compare(make_experiment(eager(), graphed(), parts, examined))
    assert {run.name: run.replays_match for run in found.runs} == {
        "eager": True,
        "graph": False,
        "callables": True,
    }
    assert found.best is found["callables"]
    assert answer_text(answer(found)).startswith("Yes: callables makes a step 2.00x faster")
    assert "replays do other work" not in run_sentence(found["callables"])
    against_it = compare(make_experiment(eager(), graphed(), parts, examined), "graph")
    assert not against_it["eager"].replays_match
    assert not against_it["callables"].replays_match


def test_a_difference_within_the_noise_is_none() -> None:
    alike = graphed(clean=clean_timings([1_000_000] * 40, lives=(LIFE,)), memory=None)
    found = answer_text(answer(compare(make_experiment(eager(), alike))))
    assert found.startswith(
        "No significant difference between graph and eager: a step takes 1.00 ms instead of 1.00 ms"
    )


@pytest.mark.parametrize(("wall", "lead"), [(990_000, "Hardly: "), (900_000, "Yes: ")])
def test_a_slight_speedup_is_hardly_one(wall: int, lead: str) -> None:
    found = compare(make_experiment(eager(), graphed(clean=clean_timings([wall] * 40))))
    assert answer_text(answer(found)).startswith(lead)


def test_a_compilation_was_not_timed() -> None:
    compiled = make_run("compile", clean=clean_timings([500_000] * 40, lives=(LIFE,)))
    found = answer_text(answer(compare(make_experiment(eager(), compiled))))
    assert "What the compilation costs once was not timed" in found
