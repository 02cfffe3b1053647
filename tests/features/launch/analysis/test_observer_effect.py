from __future__ import annotations

import random
from pathlib import Path
from statistics import median

import pytest
from msgspec.structs import replace

from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.features.launch.analysis.observer_effect import (
    ObserverEffect,
    StepMeasure,
    compute_observer_effect,
)
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.observers import ObservedSeries, Observer, ObserverPass
from graphviz_dash.model.run import Absent, Run
from graphviz_dash.model.timings import StepTiming
from tests.bundle.examples import CLEAN, GRAPH, MANIFEST


def around(truth: float, seed: int, noise: float = 0.01) -> tuple[int, ...]:
    source = random.Random(seed)
    return tuple(round(truth * source.gauss(1, noise)) for _ in range(60))


def observed(
    observer: Observer, process: int, launch: float, step: float, device: float | None = None
) -> ObservedSeries:
    steps = tuple(
        StepTiming(wall, cpu)
        for wall, cpu in zip(around(step, process), around(launch, process + 50), strict=True)
    )
    on_gpu = () if device is None else around(device, process + 90)
    reported = () if device is None else around(device * 1.1, process + 95)
    source = None if observer is Observer.NONE else "some tool 1.0"
    return ObservedSeries(observer, process, source, steps, round(step), on_gpu, reported, 600)


SERIES = (
    observed(Observer.NONE, 0, 3_000, 100_000),
    observed(Observer.EVENTS, 1, 6_000, 104_000, 80_000),
    observed(Observer.PROFILER, 2, 60_000, 150_000, 88_000),
    observed(Observer.NODE_LEVEL, 3, 3_030, 100_500, 80_100),
    observed(Observer.NONE, 4, 3_090, 102_000),
)


def run_with(*series: ObservedSeries, absent: tuple[Absent, ...] = ()) -> Run:
    return Run(
        path=Path("x/graph"),
        manifest=replace(MANIFEST, absent=absent),
        clean=CLEAN,
        graphs=(GRAPH,),
        memory=None,
        capture_trace=None,
        replay_trace=None,
        observers=ObserverPass(60, series) if series else None,
    )


@pytest.fixture
def effect() -> ObserverEffect:
    found = compute_observer_effect(run_with(*SERIES))
    assert isinstance(found, ObserverEffect)
    return found


def test_each_measure_has_an_effect_or_a_reason(effect: ObserverEffect) -> None:
    for row in effect.rows:
        assert row.effects.keys() | row.absent.keys() == set(StepMeasure)
        assert not row.effects.keys() & row.absent.keys()
    alone, events = effect.get_row(Observer.NONE), effect.get_row(Observer.EVENTS)
    assert alone is not None
    assert "no tool is attached" in alone.absent[StepMeasure.DEVICE]
    assert events is not None
    assert events.absent == {}
    silent = compute_observer_effect(
        run_with(SERIES[0], observed(Observer.EVENTS, 1, 6_000, 104_000))
    )
    assert isinstance(silent, ObserverEffect)
    events = silent.get_row(Observer.EVENTS)
    assert events is not None
    assert "took longer than the spin kernel" in events.absent[StepMeasure.DEVICE]


def test_ratios_are_to_both_processes_with_nothing_attached(effect: ObserverEffect) -> None:
    profiler = effect.get_row(Observer.PROFILER)
    assert profiler is not None
    assert profiler.effects[StepMeasure.LAUNCH].ratio == pytest.approx(60_000 / 3_045, rel=0.02)
    step = profiler.effects[StepMeasure.STEP]
    assert step.ratio == pytest.approx(150 / 101, rel=0.02)
    assert step.interval is not None
    assert step.interval.low <= 150 / 101 <= (step.interval.high or 0)
    assert step.is_significant is True
    assert profiler.records == 10


def test_two_processes_that_differ_by_as_much_say_nothing(effect: ObserverEffect) -> None:
    assert effect.noise[StepMeasure.STEP] == pytest.approx(1.02, abs=0.005)
    node_level = effect.get_row(Observer.NODE_LEVEL)
    assert node_level is not None
    assert node_level.effects[StepMeasure.STEP].is_significant is False
    assert node_level.effects[StepMeasure.LAUNCH].is_significant is False


def test_the_gpu_is_read_by_events_at_the_least(effect: ObserverEffect) -> None:
    alone, events = effect.get_row(Observer.NONE), effect.get_row(Observer.EVENTS)
    assert alone is not None
    assert events is not None
    assert StepMeasure.DEVICE not in alone.effects
    assert events.effects[StepMeasure.DEVICE].is_significant is None
    assert events.effects[StepMeasure.DEVICE].ratio == 1
    # What a tool says is divided by the device time under events, not by what events say.
    assert events.effects[StepMeasure.REPORTED].ratio == pytest.approx(1.1, rel=0.01)
    profiler = effect.get_row(Observer.PROFILER)
    assert profiler is not None
    assert profiler.effects[StepMeasure.DEVICE].ratio == pytest.approx(1.1, rel=0.01)
    assert profiler.effects[StepMeasure.REPORTED].ratio == pytest.approx(1.21, rel=0.01)


def test_a_missing_observer_effect_has_a_reason() -> None:
    reason = "it was collected without --observers"
    assert compute_observer_effect(run_with()) == Missing(Fact.OBSERVERS_PASS, reason)
    failed = Absent("observers pass", "it failed, see failures")
    reason = "it failed, see failures"
    assert compute_observer_effect(run_with(absent=(failed,))) == Missing(
        Fact.OBSERVERS_PASS, reason
    )


def test_an_observer_that_is_missing_is_told_with_its_reason() -> None:
    absent = (Absent("observer cupti-graph", "cupti-python was not installed"), Absent("x", "y"))
    found = compute_observer_effect(run_with(*SERIES, absent=absent))
    assert isinstance(found, ObserverEffect)
    assert found.untested == {Observer.GRAPH_LEVEL: "cupti-python was not installed"}


def test_one_process_alone_is_still_told() -> None:
    found = compute_observer_effect(run_with(SERIES[0]))
    assert isinstance(found, ObserverEffect)
    assert found.noise[StepMeasure.STEP] == 1


SAMPLE = Path(__file__).parents[4] / "sample_traces" / "transformer-train"


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_a_recording_on_a_gpu_holds_together(mode: str) -> None:
    """Apply the checks of tests/gpu for a new recording to the shipped one."""
    run = read_bundle(SAMPLE / mode)
    assert run.observers is not None
    seen = [one.observer for one in run.observers.series]
    graph_level = [Observer.GRAPH_LEVEL] if mode == "graph" else []
    assert seen == [
        Observer.NONE,
        Observer.EVENTS,
        Observer.PROFILER,
        Observer.STOPPED,
        *graph_level,
        Observer.NODE_LEVEL,
        Observer.NONE,
    ]
    by = {one.observer: one for one in run.observers.series}
    for one in run.observers.series:
        assert len(one.steps) == 100
        if one.observer is not Observer.NONE:
            # A step that the waiting kernel let go early is left out.
            assert len(one.device_ns) >= 50
    for observer in (Observer.PROFILER, *graph_level):
        if mode == "graph":
            ratio = median(by[observer].reported_ns) / median(by[observer].device_ns)
            assert 0.5 < ratio < 2
    if mode == "graph":
        assert by[Observer.PROFILER].records == by[Observer.NODE_LEVEL].records == 322 * 100
        assert by[Observer.GRAPH_LEVEL].records == 100


def test_the_recording_tells_what_a_tool_does_to_a_replay() -> None:
    found = compute_observer_effect(load_run(SAMPLE / "graph"))
    assert isinstance(found, ObserverEffect)
    # Launching a graph of 322 nodes costs more the more a tool records of it.
    launch = []
    for observer in (Observer.EVENTS, Observer.GRAPH_LEVEL, Observer.PROFILER):
        row = found.get_row(observer)
        assert row is not None
        assert row.effects[StepMeasure.LAUNCH].ratio is not None
        launch.append(row.effects[StepMeasure.LAUNCH].ratio)
    assert launch == sorted(launch)
    assert launch[0] > 1
