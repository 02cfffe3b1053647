from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from collectors.doctor import diagnose
from collectors.doctor.requests import ENVIRONMENT_FILE
from collectors.replays.ask import CheckedWorkload
from graphviz_dash.analysis.nodes.replay_faults import FaultState, find_graph_faults
from graphviz_dash.analysis.nodes.whole_graph import expand_graph
from graphviz_dash.analysis.replay_check import list_replay_diagnoses
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.run import Environment, WorkloadInfo
from tests.analysis.test_replay_check import (
    make_check,
    make_difference,
    make_operator,
    make_replay_check,
)
from tests.builders import captured_graph, chain
from tests.bundle.examples import MANIFEST
from tests.doctors import report


def test_the_graph_of_a_checked_workload_shows_its_wrong_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Reading the environment needs torch.
    monkeypatch.setattr(diagnose, "read_machine_environment", lambda _: MANIFEST.environment)
    # A hash behind each operator of two nodes
    operators = tuple(make_operator(first_node=3 * number, nodes=2) for number in range(3))
    values = make_check(operators=operators, foreign=())
    values = replace(values, nodes=6, differences=(make_difference(operator=1),))
    graph = captured_graph(chain(6), "graph-0")
    result = CheckedWorkload(replace(make_replay_check(), values=(values,)), (graph,))
    diagnose.write_bundle(
        tmp_path / "doctor",
        report(),
        WorkloadInfo("step", "step:make", 0, 3, 3, 0),
        ("graphviz-dash", "doctor"),
        tmp_path,
        replay_result=result,
    )
    run = load_run(tmp_path / "doctor")
    faults = find_graph_faults(list_replay_diagnoses([run]), run.name, expand_graph(run, "graph-0"))
    assert faults is not None
    assert [item.nodes for item in faults.faults] == [(2, 3)]
    assert [faults.states[node] for node in (1, 2, 4)] == [
        FaultState.INDEPENDENT,
        FaultState.FAULT,
        FaultState.AFTER,
    ]


def test_the_environment_of_an_examined_workload_needs_no_other_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_scratch: Path) -> Environment:
        raise AssertionError

    monkeypatch.setattr(diagnose, "read_machine_environment", fail)
    assert MANIFEST.environment is not None
    environment = replace(MANIFEST.environment, driver="580.1")
    (tmp_path / ENVIRONMENT_FILE).write_bytes(msgspec.json.encode(environment))
    workload = WorkloadInfo("step", "step:make", 0, 3, 3, 0)
    diagnose.write_bundle(tmp_path / "doctor", report(), workload, ("graphviz-dash",), tmp_path)
    assert read_bundle(tmp_path / "doctor").manifest.environment == environment
