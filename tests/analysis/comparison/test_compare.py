"""The comparison: runs of known truth in, figures with their reasons out."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphviz_dash.analysis.comparison.compare import compare
from graphviz_dash.analysis.comparison.result import Comparison, Evidence, RunComparison
from graphviz_dash.analysis.doctor import diagnose
from graphviz_dash.analysis.metrics.registry import METRICS, Source
from graphviz_dash.analysis.metrics.throughput import THROUGHPUT
from graphviz_dash.analysis.replays.replays import match_replays
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.analysis.trace.steps import steps
from graphviz_dash.errors import InputError
from graphviz_dash.model.run import Absent, ExecutionMode, Experiment, Pass, Run
from graphviz_dash.model.trace import TraceProblem
from graphviz_dash.narrative.answer import answer_text
from tests.analysis.frames import (
    ENVIRONMENT,
    GRAPH,
    LIFE,
    Frames,
    clean_timings,
    failure,
    make_experiment,
    make_run,
    pools,
    steps_trace,
)
from tests.doctors import MOVED, report

WORK = [("gemm", 40_000), ("elementwise_kernel", 20_000), ("nccl", 10_000), ("odd", 5_000)]

ELSEWHERE = {
    *(
        metric.id
        for metric in METRICS.values()
        if metric.source in (Source.MEMORY_PASS, Source.RECORDED, Source.PREDICTED)
    ),
    *THROUGHPUT,
}
"""Metrics of facts that these runs lack; test_memory, test_throughput, test_recorded and
test_scored have those."""


def eager(**changes: object) -> Run:
    parts = {
        "clean": clean_timings([1_000_000] * 40, launch=950_000),
        "trace": steps_trace(6, 2_000_000, WORK, graph=False),
        "memory": pools(100 << 20),
    }
    return make_run("eager", **(parts | changes))  # type: ignore[arg-type]


def graphed(**changes: object) -> Run:
    parts = {
        "clean": clean_timings([125_000] * 40, intervals=[100_000] * 40, lives=(LIFE,)),
        "trace": steps_trace(6, 150_000, WORK, graph=True),
        "memory": pools(104 << 20, 30 << 20, 2 << 20),
        "graphs": (GRAPH,),
    }
    return make_run("graph", **(parts | changes))  # type: ignore[arg-type]


def both() -> Comparison:
    return compare(make_experiment(eager(), graphed()))


def values(run: RunComparison) -> dict[str, float | None]:
    return {figure.metric.id: figure.value for figure in run.figures}


class TestFigures:
    def test_each_formula(self) -> None:
        found = values(both()["graph"])
        busy = 75_000
        once = 2_000_000 + 300_000 + 200_000 - 125_000
        assert found == {
            "step_time": 125_000,
            "step_interval": 100_000,
            "launch_cpu_time": 5_000,
            "speedup": 8,
            "speedup_interval": 10,
            "step_saving": 875_000,
            "capture_time": 2_000_000,
            "instantiate_time": 300_000,
            "upload_time": 100_000,
            "first_launch_cpu_time": 90_000,
            "first_launch_time": 200_000,
            "one_off_cost": once,
            "break_even": 3,
            "private_pool": 32 << 20,
            "peak_reserved": 104 << 20,
            "peak_reserved_change": 4 << 20,
            "peak_allocated": 52 << 20,
            "traced_step_time": 150_000,
            "observer_effect": 1.2,
            "gpu_busy": busy,
            "self_cpu_time": 4,  # the launch and the final synchronisation, 2 ns each
            "busy_fraction": 0.5,
            "busy_of_clean": busy / 125_000,
            "concurrency": 1,
            "kernels": 4,
            "copies": 0,
            "sets": 0,
            "launches": 1,
            "graph_launches": 1,
            "graph_work": 4,
            "graph_work_share": 1,
            "graph_time_share": 1,
            # Before the first kernel 88 ns and three times 10 between them in either run; in eager
            # 6 until the first launch (12 ns, scaled by 950,000 over 1,999,990) and 874,876 after
            # the last kernel, until the call of the step returns.
            "gaps_removed": 874_882,
            "kernel_change": 0,
            "copy_change": 0,
            "synchronisation_removed": 0,
            "rank_wait_removed": None,
            "remainder": 118,
            "graphs": 1,
            "graph_nodes": 3,
            "graph_edges": 2,
            **dict.fromkeys(ELSEWHERE),
        }

    def test_eager_has_what_eager_can_have(self) -> None:
        found = values(both()["eager"])
        assert found["launches"] == 4
        assert found["private_pool"] == 0
        assert {metric for metric, value in found.items() if value is None} == {
            *("speedup", "speedup_interval", "step_saving", "break_even", "peak_reserved_change"),
            *("gaps_removed", "kernel_change", "copy_change", "synchronisation_removed"),
            *("rank_wait_removed", "remainder", "capture_time", "instantiate_time", "upload_time"),
            "first_launch_cpu_time",
            *("first_launch_time", "one_off_cost", "graphs", "graph_nodes", "graph_edges"),
            *("graph_work", "graph_work_share", "graph_time_share"),
            *ELSEWHERE,
        }

    def test_every_run_has_every_metric_with_a_value_or_a_reason(self) -> None:
        odd = make_experiment(
            eager(trace=None, memory=None),
            graphed(clean=None, failures=(failure(),)),
            make_run("compile", clean=clean_timings([])),
        )
        for run in (*both().runs, *compare(odd).runs):
            assert [figure.metric.id for figure in run.figures] == list(METRICS)
            for figure in run.figures:
                assert (figure.value is None) != (figure.reason is None), figure

    def test_steps_and_spreads_are_of_the_series(self) -> None:
        run = eager(clean=clean_timings([100, 200, 300, 400, 500], launch=50))
        found = compare(make_experiment(run)).runs[0]["step_time"]
        assert found.value == 300
        assert found.spread is not None
        assert (found.spread.low, found.spread.high, found.spread.samples) == (200, 400, 5)

    def test_several_graphs_add_up(self) -> None:
        second = msgspec.structs.replace(LIFE, graph="graph-1")
        clean = clean_timings([125_000] * 40, lives=(LIFE, second))
        found = compare(make_experiment(eager(), graphed(clean=clean)))["graph"]
        assert found["capture_time"].value == 4_000_000
        assert found["one_off_cost"].value == 2 * (2_000_000 + 300_000 + 200_000) - 125_000

    def test_an_upload_that_is_unknown_is_absent_not_zero(self) -> None:
        life = msgspec.structs.replace(LIFE, upload_ns=None)
        clean = clean_timings([125_000] * 40, lives=(life,))
        found = compare(make_experiment(eager(), graphed(clean=clean)))["graph"]
        assert found["upload_time"].reason == "the bundle does not have it for every graph"
        assert found["one_off_cost"].value == 2_375_000

    def test_bodies_are_no_graphs_of_their_own(self) -> None:
        body = msgspec.structs.replace(GRAPH, id="graph-0.1", parent=("graph-0", 2))
        found = compare(make_experiment(graphed(graphs=(GRAPH, body)))).runs[0]
        assert (found["graphs"].value, found["graph_nodes"].value) == (1, 6)


class TestSpeedup:
    def test_the_interval_holds_the_ratio_and_narrows_with_agreement(self) -> None:
        noisy = [1_000_000 + 3_000 * (place * 7919 % 101) for place in range(100)]
        run = compare(make_experiment(eager(clean=clean_timings(noisy)), graphed()))["graph"]
        speedup = run["speedup"]
        assert speedup.value is not None
        assert speedup.spread is not None
        assert speedup.spread.high is not None
        assert speedup.spread.low < speedup.value < speedup.spread.high
        steady = both()["graph"]["speedup"].spread
        assert steady is not None
        assert steady.low == steady.high == 8

    @given(
        saving=st.integers(1, 2_000_000),
        capture=st.integers(0, 50_000_000),
        first=st.integers(0, 5_000_000),
    )
    def test_break_even_is_the_first_replay_that_pays(
        self, saving: int, capture: int, first: int
    ) -> None:
        step, before = 125_000, 125_000 + saving
        life = msgspec.structs.replace(
            LIFE, capture_ns=capture, instantiate_ns=0, first_launch_ns=step + first
        )
        found = compare(
            make_experiment(
                eager(clean=clean_timings([before] * 5), trace=None),
                graphed(clean=clean_timings([step] * 5, lives=(life,)), trace=None),
            )
        )["graph"]["break_even"].value
        assert found is not None

        def pays(replays: int) -> bool:
            return capture + (step + first) + (replays - 1) * step <= replays * before

        assert pays(int(found))
        assert found == 1 or not pays(int(found) - 1)

    def test_no_saving_no_break_even(self) -> None:
        slow = graphed(clean=clean_timings([1_000_000] * 40, lives=(LIFE,)))
        found = compare(make_experiment(eager(), slow))["graph"]["break_even"]
        assert found.reason == "a replay saves nothing over a step of eager"

    def test_a_saving_that_may_be_none_leaves_break_even_open(self) -> None:
        near = [1_000_000 + (place % 10) * 20_000 for place in range(40)]
        before = [1_000_000 + (place % 10) * 20_100 for place in range(40)]
        found = compare(
            make_experiment(
                eager(clean=clean_timings(before)),
                graphed(clean=clean_timings(near, lives=(LIFE,))),
            )
        )["graph"]
        assert found["break_even"].value is not None
        assert found["break_even"].spread is not None
        assert found["break_even"].spread.high is None
        assert "no-difference" in [weakness.code for weakness in found.weaknesses]

    def test_a_clock_that_saw_nothing_gives_no_speedup(self) -> None:
        found = compare(make_experiment(eager(), graphed(clean=clean_timings([0] * 40))))["graph"]
        assert found["speedup"].value is None
        assert found["observer_effect"].value is None


class TestBaseline:
    def test_eager_unless_told(self) -> None:
        assert both().baseline == "eager"
        other = compare(make_experiment(eager(), graphed()), "graph")
        assert other.baseline == "graph"
        assert other["eager"]["speedup"].value == 0.125
        assert other["graph"]["speedup"].reason == "it is the baseline"
        assert [run.is_baseline for run in other.runs] == [False, True]

    def test_a_name_goes_before_a_mode(self) -> None:
        runs = make_experiment(eager(), make_run("eager-again", ExecutionMode.EAGER), graphed())
        assert compare(runs, "eager-again").baseline == "eager-again"
        assert compare(runs).baseline == "eager"

    def test_unknown_ones_are_refused_with_the_choices(self) -> None:
        with pytest.raises(InputError, match=r"no run or mode 'x\\n'; .* out of eager, graph$"):
            compare(make_experiment(eager(), graphed()), "x\n")

    def test_without_an_eager_run_there_is_no_speedup(self) -> None:
        found = compare(make_experiment(graphed()))
        assert found.baseline is None
        assert found["graph"]["speedup"].reason == (
            "the experiment has no eager run; name another baseline"
        )
        assert found.headline == "graph takes 125 us per step"

    def test_ranks_are_compared_with_their_own(self) -> None:
        runs = []
        for rank in (0, 1, 2):
            if rank < 2:
                step = 1_000_000 * (rank + 1)
                clean = clean_timings([step] * 40)
                runs.append(make_run(f"eager-{rank}", ExecutionMode.EAGER, clean=clean, rank=rank))
            clean = clean_timings([125_000] * 40, lives=(LIFE,))
            runs.append(make_run(f"graph-{rank}", ExecutionMode.GRAPH, clean=clean, rank=rank))
        found = compare(make_experiment(*runs))
        assert [found[f"graph-{rank}"]["speedup"].value for rank in range(3)] == [8, 16, None]
        assert found["graph-2"]["speedup"].reason == "eager has no run of rank 2"
        assert [run.name for run in found.runs if run.is_baseline] == ["eager-0", "eager-1"]
        assert found["graph-1"].baseline == "eager-1"

    def test_an_experiment_without_runs(self) -> None:
        found = compare(Experiment(make_experiment().path, ()))
        assert (found.baseline, found.runs, found.headline) == (None, (), "no runs")


class TestAbsence:
    def test_a_failed_run_has_its_failure_for_a_reason(self) -> None:
        broken = make_run(
            "graph",
            failures=(failure(message="first line\nsecond"),),
            absent=(Absent("traced pass", "the clean pass failed"),),
        )
        run = compare(make_experiment(eager(), broken))["graph"]
        reasons = {figure.metric.id: figure.reason for figure in run.figures}
        assert reasons["step_time"] == "the clean pass failed: RuntimeError"
        assert reasons["capture_time"] == "the clean pass failed: RuntimeError"
        assert reasons["gpu_busy"] == "the clean pass failed"
        assert run.sentence == (
            "graph failed in its clean pass at model.py:12: RuntimeError: first line"
        )

    def test_where_nothing_could_be_compared_the_answer_says_why_and_what_is_to_gain(self) -> None:
        broken = make_run("graph", failures=(failure(),))
        found = compare(make_experiment(eager(), broken))
        assert answer_text(found.answer) == (
            "Not as it stands: graph failed in its clean pass at model.py:12. A step of eager "
            "takes 1.00 ms, in which the GPU is idle for 925 us (92.5%), which is what graphs "
            "could save."
        )
        assert [piece.evidence for piece in found.answer if piece.evidence] == [
            Evidence.FAILURES,
            Evidence.ITERATIONS,
            Evidence.WHERE,
        ]
        assert compare(make_experiment(broken)).answer == ()
        assert both().answer == both()["graph"].answer

    def test_where_there_is_nothing_to_compare_the_answer_says_why_and_what_a_step_takes(
        self,
    ) -> None:
        alone = compare(make_experiment(eager())).answer
        assert answer_text(alone) == (
            "Not told: eager is the only run here, and none is there to compare it with. A step "
            "takes 1.00 ms."
        )
        traces = make_experiment(eager(clean=None), graphed(clean=None))
        told = compare(traces).answer
        assert answer_text(told) == (
            "Not told: no run has clean timings. Under the profiler a step takes 2.00 ms in eager, "
            "150 us in graph."
        )
        evidence = [(piece.evidence, piece.metric) for piece in told if piece.evidence]
        assert evidence == [(Evidence.FIGURES, "traced_step_time")] * 2
        lost = compare(make_experiment(eager(clean=None, trace=None))).answer
        assert answer_text(lost).endswith("to compare it with.")

    def test_a_graph_that_replays_other_work_is_not_worth_it_as_it_stands(self) -> None:
        examined = replace(
            make_run("doctor", ExecutionMode.GRAPH), doctor=report(MOVED, captured=True)
        )
        found = compare(make_experiment(eager(), graphed(), examined))
        assert answer_text(found.answer).startswith(
            "Not as it stands: replays do other work than the step. As it was timed, graph makes "
            "a step 8.00x faster than eager"
        )
        assert found.headline.endswith("; but replays do other work than the step")
        assert found.answer[1].evidence is Evidence.FAILURES
        assert found.verdicts == (("doctor", diagnose(report(MOVED, captured=True)).verdict),)
        sound = replace(make_run("doctor", ExecutionMode.GRAPH), doctor=report(captured=True))
        found = compare(make_experiment(eager(), graphed(), sound))
        assert answer_text(found.answer).startswith("Yes: ")

    def test_replays_of_other_work_are_the_outcome_only_where_no_others_are(self) -> None:
        examined = replace(
            make_run("doctor", ExecutionMode.GRAPH), doctor=report(MOVED, captured=True)
        )
        parts = make_run(
            "callables",
            ExecutionMode.CALLABLES,
            clean=clean_timings([500_000] * 40, intervals=[490_000] * 40, lives=(LIFE,)),
            graphs=(GRAPH,),
        )
        found = compare(make_experiment(eager(), graphed(), parts, examined))
        assert {run.name: run.sound for run in found.runs} == {
            "eager": True,
            "graph": False,
            "callables": True,
        }
        assert found.best is found["callables"]
        assert answer_text(found.answer).startswith("Yes: callables makes a step 2.00x faster")
        assert "replays do other work" not in found["callables"].sentence
        against_it = compare(make_experiment(eager(), graphed(), parts, examined), "graph")
        assert not against_it["eager"].sound
        assert not against_it["callables"].sound

    def test_a_failed_baseline_is_named(self) -> None:
        broken = make_run("eager", failures=(failure(),))
        run = compare(make_experiment(broken, graphed()))["graph"]
        reason = "the baseline eager: the clean pass failed: RuntimeError"
        assert run["speedup"].reason == reason
        assert run["step_time"].value == 125_000

    def test_a_traced_pass_that_failed_leaves_the_clean_figures(self) -> None:
        run = graphed(trace=None, failures=(failure(Pass.TRACED),))
        found = compare(make_experiment(eager(), run))
        assert found["graph"]["speedup"].value == 8
        assert found["graph"]["gpu_busy"].reason == "the traced pass failed: RuntimeError"
        assert found.headline.endswith("; its traced pass failed")

    def test_a_trace_without_steps_gives_no_figures_per_step(self) -> None:
        frames = Frames()
        frames.kernel("a", 1, 10, 5)
        run = compare(make_experiment(eager(trace=frames.trace()))).runs[0]
        assert run["kernels"].reason == "the trace marks no steps"
        assert run["concurrency"].value == 1
        assert run.where is None
        assert run.where_reason == "the trace marks no steps"

    def test_idle_steps(self) -> None:
        run = compare(make_experiment(eager(trace=steps_trace(6, 1_000, [], graph=False)))).runs[0]
        assert (run["gpu_busy"].value, run["kernels"].value) == (0, 0)
        assert run["concurrency"].reason == "nothing ran on the GPU in the traced steps"
        assert run.where is not None
        assert (run.where.parts, run.where.idle_ns) == ((), 1_000_000)


class TestWhere:
    def test_parts_add_up_to_the_clean_step(self) -> None:
        where = both()["graph"].where
        assert where is not None
        assert {part.category: part.ns for part in where.parts} == {
            Category.GEMM: 40_000,
            Category.ELEMENTWISE: 20_000,
            Category.COMMUNICATION: 10_000,
            Category.OTHER: 5_000,
        }
        assert where.idle_ns == 50_000
        assert where.excess_ns is None

    def test_work_longer_than_the_clean_step_is_not_cut_off(self) -> None:
        fast = graphed(clean=clean_timings([50_000] * 40))
        run = compare(make_experiment(eager(), fast))["graph"]
        assert run.where is not None
        assert (run.where.idle_ns, run.where.excess_ns) == (None, 25_000)
        assert sum(part.ns for part in run.where.parts) == 75_000
        assert run["busy_of_clean"].value == 1.5
        assert "busy-above-clean" in [weakness.code for weakness in run.weaknesses]

    def test_overlapping_work_is_counted_once(self) -> None:
        frames = Frames()
        for index in range(6):
            start = index * 1_000
            frames.step(index, start, start + 900)
            frames.kernel("gemm", start + 1, start + 10, 100, stream=7)
            frames.kernel("relu_elementwise", start + 2, start + 60, 100, stream=8)
        run = compare(make_experiment(eager(trace=frames.trace()))).runs[0]
        assert run.where is not None
        assert [(part.category, part.ns) for part in run.where.parts] == [
            (Category.GEMM, 100),
            (Category.ELEMENTWISE, 50),
        ]
        assert run["concurrency"].value == pytest.approx(200 / 150)


class TestWeakness:
    def codes(self, *runs: Run) -> dict[str, list[str]]:
        found = compare(make_experiment(*runs))
        return {run.name: [weakness.code for weakness in run.weaknesses] for run in found.runs}

    def test_sound_runs_have_none(self) -> None:
        trace = steps_trace(6, 1_200_000, WORK, graph=False)
        assert self.codes(eager(trace=trace), graphed()) == {"eager": [], "graph": []}

    def test_few_iterations(self) -> None:
        assert self.codes(eager(clean=clean_timings([1_000_000] * 29), trace=None)) == {
            "eager": ["few-iterations", "few-iterations"]
        }

    def test_a_wide_spread_says_how_wide(self) -> None:
        # An interquartile range of exactly a tenth, with outliers far outside of it.
        walls = [950_000, 950_000, 1_000_000, 1_050_000, 1_050_000] * 10
        walls[0], walls[-1] = 1_000, 9_000_000
        found = compare(make_experiment(eager(clean=clean_timings(walls))))
        assert "wide-spread" not in [weakness.code for weakness in found.runs[0].weaknesses]
        walls = [800_000, 1_000_000, 1_200_000, 1_000_000, 1_300_000, 700_000] * 10
        found = compare(make_experiment(eager(clean=clean_timings(walls, intervals=[1] * 40))))
        (weakness,) = [one for one in found.runs[0].weaknesses if one.code == "wide-spread"]
        assert weakness.text == (
            "step time: p25 to p75 is 40.0% of the median (800 us to 1.20 ms, 60 iterations)"
        )
        assert "--iterations 800" in weakness.advice

    def test_drift(self) -> None:
        walls = [1_200_000] * 20 + [1_000_000] * 20
        found = self.codes(eager(clean=clean_timings(walls, intervals=[1] * 40), trace=None))
        assert found == {"eager": ["drift", "wide-spread"]}

    def test_a_strong_observer_effect(self) -> None:
        assert self.codes(eager())["eager"] == ["observer"]

    def test_passes_that_did_not_run_alike(self) -> None:
        for step, codes in ((800_000, []), (799_999, ["passes-unlike"])):
            assert self.codes(eager(trace=steps_trace(6, step, WORK, graph=False))) == {
                "eager": codes
            }

    def test_few_traced_steps(self) -> None:
        trace = steps_trace(4, 1_200_000, WORK, graph=False)
        assert self.codes(eager(trace=trace)) == {"eager": ["few-traced-steps"]}

    def test_another_machine_and_another_workload(self) -> None:
        elsewhere = msgspec.structs.replace(ENVIRONMENT, driver=None, torch="2.12.0")
        found = compare(make_experiment(eager(), graphed(environment=elsewhere, seed=1)))
        assert [weakness.text for weakness in found["graph"].weaknesses] == [
            "driver is unknown here and 580.1 in eager",
            "torch is 2.12.0 here and 2.11.0 in eager",
            "this is collectors.workloads.mlp:mlp with seed 1, eager is "
            "collectors.workloads.mlp:mlp with seed 0",
        ]

    def test_other_parameters_of_the_workload(self) -> None:
        run = graphed()
        workload = msgspec.structs.replace(run.manifest.workload, parameters={"layers": 8})
        manifest = msgspec.structs.replace(run.manifest, workload=workload)
        found = compare(make_experiment(eager(), replace(run, manifest=manifest)))
        assert [weakness.text for weakness in found["graph"].weaknesses] == [
            "layers is 8 here and absent in eager"
        ]

    def test_problems_of_the_trace(self) -> None:
        frames = Frames()
        frames.step(0, 0, 100)
        run = eager(trace=frames.trace((TraceProblem("cut", "the trace ends early"),)))
        found = compare(make_experiment(run)).runs[0].weaknesses
        assert ("trace-cut", "the trace ends early") in [(one.code, one.text) for one in found]

    def test_a_problem_of_one_of_two_traces_says_of_which(self) -> None:
        frames = Frames()
        frames.step(0, 0, 100)
        cut, lost = TraceProblem("cut", "it ends early"), TraceProblem("lost", "some is lost")
        run = replace(graphed(), replay_trace=frames.trace((cut, lost)))
        run = replace(run, capture_trace=frames.trace((lost,)))
        found = compare(make_experiment(run)).runs[0].weaknesses
        told = [one.text for one in found if one.code.startswith("trace-")]
        assert told == ["traced pass: it ends early", "some is lost"]


class TestHeadline:
    def test_faster(self) -> None:
        assert both().headline == (
            "graph is 8.00x faster than eager: 125 us against 1,000 us per step; "
            "paid back after 3 replays; peak memory +4.00 MiB"
        )

    def test_slower(self) -> None:
        slow = graphed(
            clean=clean_timings([2_000_000] * 40, lives=(LIFE,)), memory=pools(50 << 20, 1)
        )
        assert compare(make_experiment(eager(), slow)).headline == (
            "graph is 2.00x slower than eager: 2.00 ms against 1.00 ms per step; "
            "never paid back; peak memory -50.0 MiB"
        )

    def test_alike(self) -> None:
        alike = graphed(clean=clean_timings([1_000_000] * 40), memory=None)
        assert compare(make_experiment(eager(), alike)).headline == (
            "graph and eager cannot be told apart: 1.00 ms against 1.00 ms per step "
            "(1.00x, 95% interval 1.00x to 1.00x)"
        )

    def test_the_fastest_of_several(self) -> None:
        third = make_run("compile", clean=clean_timings([100_000] * 40))
        found = compare(make_experiment(eager(), graphed(), third))
        assert found.headline.startswith("compile is 10.0x faster than eager")

    def test_a_failure_when_nothing_can_be_compared(self) -> None:
        broken = make_run("graph", failures=(failure(message="\x1b[2J\x9b"),))
        found = compare(make_experiment(eager(), broken))
        assert found.headline == (
            r"graph failed in its clean pass at model.py:12: RuntimeError: \x1b[2J\x9b"
        )

    def test_names_of_folders_drive_no_terminal(self) -> None:
        run = make_run("\x1b]0;x\x07", ExecutionMode.EAGER, clean=clean_timings([1_000] * 40))
        found = compare(make_experiment(run))
        assert found.headline == r"\x1b]0;x\x07 takes 1.00 us per step"


def test_what_is_known_already_changes_nothing() -> None:
    runs = make_experiment(eager(), graphed())
    taken = {run.name: steps(run.replay_trace) for run in runs.runs if run.replay_trace}
    replays = {
        run.name: match_replays(run.graphs, run.replay_trace)
        for run in runs.runs
        if run.replay_trace and run.graphs
    }
    known, anew = compare(runs, None, replays, taken), compare(runs)
    assert replays
    for one, other in zip(known.runs, anew.runs, strict=True):
        assert one.figures == other.figures
        assert one.answer == other.answer
    before, after = (found["graph"].waterfall for found in (known, anew))
    assert before is not None
    assert after is not None
    assert before.pairs.rows == after.pairs.rows


def test_of_all_steps_only_the_typical_one_is_kept() -> None:
    found = compare(make_experiment(eager(), graphed()))["graph"].waterfall
    assert found is not None
    for work in (found.pairs.before, found.pairs.after):
        assert work.each.start.shape == (0, len(work.items))
