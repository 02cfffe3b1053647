from __future__ import annotations

import msgspec
from msgspec.structs import replace

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.analysis.metrics.caveats import CaveatCode
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.run import Run, Source
from graphviz_dash.model.trace import TraceProblem
from graphviz_dash.narrative.low_confidence import _TEXTS, Note, describe_low_confidence
from graphviz_dash.units import format_ns
from tests.analysis.eager_and_graph import WORK, eager, graphed
from tests.analysis.frames import (
    ENVIRONMENT,
    Frames,
    clean_timings,
    make_experiment,
    make_run,
    steps_trace,
)
from tests.samples_once import SAMPLES


def notes(run: RunComparison) -> list[Note]:
    return describe_low_confidence(run.low_confidence)


def codes(*runs: Run) -> dict[str, list[str]]:
    compared = compare_runs(make_experiment(*runs))
    return {run.name: [note.code for note in notes(run)] for run in compared.runs}


def test_good_runs_have_none() -> None:
    trace = steps_trace(6, 1_200_000, WORK, graph=False)
    assert codes(eager(trace=trace), graphed()) == {"eager": [], "graph": []}


def test_few_iterations() -> None:
    assert codes(eager(clean=clean_timings([1_000_000] * 29), trace=None)) == {
        "eager": ["few-iterations", "few-iterations"]
    }


def test_a_wide_spread_says_how_wide() -> None:
    # An interquartile range of exactly a tenth, with outliers far outside of it.
    walls = [950_000, 950_000, 1_000_000, 1_050_000, 1_050_000] * 10
    walls[0], walls[-1] = 1_000, 9_000_000
    found = compare_runs(make_experiment(eager(clean=clean_timings(walls))))
    assert "wide-spread" not in [note.code for note in notes(found.runs[0])]
    walls = [800_000, 1_000_000, 1_200_000, 1_000_000, 1_300_000, 700_000] * 10
    found = compare_runs(make_experiment(eager(clean=clean_timings(walls, intervals=[1] * 40))))
    (note,) = [note for note in notes(found.runs[0]) if note.code == "wide-spread"]
    assert note.text == (
        "step time: p25 to p75 is 40.0% of the median (800 µs to 1.20 ms, 60 iterations)"
    )
    assert "--iterations 800" in note.advice


def test_drift() -> None:
    walls = [1_200_000] * 20 + [1_000_000] * 20
    found = codes(eager(clean=clean_timings(walls, intervals=[1] * 40), trace=None))
    assert found == {"eager": ["drift", "wide-spread"]}


def test_a_strong_observer_effect() -> None:
    assert codes(eager())["eager"] == ["observer"]


def test_passes_that_did_not_run_alike() -> None:
    for step, expected in ((800_000, []), (799_999, ["passes-unlike"])):
        assert codes(eager(trace=steps_trace(6, step, WORK, graph=False))) == {"eager": expected}


def test_few_traced_steps() -> None:
    trace = steps_trace(4, 1_200_000, WORK, graph=False)
    assert codes(eager(trace=trace)) == {"eager": ["few-traced-steps"]}


def imported(frames: Frames) -> Run:
    run = make_run("recorded", trace=frames.trace())
    source = Source("trace.json", "Kineto trace", 1, "0" * 64, "torch.profiler")
    return replace(run, manifest=msgspec.structs.replace(run.manifest, sources=(source,)))


def test_few_steps_of_a_foreign_trace_cannot_be_more() -> None:
    frames = Frames()
    frames.range("step[DECODE bs=32]", 0, 100)
    frames.kernel("a", launched=10, ts=20, dur=30)
    run = compare_runs(make_experiment(imported(frames))).runs[0]
    assert [(note.code, note.text, note.advice) for note in notes(run)] == [
        (
            "profiler-steps",
            "steps are separated by ranges of an inference engine, which may end without "
            "synchronisation",
            "",
        ),
        ("few-traced-steps", "traced pass: only 1 step", ""),
    ]


def test_a_trace_without_steps_is_counted_as_a_whole() -> None:
    frames = Frames()
    frames.kernel("a", launched=0, ts=20, dur=30)
    frames.work("b", 60, 20, kind="memcpy", correlation=frames.call("cudaMemcpyAsync", 55))
    frames.work("c", 90, 10, correlation=frames.call("cudaGraphLaunch", 82))
    run = compare_runs(make_experiment(imported(frames))).runs[0]
    assert [(note.code, note.text, note.advice) for note in notes(run)] == [
        (
            "no-steps",
            "the trace marks no steps, so there are no per-step figures. In total: 2 kernels, 1 "
            "copy, 0 sets, 3 launches (1 of graphs) in 100 ns, with the GPU busy for 60 ns "
            "(60.0%)",
            "",
        ),
        (
            "unseen-graphs",
            "1 of 1 graph launches in the trace, 16.7% of its GPU time, belong to graphs whose "
            "captures were not imported: only their times are known",
            "Import the trace of the captures too, or the graphs as debug DOT.",
        ),
    ]


def test_another_machine_and_another_workload() -> None:
    elsewhere = msgspec.structs.replace(ENVIRONMENT, driver=None, torch="2.12.0")
    found = compare_runs(make_experiment(eager(), graphed(environment=elsewhere, seed=1)))
    assert [note.text for note in notes(found["graph"])] == [
        "driver is unknown here and 580.1 in eager",
        "torch is 2.12.0 here and 2.11.0 in eager",
        "this is collectors.workloads.mlp:mlp with seed 1, eager is "
        "collectors.workloads.mlp:mlp with seed 0",
    ]


def test_other_parameters_of_the_workload() -> None:
    run = graphed()
    workload = msgspec.structs.replace(run.manifest.workload, parameters={"layers": 8})
    manifest = msgspec.structs.replace(run.manifest, workload=workload)
    found = compare_runs(make_experiment(eager(), replace(run, manifest=manifest)))
    assert [note.text for note in notes(found["graph"])] == ["layers is 8 here and absent in eager"]


def test_problems_of_the_trace() -> None:
    frames = Frames()
    frames.step(0, 0, 100)
    run = eager(trace=frames.trace((TraceProblem("cut", "the trace ends early"),)))
    found = notes(compare_runs(make_experiment(run)).runs[0])
    assert ("trace-cut", "the trace ends early") in [(note.code, note.text) for note in found]


def test_a_problem_of_one_of_two_traces_says_of_which() -> None:
    frames = Frames()
    frames.step(0, 0, 100)
    cut, lost = TraceProblem("cut", "it ends early"), TraceProblem("lost", "some is lost")
    run = replace(graphed(), replay_trace=frames.trace((cut, lost)))
    run = replace(run, capture_trace=frames.trace((lost,)))
    found = notes(compare_runs(make_experiment(run)).runs[0])
    texts = [note.text for note in found if note.code.startswith("trace-")]
    assert texts == ["traced pass: it ends early", "some is lost"]


def test_long_steps_of_an_engine_are_not_blamed_on_its_start() -> None:
    """43% of vLLM's time were eager steps, in the middle of its traffic."""
    (run,) = compare_runs(load_experiment(SAMPLES / "recorded-vllm")).runs
    (text,) = (note.sentence for note in notes(run) if note.code == CaveatCode.UNEVEN_STEPS.value)
    assert f"the median of all 2,477 is {format_ns(run['recorded_step'].value or 0)}" in text
    assert text.endswith("The steps by mode show which ones are long.")


def test_every_reason_has_words() -> None:
    assert _TEXTS.keys() == set(CaveatCode)
