from __future__ import annotations

import sys
from pathlib import Path

import pytest

from collectors.predict import run
from collectors.predict.run import SuiteRecording, record_suite
from collectors.predict.suites import load_suite
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.errors import InputError
from graphviz_dash.model.run import ExecutionMode, Pass
from tests.analysis.frames import ENVIRONMENT

WORKER = """
import gzip, json, sys
from pathlib import Path

request = json.loads(Path(sys.argv[1]).read_text())
with open(Path(request["folder"]).parent / "starts.txt", "a") as file:
    file.write(request["kind"] + " " + ",".join(request["names"]) + "\\n")
for name in request["names"]:
    folder = Path(request["folder"]) / name
    if name == "raises" and request["kind"] == "clean":
        failure = {"stage": "clean", "error": "RuntimeError", "message": "no", "location": None,
                   "traceback": ""}
        (folder / "failure.json").write_text(json.dumps(failure))
        sys.exit(1)
    if name == "dies" and request["kind"] == "traced":
        sys.exit(9)
    timings = {"warmup_ns": 5, "steps": [[100, 40]] * 3, "back_to_back_ns": [90, 91], "graphs": []}
    if request["kind"] == "clean":
        (folder / "eager.json").write_text(json.dumps(timings))
        (folder / "graph.json").write_text(json.dumps(timings | {"steps": [[10, 4]]}))
        (folder / "absent.json").write_text("[]")
    else:
        (folder / "trace.json.gz").write_bytes(gzip.compress(b'{"traceEvents": []}'))
    print("the workload's own words")
    print("done: " + name + " in 0.1 s", flush=True)
"""


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    monkeypatch.setattr(run, "WORKER", (sys.executable, str(script)))
    monkeypatch.setattr(run, "read_machine_environment", lambda scratch: ENVIRONMENT)
    told: list[str] = []

    def go(*names: str) -> tuple[Path, list[str], object]:
        output = tmp_path / "out"
        failures = record_suite(
            SuiteRecording(
                suite="a.suite",
                names=names,
                factories={name: f"a.suite:{name}" for name in names},
                output=output,
                iterations=100,
                eager_iterations=30,
                traced_iterations=4,
                warmup=5,
                seed=0,
                command=("graphviz-dash", "bench", "predict"),
            ),
            told.append,
        )
        return output, told, failures

    return go


def test_each_workload_becomes_an_experiment_of_two_bundles(recorded: object) -> None:
    output, told, failures = recorded("one", "two")  # type: ignore[operator]
    assert failures == ()
    eager = read_bundle(output / "one" / "eager")
    graph = read_bundle(output / "one" / "graph")
    assert eager.manifest.mode is ExecutionMode.EAGER
    assert eager.clean is not None
    assert eager.replay_trace is not None
    assert eager.manifest.workload.iterations == 30
    assert graph.clean is not None
    assert graph.clean.steps[0].wall_ns == 10
    assert graph.replay_trace is None
    assert {one.fact for one in graph.manifest.absent} >= {"capture pass", "traced pass"}
    # What a workload prints is not taken for the worker's word.
    assert [line for line in told if "two" in line] == [
        "clean: two in 0.1 s",
        "traced: two in 0.1 s",
    ]
    assert not list(output.glob(".*"))


def test_a_workload_that_fails_costs_no_other_its_turn(recorded: object) -> None:
    output, told, failures = recorded("one", "raises", "dies", "two")  # type: ignore[operator]
    assert [(name, one.stage, one.error) for name, one in failures] == [
        ("raises", Pass.CLEAN, "RuntimeError"),
        ("dies", Pass.TRACED, "ProcessDied"),
    ]
    broken = read_bundle(output / "raises" / "graph").manifest
    assert broken.status == "failed"
    half = read_bundle(output / "dies" / "eager")
    assert half.clean is not None
    assert half.replay_trace is None
    assert half.manifest.status == "failed"
    assert read_bundle(output / "dies" / "graph").manifest.status == "complete"
    assert read_bundle(output / "two" / "eager").replay_trace is not None
    assert "clean: raises failed" in told


def test_nothing_is_written_over(recorded: object, tmp_path: Path) -> None:
    (tmp_path / "out" / "one").mkdir(parents=True)
    with pytest.raises(InputError, match="already exists"):
        recorded("one")  # type: ignore[operator]


def test_a_suite_is_a_dictionary_of_factories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "good_suite.py").write_text("SUITE = {'a': print}\n")
    (tmp_path / "bad_suite.py").write_text("SUITE = {'../a': print}\n")
    (tmp_path / "no_suite.py").write_text("x = 1\n")
    assert load_suite("good_suite") == {"a": print}
    with pytest.raises(InputError, match=r"the name '\.\./a'"):
        load_suite("bad_suite")
    with pytest.raises(InputError, match="defines no suite"):
        load_suite("no_suite")
    with pytest.raises(InputError, match="no module 'missing_suite'"):
        load_suite("missing_suite")
