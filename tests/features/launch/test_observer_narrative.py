from __future__ import annotations

from msgspec.structs import replace

from graphviz_dash.features.launch.analysis.observer_effect import (
    ObserverEffect,
    StepMeasure,
    compute_observer_effect,
)
from graphviz_dash.features.launch.observer_narrative import (
    MEASURE_TITLES,
    OBSERVER_MEANINGS,
    OBSERVER_TITLES,
    describe_observer_effect,
    list_missing_observers,
)
from graphviz_dash.model.observers import Observer
from graphviz_dash.model.run import Absent, Run
from tests.features.launch.analysis.test_observer_effect import SERIES, run_with


def effect_of(run: Run) -> ObserverEffect:
    effect = compute_observer_effect(run)
    assert isinstance(effect, ObserverEffect)
    return effect


def test_everything_has_a_title_and_a_meaning() -> None:
    assert set(OBSERVER_TITLES) == set(OBSERVER_MEANINGS) == set(Observer)
    assert list(MEASURE_TITLES) == list(StepMeasure)


def test_a_difference_within_noise_is_not_called_longer() -> None:
    sentence = describe_observer_effect(effect_of(run_with(*SERIES)))
    assert "under CUPTI, a record per node, it takes as long to launch" in sentence


def test_one_process_alone_has_its_times() -> None:
    sentence = describe_observer_effect(effect_of(run_with(SERIES[0])))
    assert sentence.startswith("With nothing attached, a step of graph takes 99.9 µs, ")


def test_an_eager_step_is_issued_not_launched() -> None:
    assert "to issue" in describe_observer_effect(effect_of(replace(run_with(*SERIES), graphs=())))


def test_an_observer_that_was_not_tried_has_its_reason() -> None:
    absent = (Absent("observer cupti-graph", "cupti-python was not installed"),)
    assert list_missing_observers(effect_of(run_with(*SERIES, absent=absent))) == (
        "CUPTI, a record per graph: cupti-python was not installed",
    )
