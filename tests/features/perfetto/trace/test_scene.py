from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphviz_dash.features.perfetto.trace.scene import Scene, build_scene
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.run import Experiment
from tests.builders import make_experiment


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return load_experiment(make_experiment(tmp_path_factory.mktemp("scene") / "toy"))


@pytest.fixture(scope="module")
def scene(toy: Experiment) -> Scene:
    return build_scene(toy)


def test_a_process_for_each_run(toy: Experiment, scene: Scene) -> None:
    assert scene.title == toy.name
    assert [(run.pid, run.name) for run in scene.runs] == [(1, "eager"), (2, "graph")]
    for shown, run in zip(scene.runs, toy.runs, strict=True):
        trace = run.replay_trace
        assert trace is not None
        assert len(shown.gpu) == trace.gpu.height
        assert len(shown.cpu) == trace.annotations.height + trace.ops.height + trace.runtime.height
        assert f"mode {run.mode.value}" in shown.description


def test_each_slice_is_on_one_lane(scene: Scene) -> None:
    for run in scene.runs:
        tracks = [lane for thread in run.threads for lane in thread.lanes]
        rows = np.concatenate([lane.rows for lane in tracks])
        assert sorted(rows.tolist()) == list(range(len(run.cpu)))
        streams = [lane for d in run.devices for s in d.streams for lane in s.lanes]
        rows = np.concatenate([lane.rows for lane in streams])
        assert sorted(rows.tolist()) == list(range(len(run.gpu)))


def test_each_flow_leads_from_one_launch_to_one_row(scene: Scene) -> None:
    seen: set[int] = set()
    for run in scene.runs:
        begun, ended = run.cpu.flow_ids.tolist(), run.gpu.flow_ids.tolist()
        assert sorted(begun) == sorted(ended)
        assert len(set(begun)) == len(begun) > 0
        assert not seen & set(begun)  # those of another run
        seen |= set(begun)


def test_the_busy_counter_ends_with_zero_and_is_a_share(scene: Scene) -> None:
    for run in scene.runs:
        for device in run.devices:
            assert device.busy.value[-1] == 0
            assert 0 <= device.busy.value.min() <= device.busy.value.max() <= 100
            assert (np.diff(device.busy.ts) > 0).all()


def test_facts_of_the_trace_are_listed(scene: Scene) -> None:
    assert "share no clock" in scene.facts["alignment"]
    assert "profiler attached" in scene.facts["pass"]
    assert {"run.eager", "run.graph"} <= scene.facts.keys()


def test_runs_that_are_left_out_are_reported(tmp_path: Path) -> None:
    from msgspec.structs import replace

    experiment = load_experiment(make_experiment(tmp_path / "toy"))
    eager, graph = experiment.runs
    scene = build_scene(replace(experiment, runs=(eager, replace(graph, replay_trace=None))))
    assert [run.name for run in scene.runs] == ["eager"]
    assert "left_out.graph" in scene.facts
