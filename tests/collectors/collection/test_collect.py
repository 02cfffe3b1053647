"""Run a collection without a GPU: results of passes are given, the rest is real."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from collectors.collection import machine
from collectors.collection.collect import collect
from collectors.collection.collection import Collection
from collectors.collection.progress import Report
from collectors.process.requests import (
    FAILURE_FILE,
    SERIES_FILE,
    PassRequest,
)
from collectors.process.results import write_result
from graphviz_dash.bundle import parts
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.bundle.write import BundleWriter
from graphviz_dash.errors import GraphvizDashError, InputError
from graphviz_dash.features.torch_compile.analysis.report import build_compile_report
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compilation import (
    Compilation,
    CompilationFact,
    CompiledFrame,
    FactSource,
    GraphBreak,
    TreeFunction,
    TreeNode,
    UserLine,
)
from graphviz_dash.model.compile_rules import CompileRuleId
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.observers import ObservedSeries, Observer
from graphviz_dash.model.run import ExecutionMode, Failure, Pass
from graphviz_dash.model.timings import StepTiming
from tests.bundle.examples import MEMORY_PASS
from tests.collectors.collection.pass_results import ENVIRONMENT, WORK, write_results
from tests.parallel_runs import PLAN

BREAK = GraphBreak(
    "0/0",
    "Failed to trace builtin operator `print`",
    None,
    (),
    None,
    (UserLine("model.py", 5, "forward", "print(x)"),),
)
TREE = Compilation(
    "2.11",
    tuple(FactSource(fact, "structured trace") for fact in CompilationFact),
    frames=(CompiledFrame("0/0", "forward", UserLine("model.py", 3, "forward"), False),),
    breaks=(BREAK,),
    functions=(TreeFunction(0, "0/0", "inference", (), 1, 1),),
    nodes=(TreeNode(0, 0, None, "graph-0", (), 0, 1, 0),),
)
"""Facts of torch.compile for a step with a graph break."""

Worker = Callable[..., "subprocess.CompletedProcess[str]"]


def ended(code: int, stderr: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess([], code, "", stderr)


def worker_that(
    fate: Callable[[PassRequest], subprocess.CompletedProcess[str] | None],
    *,
    in_processes: bool = False,
) -> Worker:
    def worker(*arguments: str, **_: object) -> subprocess.CompletedProcess[str]:
        if arguments[0] == "--environment":
            Path(arguments[1]).write_bytes(msgspec.json.encode(ENVIRONMENT))
            return ended(0)
        request = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=PassRequest)
        fatal = fate(request)
        if fatal is None:
            write_results(request, in_processes=in_processes)
        return fatal or ended(0)

    return worker


def collection(output: Path, workload: str = "mlp-train") -> Collection:
    return Collection(
        workload=workload,
        modes=(ExecutionMode.EAGER, ExecutionMode.GRAPH),
        output=output,
        iterations=5,
        traced_iterations=2,
        warmup=1,
        seed=0,
        command=("graphviz-dash", "collect"),
    )


def list_lines(lines: list[str]) -> Report:
    """Append the progress to ``lines``."""

    def report(line: str, *, is_failure: bool = False) -> None:
        assert is_failure == (" failed" in line)
        lines.append(line)

    return report


def test_each_mode_becomes_a_bundle_and_progress_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[tuple[str, str]] = []

    def note(request: PassRequest) -> None:
        order.append((request.mode.value, request.kind.value))

    monkeypatch.setattr(machine, "run_pass_worker", worker_that(note))
    lines: list[str] = []
    runs = collect(collection(tmp_path / "x"), list_lines(lines))
    # The clean passes come before anything attaches a profiler.
    assert order == [
        ("eager", "clean"),
        ("graph", "clean"),
        ("eager", "traced"),
        ("eager", "memory"),
        ("graph", "capture"),
        ("graph", "traced"),
        ("graph", "memory"),
    ]
    assert [run.path.name for run in runs] == ["eager", "graph"]
    eager, graph = (read_bundle(run.path) for run in runs)
    assert eager.clean is not None
    assert len(eager.clean.steps) == 5
    assert [absent.fact for absent in eager.manifest.absent] == [
        "graphs",
        "limits of the GPU",
    ]
    assert [g.id for g in graph.graphs] == ["graph-0"]
    assert graph.capture_trace is not None
    assert eager.memory_pass == graph.memory_pass == MEMORY_PASS
    done = [line for line in lines if "done in" in line]
    assert [line.partition("]")[0] for line in done] == [f"[{number}/7" for number in range(1, 8)]
    assert not eager.clean.processes
    assert done[4].startswith("[5/7] graph: capture pass done in ")
    assert sorted(p.name for p in (tmp_path / "x").iterdir()) == ["eager", "graph"]


def test_modes_are_timed_in_turns_and_each_process_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[tuple[str, int, int]] = []

    def note(request: PassRequest) -> None:
        if request.kind is Pass.CLEAN:
            order.append((request.mode.value, request.turn, request.iterations))

    monkeypatch.setattr(machine, "run_pass_worker", worker_that(note, in_processes=True))
    lines: list[str] = []
    eager, _ = collect(
        replace(collection(tmp_path / "x"), processes=3),
        lambda line, is_failure=False: lines.append(line),
    )
    assert order == [
        ("eager", 0, 2),
        ("graph", 0, 2),
        ("eager", 1, 2),
        ("graph", 1, 2),
        ("eager", 2, 1),
        ("graph", 2, 1),
    ]
    clean = read_bundle(eager.path).clean
    assert clean is not None
    assert [len(steps) for steps in clean.process_steps] == [2, 2, 1]
    # Each told its turn as the time of a step.
    assert [step.wall_ns for step in clean.steps] == [100, 100, 101, 101, 102]
    assert [process.start_unix_ns for process in clean.processes] == [0, 1, 2]
    assert lines[1] == "[1/11] eager: clean pass, process 1 of 3 …"
    assert lines[-1].startswith("[11/11] graph: memory pass done in ")


def test_a_mode_that_fails_in_a_later_turn_keeps_the_earlier_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[tuple[str, int]] = []

    def die(request: PassRequest) -> subprocess.CompletedProcess[str] | None:
        if request.kind is not Pass.CLEAN:
            return None
        order.append((request.mode.value, request.turn))
        return ended(-9) if (request.mode.value, request.turn) == ("graph", 1) else None

    monkeypatch.setattr(machine, "run_pass_worker", worker_that(die, in_processes=True))
    asked = replace(collection(tmp_path / "x"), processes=3)
    eager, graph = collect(asked, list_lines([]))
    assert order == [("eager", 0), ("graph", 0), ("eager", 1), ("graph", 1), ("eager", 2)]
    assert not eager.failures
    contents = read_bundle(graph.path)
    assert [failure.stage for failure in contents.manifest.failures] == [Pass.CLEAN]
    assert contents.clean is not None
    assert len(contents.clean.processes) == 1
    assert contents.replay_trace is not None
    assert "clean pass" not in {absent.fact for absent in contents.manifest.absent}


def test_every_process_times_at_least_one_iteration(tmp_path: Path) -> None:
    asked = replace(collection(tmp_path), iterations=2, processes=3)
    assert [asked.get_iterations(turn) for turn in range(3)] == [1, 1, 1]


def test_a_mode_without_graphs_has_no_pass_for_them(tmp_path: Path) -> None:
    asked = replace(collection(tmp_path), node_ids=True)
    wanted = (Pass.CLEAN, Pass.TRACED, Pass.MEMORY)
    assert asked.get_passes(ExecutionMode.COMPILE_DEFAULT) == wanted
    assert asked.get_passes(ExecutionMode.EAGER) == wanted


def observed(request: PassRequest) -> list[ObservedSeries]:
    observer = request.observer or Observer.NONE
    return [ObservedSeries(observer, 0, None, (StepTiming(9, 3),), 8, (), (), None)]


def test_the_step_is_timed_under_each_observer_between_two_that_watch_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[tuple[str, str]] = []

    def note(request: PassRequest) -> subprocess.CompletedProcess[str] | None:
        if request.kind is not Pass.OBSERVERS:
            return None
        order.append((request.mode.value, str(request.observer)))
        if request.observer is Observer.NODE_LEVEL:
            return ended(-11)
        content = msgspec.json.encode(observed(request))
        (Path(request.out) / SERIES_FILE).write_bytes(content)
        return None

    monkeypatch.setattr(machine, "run_pass_worker", worker_that(note))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    runs = collect(replace(collection(tmp_path / "x"), observers=True), list_lines([]))
    eager = ["none", "events", "torch-profiler", "cupti-node", "none"]
    graph = ["none", "events", "torch-profiler", "cupti-graph", "cupti-node", "none"]
    assert order == [("eager", name) for name in eager] + [("graph", name) for name in graph]
    contents = read_bundle(runs[1].path)
    assert contents.observers is not None
    found = [(one.observer.value, one.process) for one in contents.observers.series]
    assert found == [(name, place) for place, name in enumerate(graph) if name != "cupti-node"]
    assert contents.manifest.status == "complete"
    (why,) = (one for one in contents.manifest.absent if one.fact == "observer cupti-node")
    assert "SIGSEGV" in why.reason


def test_an_observers_pass_needs_a_process_without_an_observer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        machine,
        "run_pass_worker",
        worker_that(lambda request: ended(-11) if request.kind is Pass.OBSERVERS else None),
    )
    runs = collect(replace(collection(tmp_path / "x"), observers=True), list_lines([]))
    for run in runs:
        contents = read_bundle(run.path)
        assert contents.observers is None
        assert [failure.stage for failure in contents.manifest.failures] == [Pass.OBSERVERS]
        assert contents.clean is not None


def test_settings_reach_every_pass_and_what_it_found_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, ...]] = []

    def note(request: PassRequest) -> None:
        seen.append(request.settings)

    monkeypatch.setattr(machine, "run_pass_worker", worker_that(note))
    asked = replace(collection(tmp_path / "x"), settings=("layers=3",))
    runs = collect(asked, list_lines([]))
    assert seen == [("layers=3",)] * 7
    for run in runs:
        workload = read_bundle(run.path).manifest.workload
        assert workload.parameters == {"layers": 3}
        assert workload.work == WORK


def test_a_memory_pass_that_fails_leaves_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(request: PassRequest) -> subprocess.CompletedProcess[str] | None:
        return ended(-9) if request.kind is Pass.MEMORY else None

    monkeypatch.setattr(machine, "run_pass_worker", worker_that(die))
    eager, _ = collect(collection(tmp_path / "x"), list_lines([]))
    contents = read_bundle(eager.path)
    assert contents.memory_pass is None
    assert contents.clean is not None
    assert contents.replay_trace is not None
    assert contents.manifest.failures[0].stage is Pass.MEMORY


def test_a_failing_capture_is_kept_with_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_graph(request: PassRequest) -> subprocess.CompletedProcess[str] | None:
        if request.mode is ExecutionMode.EAGER:
            return None
        failure = Failure(Pass.CLEAN, "AcceleratorError", "not \x1b[31mpermitted", "a.py:3", "tb")
        (Path(request.out) / FAILURE_FILE).write_bytes(msgspec.json.encode(failure))
        return ended(1)

    monkeypatch.setattr(machine, "run_pass_worker", worker_that(fail_graph))
    lines: list[str] = []
    eager, graph = collect(
        collection(tmp_path / "x"), lambda line, is_failure=False: lines.append(line)
    )
    assert not eager.failures
    assert read_bundle(eager.path).manifest.status == "complete"
    failed = read_bundle(graph.path)
    assert failed.manifest.status == "failed"
    assert failed.manifest.failures[0].location == "a.py:3"
    assert {absent.fact for absent in failed.manifest.absent} == {
        "clean pass",
        "capture pass",
        "traced pass",
        "memory pass",
        "limits of the GPU",
    }
    (failed_pass,) = (line for line in lines if " failed" in line)
    assert "[2/7] graph: clean pass failed at a.py:3: not \\x1b" in failed_pass
    assert not any("\x1b" in line for line in lines)


def test_a_pass_that_dies_is_a_failure_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(request: PassRequest) -> subprocess.CompletedProcess[str] | None:
        dies = request.mode is ExecutionMode.GRAPH and request.kind is Pass.TRACED
        return ended(-9, "last words") if dies else None

    monkeypatch.setattr(machine, "run_pass_worker", worker_that(die))
    _, graph = collect(collection(tmp_path / "x"), list_lines([]))
    contents = read_bundle(graph.path)
    (failure,) = contents.manifest.failures
    assert failure.error == "ProcessDied"
    assert "SIGKILL" in failure.message
    assert failure.traceback == "last words"
    assert contents.clean is not None
    assert contents.replay_trace is None


@pytest.mark.parametrize("died", [Pass.CLEAN, Pass.CAPTURE, Pass.TRACED])
def test_a_compiled_mode_that_fails_keeps_what_the_compiler_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, died: Pass
) -> None:
    begun: list[Pass] = []

    def fail(request: PassRequest) -> subprocess.CompletedProcess[str] | None:
        begun.append(request.kind)
        out = Path(request.out)
        if request.kind is Pass.TRACED:
            write_result(parts.COMPILATION, TREE, out)
        if request.kind is not died and not (died is Pass.CLEAN and request.kind is Pass.TRACED):
            return None
        failure = Failure(request.kind, "RuntimeError", "it moved", "a.py:3", "")
        (out / FAILURE_FILE).write_bytes(msgspec.json.encode(failure))
        return ended(1)

    monkeypatch.setattr(machine, "run_pass_worker", worker_that(fail))
    asked = replace(collection(tmp_path / "x"), modes=(ExecutionMode.COMPILE,))
    (run,) = collect(asked, list_lines([]))
    assert begun.count(Pass.TRACED) == 1
    assert (Pass.MEMORY in begun) is (died is not Pass.CLEAN)
    contents = read_bundle(run.path)
    assert [failure.stage for failure in contents.manifest.failures] == [died]
    assert contents.replay_trace is None or died is Pass.CAPTURE
    assert contents.compilation is not None
    assert contents.compilation.breaks == TREE.breaks
    # Only graphs that the bundle has are named.
    named = [node.graph for node in contents.compilation.nodes]
    assert named == (["graph-0"] if died is Pass.TRACED else [None])
    report = build_compile_report(load_run(run.path, traces=False))
    assert not isinstance(report, Missing)
    assert [cause.rule for cause in report.causes] == [CompileRuleId.PYTHON_SIDE_EFFECT]


def test_a_mode_that_compiles_without_graphs_has_its_account_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiled(request: PassRequest) -> None:
        if request.kind is Pass.TRACED:
            account = msgspec.structs.replace(TREE, functions=(), nodes=())
            write_result(parts.COMPILATION, account, Path(request.out))

    monkeypatch.setattr(machine, "run_pass_worker", worker_that(compiled))
    asked = replace(collection(tmp_path / "x"), modes=(ExecutionMode.COMPILE_DEFAULT,))
    (run,) = collect(asked, list_lines([]))
    contents = read_bundle(run.path)
    assert contents.manifest.status == "complete"
    assert contents.compilation is not None
    assert contents.compilation.breaks == TREE.breaks


def test_nothing_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "run_pass_worker", worker_that(lambda _: None))
    collect(collection(tmp_path / "x"), list_lines([]))
    before = (tmp_path / "x" / "eager" / "manifest.json").read_bytes()
    with pytest.raises(InputError, match="already holds a run"):
        collect(collection(tmp_path / "x"), list_lines([]))
    assert (tmp_path / "x" / "eager" / "manifest.json").read_bytes() == before


def test_a_wrong_request_ends_in_the_workers_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        machine, "run_pass_worker", worker_that(lambda _: ended(2, "x\nno function 'f'"))
    )
    with pytest.raises(GraphvizDashError, match=r"^no function 'f'$"):
        collect(collection(tmp_path / "x"), list_lines([]))
    assert list((tmp_path / "x").iterdir()) == []


def test_a_full_disk_is_one_line_and_earlier_runs_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "run_pass_worker", worker_that(lambda _: None))
    real = BundleWriter.add_graph

    def full(self: BundleWriter, graph: CapturedGraph) -> None:
        real(self, graph)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(BundleWriter, "add_graph", full)
    with pytest.raises(GraphvizDashError, match="No space left on device"):
        collect(collection(tmp_path / "x"), list_lines([]))
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["eager"]
    assert read_bundle(tmp_path / "x" / "eager").manifest.status == "complete"


def test_a_mode_that_is_planned_is_planned_first_and_all_its_passes_follow_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[tuple[str, str | None]] = []

    def note(request: PassRequest) -> None:
        order.append((f"{request.mode} {request.kind}", request.plan))

    monkeypatch.setattr(machine, "run_pass_worker", worker_that(note))
    asked = replace(collection(tmp_path / "x"), modes=(ExecutionMode.EAGER, ExecutionMode.PARALLEL))
    runs = collect(asked, list_lines([]))
    assert [name for name, _ in order][:3] == ["parallel plan", "eager clean", "parallel clean"]
    plans = dict(order)
    assert plans.pop("parallel plan") is None
    for name, plan in plans.items():
        assert (plan is not None and Path(plan).name == "parallel-plan-0") == (
            name.startswith("parallel")
        )
    assert read_bundle(runs[1].path).parallel == PLAN


def test_without_a_plan_the_mode_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        machine,
        "run_pass_worker",
        worker_that(lambda request: ended(-11) if request.kind is Pass.PLAN else None),
    )
    asked = replace(collection(tmp_path / "x"), modes=(ExecutionMode.EAGER, ExecutionMode.PARALLEL))
    eager, parallel = (read_bundle(run.path) for run in collect(asked, list_lines([])))
    assert eager.manifest.status == "complete"
    assert parallel.manifest.status == "failed"
    assert [failure.stage for failure in parallel.manifest.failures] == [Pass.PLAN]
    reasons = {absent.fact: absent.reason for absent in parallel.manifest.absent}
    assert reasons["plan pass"] == "the pass failed, see failures"
    assert reasons["clean pass"] == reasons["memory pass"] == "the plan pass failed"
