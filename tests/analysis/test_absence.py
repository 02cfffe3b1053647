"""Why a fact of a run is missing, and that every part of the package gives the same reason."""

from __future__ import annotations

import pytest

from graphviz_dash.analysis.absence import explain_missing, find_recorded_reason
from graphviz_dash.errors import InputError
from graphviz_dash.features.perfetto.trace.run_alignment import align_runs
from graphviz_dash.features.timeline.view.run import build_run_timeline
from graphviz_dash.model.absence import Fact, format_manifest_name
from graphviz_dash.model.run import Absent, ExecutionMode, Failure, Pass, Run
from tests.analysis.frames import clean_timings, make_experiment, make_run

NO_REPLAYS = Absent("traced pass", "no replay trace was imported")
NO_MEMORY = Failure(Pass.MEMORY, "OutOfMemoryError", "CUDA out of memory", None, "")


@pytest.mark.parametrize(
    ("fact", "subject", "name"),
    [
        (Fact.TRACED_PASS, "", "traced pass"),
        (Fact.UPLOAD, "graph-0", "upload_ns of graph-0"),
        (Fact.NODE_BODIES, "node 3 of graph-1", "bodies of node 3 of graph-1"),
        (Fact.OBSERVER, "cupti-graph", "observer cupti-graph"),
    ],
)
def test_names_in_a_manifest(fact: Fact, subject: str, name: str) -> None:
    assert format_manifest_name(fact, subject) == name


class TestReasons:
    @pytest.mark.parametrize(
        ("run", "fact", "reason"),
        [
            (make_run("eager"), Fact.TRACED_PASS, "the bundle has no traced pass"),
            (make_run("eager"), Fact.STEP_TIMES, "the bundle has no clean pass"),
            (make_run("graph", clean=clean_timings([])), Fact.STEP_TIMES, "no iteration was timed"),
            (make_run("eager"), Fact.GRAPHS, "mode eager captures no graph"),
            (make_run("eager"), Fact.GRAPH_COSTS, "mode eager captures no graph"),
            (make_run("graph"), Fact.GRAPHS, "the bundle holds no graph"),
            (make_run("graph"), Fact.GRAPH_COSTS, "the bundle has no clean pass"),
            (
                make_run("graph", clean=clean_timings([])),
                Fact.GRAPH_COSTS,
                "the clean pass captured no graph",
            ),
            (make_run("graph"), Fact.MEMORY, "the bundle has no memory statistics"),
        ],
    )
    def test_a_missing_fact_has_its_recorded_reason(
        self, run: Run, fact: Fact, reason: str
    ) -> None:
        missing = explain_missing(run, fact)
        assert (missing.fact, missing.reason) == (fact, reason)

    def test_a_failed_pass_comes_before_what_the_manifest_says(self) -> None:
        failed = make_run(
            "graph",
            failures=(Failure(Pass.TRACED, "RuntimeError", "lost", None, ""),),
            absent=(Absent("traced pass", "it failed, see failures"),),
        )
        reason = "the traced pass failed: RuntimeError"
        assert explain_missing(failed, Fact.TRACED_PASS).reason == reason

    def test_a_fact_of_a_pass_is_missing_for_the_reason_of_the_pass(self) -> None:
        failed = make_run("graph", failures=(Failure(Pass.CLEAN, "RuntimeError", "", None, ""),))
        for fact in (Fact.STEP_TIMES, Fact.GRAPH_COSTS, Fact.MEMORY):
            assert explain_missing(failed, fact).reason == "the clean pass failed: RuntimeError"

    def test_a_reason_of_its_own_comes_before_that_of_the_pass(self) -> None:
        imported = make_run(
            "recorded",
            ExecutionMode.RECORDED,
            absent=(
                Absent("graphs", "no debug DOT was imported"),
                Absent("capture pass", "no capture trace was imported"),
            ),
        )
        assert explain_missing(imported, Fact.GRAPHS).reason == "no debug DOT was imported"

    def test_the_memory_of_a_recorded_program_comes_from_its_recording(self) -> None:
        died = make_run(
            "recorded",
            ExecutionMode.RECORDED,
            failures=(Failure(Pass.RECORDED, "ProcessDied", "", None, ""),),
            absent=(Absent("clean pass", "it ran once"),),
        )
        assert explain_missing(died, Fact.MEMORY).reason == "the recorded pass failed: ProcessDied"

    def test_a_subject_is_not_mistaken_for_another(self) -> None:
        found = make_run("graph", absent=(Absent("upload_ns of graph-1", "it allocates memory"),))
        assert find_recorded_reason(found, Fact.UPLOAD, "graph-1") == "it allocates memory"
        assert find_recorded_reason(found, Fact.UPLOAD, "graph-0") is None


@pytest.mark.parametrize(
    ("untraced", "reason"),
    [
        (make_run("graph", absent=(NO_REPLAYS,)), "no replay trace was imported"),
        (
            make_run("graph", failures=(NO_MEMORY,), absent=(NO_REPLAYS,)),
            "no replay trace was imported",
        ),
        (make_run("graph", failures=(NO_MEMORY,)), "the bundle has no traced pass"),
    ],
)
def test_timeline_and_export_give_the_reason_of_the_metrics(untraced: Run, reason: str) -> None:
    assert explain_missing(untraced, Fact.TRACED_PASS).reason == reason
    assert build_run_timeline(untraced).problem == reason
    with pytest.raises(InputError, match=f"graph: {reason}"):
        align_runs(make_experiment(untraced))
