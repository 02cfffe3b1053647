from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.observers import ObservedSeries, Observer, ObserverPass
from graphviz_dash.model.timings import StepTiming
from tests.bundle.examples import write_bundle

STEPS = (StepTiming(120, 10), StepTiming(130, 11))
ALONE = ObservedSeries(Observer.NONE, 0, None, STEPS, 100, (), (), None)
WATCHED = ObservedSeries(
    Observer.NODE_LEVEL, 1, "cupti-python 13.0.1", STEPS, 110, (90, 91), (80, 81), 6
)
FOUND = ObserverPass(2, (ALONE, WATCHED))


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = write_bundle(tmp_path / "run", observers=FOUND)
    assert read_bundle(path).observers == FOUND


def test_it_is_in_the_loaded_run(tmp_path: Path) -> None:
    path = write_bundle(tmp_path / "run", traces=(), observers=FOUND)
    assert load_run(path).observers == FOUND


def test_a_bundle_without_it_is_whole(tmp_path: Path) -> None:
    assert read_bundle(write_bundle(tmp_path / "run")).observers is None


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        (ObserverPass(2, (WATCHED,)), "every series has an observer"),
        (ObserverPass(2, (ALONE, replace(WATCHED, steps=()))), "0 steps"),
        (ObserverPass(1, (ALONE,)), "2 rows of 'none'"),
        (ObserverPass(2, (ALONE, replace(WATCHED, device_ns=(1, 2, 3)))), "3 rows"),
    ],
)
def test_incomparable_observer_series_are_refused(
    tmp_path: Path, wrong: ObserverPass, found: str
) -> None:
    path = write_bundle(tmp_path / "run", observers=wrong)
    with pytest.raises(InputError, match=rf"observers\.json.*{found}"):
        read_bundle(path)
