from __future__ import annotations

import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from collectors.guard import Guard
from collectors.ledger import phases
from collectors.ledger.phases import PhaseWatch, classify_event, name_command
from graphviz_dash.model.ledger import SpanKind


class Recorder:
    def __init__(self) -> None:
        self.spans: list[tuple[SpanKind, str]] = []
        self.counts: list[str] = []
        self.holders: list[object] = []
        self.guard = Guard()
        self.watch = PhaseWatch(
            lambda kind, name, begin, end: self.spans.append((kind, name)),
            self.counts.append,
            self.holders.append,
            self.guard,
        )


def make_engine() -> Any:
    class Worker:
        def load_model(self, size: int) -> int:
            return size + 1

        def determine_available_memory(self) -> None:
            raise ValueError("no memory")

    module = ModuleType("vllm.v1.worker.gpu_worker")
    module.Worker = Worker  # type: ignore[attr-defined]
    return module


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    engine = make_engine()
    monkeypatch.setitem(sys.modules, engine.__name__, engine)
    return Recorder()


def test_functions_of_an_engine_are_timed_and_restored(recorder: Recorder) -> None:
    worker = sys.modules["vllm.v1.worker.gpu_worker"].Worker
    original = worker.load_model
    recorder.watch.start()
    loaded = worker()
    assert loaded.load_model(2) == 3
    assert recorder.holders == [loaded]
    with pytest.raises(ValueError, match="no memory"):
        worker().determine_available_memory()
    assert recorder.spans == [
        (SpanKind.WEIGHTS, "Worker.load_model"),
        (SpanKind.WARM_UP, "Worker.determine_available_memory"),
    ]
    recorder.watch.stop()
    assert worker.load_model is original
    worker().load_model(2)
    assert len(recorder.spans) == 2
    assert recorder.guard.errors == 0


def test_events_of_the_compiler_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    class ChromiumEventLogger:
        def log_event_start(self, event_name: str, time_ns: int, metadata: Any) -> None: ...
        def log_event_end(self, event_name: str, time_ns: int, metadata: Any) -> None: ...
        def log_instant_event(self, event_name: str, time_ns: int) -> None: ...

    module: Any = ModuleType("torch._dynamo.utils")
    module.ChromiumEventLogger = ChromiumEventLogger
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", module)
    recorder = Recorder()
    recorder.watch.start()
    logger = ChromiumEventLogger()
    logger.log_event_start("dynamo", 1, {})
    logger.log_event_start("inductor_compile", 2, {})
    logger.log_event_end("inductor_compile", 3, {})
    logger.log_event_end("dynamo", 4, {})
    logger.log_event_end("never started", 5, {})
    logger.log_instant_event("fx_graph_cache_hit", 6)
    recorder.watch.stop()
    assert recorder.spans == [
        (SpanKind.INDUCTOR, "inductor_compile"),
        (SpanKind.DYNAMO, "dynamo"),
    ]
    assert recorder.counts == ["fx_graph_cache_hit"]


def test_other_versions_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = SimpleNamespace(__name__="torch._dynamo.utils", Worker=None)
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", module)
    empty = ModuleType("vllm.v1.worker.gpu_worker")
    monkeypatch.setitem(sys.modules, empty.__name__, empty)
    recorder = Recorder()
    recorder.watch.start()
    recorder.watch.stop()
    assert recorder.guard.errors == 0


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ("dynamo", SpanKind.DYNAMO),
        ("backend_compile", SpanKind.DYNAMO),
        ("GraphLowering.codegen", SpanKind.INDUCTOR),
        ("async_compile.wait", SpanKind.TRITON),
        ("CachingAutotuner.benchmark_all_configs", SpanKind.AUTOTUNE),
    ],
)
def test_events_by_kind(event: str, kind: SpanKind) -> None:
    assert classify_event(event) is kind


def test_a_kept_function_is_not_timed_after_the_end(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Triton's kernels keep the function that compiled them first."""
    triton: Any = ModuleType("triton.compiler")
    triton.compile = lambda source: source * 2
    monkeypatch.setitem(sys.modules, "triton.compiler", triton)
    recorder.watch.start()
    kept = triton.compile
    assert kept(2) == 4
    assert recorder.spans == [(SpanKind.TRITON, "compile")]
    recorder.watch.stop()
    assert kept(3) == 6
    assert len(recorder.spans) == 1


def test_waits_for_child_processes_are_timed(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phases, "MIN_WAIT_NS", 0)
    original = subprocess.Popen.wait
    recorder.watch.start()
    done = subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, check=True)
    recorder.watch.stop()
    assert done.stdout == b"1\n"
    program = sys.executable.rpartition("/")[2]
    assert set(recorder.spans) == {(SpanKind.CHILD, program)}
    assert subprocess.Popen.wait is original


def test_short_waits_are_omitted(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "MIN_WAIT_NS", 1 << 62)
    recorder.watch.start()
    subprocess.run([sys.executable, "-c", ""], check=True)
    recorder.watch.stop()
    assert recorder.spans == []


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (
            ["/usr/bin/python3.12", "-m", "vllm.registry", "--key", "s"],
            "python3.12 -m vllm.registry",
        ),
        (["/usr/bin/python3", "run.py", "--key", "s"], "python3"),
        ("nvidia-smi -L", "nvidia-smi"),
        (b"/bin/ls", "ls"),
        ("TOKEN=secret /usr/bin/make all", "make"),
        (["TOKEN=secret make --key=s"], "make"),
        ([], ""),
    ],
)
def test_names_of_commands_omit_arguments(command: Any, name: str) -> None:
    assert name_command(command) == name
