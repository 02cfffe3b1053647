from __future__ import annotations

import msgspec
import pytest

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.metrics.caveats import CaveatCode, make_caveat
from graphviz_dash.analysis.metrics.low_confidence import find_machine_caveats
from graphviz_dash.analysis.metrics.run_metrics import compute_cpu_loop, compute_machine_metrics
from graphviz_dash.model.absence import Fact
from graphviz_dash.model.run import Run
from graphviz_dash.model.timings import CleanProcess, GpuClocks
from tests.analysis.eager_and_graph import eager, graphed
from tests.analysis.frames import clean_timings, in_processes, make_experiment

CLOCKS = GpuClocks(1_980, 1_980, 3_201, ())


def beside(*processes: tuple[tuple[int, ...], GpuClocks | None]) -> Run:
    """An eager run of one iteration per process, with its loop and clocks."""
    clean = clean_timings([1_000_000] * len(processes))
    rows = tuple(CleanProcess(0, 1, 1, loop, clocks) for loop, clocks in processes)
    return eager(clean=msgspec.structs.replace(clean, processes=rows), trace=None)


def test_the_loop_is_told_by_its_median_and_its_mean_over_its_fastest() -> None:
    loop = compute_cpu_loop(beside(((100, 110), CLOCKS), ((120, 470), CLOCKS)))
    assert loop is not None
    assert (loop.median_ns, loop.slowdown, loop.processes) == (115, 2.0, 2)


def test_figures_are_there_or_have_a_reason() -> None:
    figures = {
        figure.metric.id: figure for figure in compute_machine_metrics(beside(((5,), CLOCKS)))
    }
    assert {name: figure.value for name, figure in figures.items()} == {
        "cpu_loop": 5,
        "cpu_slowdown": 1,
        "sm_clock": 1_980e6,
    }
    assert figures["sm_clock"].text == "1,980 MHz"
    for run, fact in ((eager(), Fact.MACHINE_STATE), (beside(((5,), None)), Fact.GPU_CLOCKS)):
        missing = {figure.metric.id: figure.missing for figure in compute_machine_metrics(run)}[
            "sm_clock"
        ]
        assert missing is not None
        assert missing.fact is fact


def test_a_quiet_machine_raises_no_doubt() -> None:
    run = beside(((100, 101), CLOCKS), ((100, 102), CLOCKS))
    assert list(find_machine_caveats(run, run)) == []


def test_a_busy_host_is_named() -> None:
    (doubt,) = find_machine_caveats(beside(((100, 130), CLOCKS)), None)
    assert doubt.code is CaveatCode.BUSY_HOST
    assert "speedup" in doubt.metrics


def test_hosts_that_are_not_as_fast_are_named() -> None:
    run, baseline = beside(((120, 120), CLOCKS)), beside(((100, 100), CLOCKS))
    assert list(find_machine_caveats(run, baseline)) == [
        make_caveat(CaveatCode.HOST_MISMATCH, run_ns=120, baseline_ns=100, baseline="eager")
    ]


@pytest.mark.parametrize(
    ("clocks", "causes", "code"),
    [
        (
            (CLOCKS, GpuClocks(1_500, 1_980, 3_201, ("power cap",))),
            ("power cap",),
            CaveatCode.SLOW_GPU,
        ),
        ((CLOCKS, GpuClocks(1_500, 1_980, 3_201, ())), (), CaveatCode.CLOCK_VARIANCE),
    ],
)
def test_a_gpu_whose_clock_is_held_down_is_named(
    clocks: tuple[GpuClocks, ...], causes: tuple[str, ...], code: CaveatCode
) -> None:
    run = beside(*(((100,), state) for state in clocks))
    assert list(find_machine_caveats(run, None)) == [
        make_caveat(code, causes=causes, lowest=1_500, highest=1_980, maximum=1_980)
    ]


def test_processes_that_do_not_agree_are_named() -> None:
    run = eager(clean=in_processes([1_000_000] * 8, [1_200_000] * 8), trace=None)
    (steps, intervals) = find_machine_caveats(run, None)
    medians = (1_000_000, 1_200_000)
    assert steps == make_caveat(CaveatCode.PROCESS_VARIANCE, metric="step_time", medians=medians)
    assert intervals.metrics == ("step_interval",)


def test_it_is_among_what_makes_a_run_less_sure() -> None:
    run = compare_runs(make_experiment(beside(((100, 200), CLOCKS)), graphed())).runs[0]
    assert CaveatCode.BUSY_HOST in [caveat.code for caveat in run.low_confidence]
