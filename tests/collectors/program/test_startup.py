from __future__ import annotations

import signal
import textwrap
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from collectors.program.bundle import end_startup
from graphviz_dash.model.ledger import Ledger, SampleKind, SpanKind
from tests.collectors.program.recorded import CAPTURE, run, run_apart, seen
from tests.ledgers import MS, make_ledger


def ledger_of(folder: Path, program: str, *options: str) -> Ledger:
    done = run(folder, CAPTURE + program, *options)
    assert done.returncode == 0, done.stderr
    contents, _ = seen(folder)
    assert contents.ledger is not None
    assert not [fact for fact in contents.manifest.absent if fact.fact == "complete recording"]
    return contents.ledger


SERVER = """
import gc, time
torch.cuda._lazy_init()
time.sleep(0.1)
graphs = [captured() for _ in range(3)]
for _ in range(20):
    for graph in graphs:
        graph.replay()
    time.sleep(0.01)
late = captured()
late.replay()
"""


def test_memory_and_time_of_a_program_until_its_first_useful_replay(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, SERVER, "--steps", "0")
    names = [f"graph-{number}" for number in range(4)]
    kinds = [sample.kind for sample in ledger.samples]
    assert kinds[0] is SampleKind.CONTEXT
    assert kinds[-1] is SampleKind.END
    # Samples around each capture, also after the start-up.
    for kind in (SampleKind.CAPTURE_BEGIN, SampleKind.CAPTURE_END, SampleKind.INSTANTIATION):
        named = [sample.name for sample in ledger.samples if sample.kind is kind]
        assert named == names
    assert all(a.time_ns <= b.time_ns for a, b in pairwise(ledger.samples))
    assert [graph.graph for graph in ledger.graphs] == names
    assert ledger.graphs[0].pool == (0, 1)
    launches = [span for span in ledger.spans if span.kind is SpanKind.LAUNCH]
    assert [span.name for span in launches] == names
    assert ledger.startup_end_ns == launches[0].end_ns == ledger.graphs[0].first_replay_ns
    assert ledger.module_loading == "lazy"
    kinds = [ledger.samples[state.sample].kind for state in ledger.states]
    assert kinds == [SampleKind.CAPTURE_BEGIN, SampleKind.END]


def test_spans_start_with_the_process_and_are_nested(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, SERVER, "--steps", "0")
    spans = [span for span in ledger.spans if span.thread == 0]
    interpreter, torch, hook = spans[:3]
    assert (interpreter.kind, interpreter.start_ns) == (SpanKind.INTERPRETER, 0)
    assert (torch.kind, torch.name) == (SpanKind.IMPORT, "torch")
    assert (hook.kind, hook.start_ns) == (SpanKind.RECORDER, torch.end_ns)
    ordered = sorted(spans, key=lambda span: (span.start_ns, -span.end_ns))
    for number, outer in enumerate(ordered):
        for inner in ordered[number + 1 :]:
            assert inner.start_ns >= outer.end_ns or inner.end_ns <= outer.end_ns


@pytest.mark.parametrize("program", ["captured()\n", "torch.cuda._lazy_init()\ncaptured()\n"])
def test_without_a_replay_the_start_up_does_not_end(tmp_path: Path, program: str) -> None:
    ledger = ledger_of(tmp_path, program)
    assert ledger.startup_end_ns is None
    assert ledger.samples[-1].kind is SampleKind.END


def test_one_replay_before_the_end_of_the_program_ends_the_start_up(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, "g = captured(); h = captured(); h.replay()\n")
    assert ledger.startup_end_ns == ledger.graphs[1].first_replay_ns is not None


def test_a_failed_capture_is_part_of_the_ledger(tmp_path: Path) -> None:
    program = """
    g = G()
    g.capture_begin()
    torch.capturing = "broken"
    try:
        g.capture_end()
    except RuntimeError:
        pass
    h = captured()
    h.replay()
    """
    ledger = ledger_of(tmp_path, textwrap.dedent(program))
    assert [graph.failure for graph in ledger.graphs] == [True, False]
    captures = [span.name for span in ledger.spans if span.kind is SpanKind.CAPTURE]
    assert captures == ["graph-0", "graph-1"]


def test_torch_is_restored_after_the_start_up(tmp_path: Path) -> None:
    program = """
import gc, importlib, time
before = torch.cuda._lazy_init.__name__
g = captured()
recording = len(gc.callbacks), importlib._bootstrap._load_unlocked.__name__
for _ in range(100):
    g.replay()
    time.sleep(0.005)
print(recording, len(gc.callbacks), importlib._bootstrap._load_unlocked.__name__)
"""
    done = run(tmp_path, CAPTURE + program, "--steps", "0")
    assert done.stdout.strip() == "(1, 'load') 0 _load_unlocked", done.stdout


def test_the_ledger_of_a_forked_child_starts_with_the_fork(tmp_path: Path) -> None:
    """Engines fork their workers, which load the model long before their first capture."""
    Path(tmp_path / "slow_engine.py").write_text("import time; time.sleep(0.05)\n")
    program = """
import os, sys, time
time.sleep(0.2)
child = os.fork()
if child == 0:
    import slow_engine
    torch.cuda._lazy_init()
    time.sleep(0.1)
    g = captured()
    g.replay()
    sys.exit()
os.waitpid(child, 0)
"""
    ledger = ledger_of(tmp_path, program, "--steps", "0")
    assert any(span.kind is SpanKind.IMPORT and span.name == "slow_engine" for span in ledger.spans)
    context = ledger.samples[0]
    capture = next(span for span in ledger.spans if span.kind is SpanKind.CAPTURE)
    assert context.kind is SampleKind.CONTEXT
    assert capture.start_ns - context.time_ns > 90_000_000
    assert ledger.startup_end_ns is not None
    assert ledger.startup_end_ns < 10_000_000_000


def test_a_process_killed_after_its_start_up_keeps_the_allocations_of_captures(
    tmp_path: Path,
) -> None:
    """The state is written every 10 s, and SGLang kills a scheduler that served for less."""
    program = """
import os, time
g = captured()
for _ in range(100):
    g.replay()
    time.sleep(0.005)
os.kill(os.getpid(), 9)
"""
    ended = run_apart(tmp_path, CAPTURE + program, "--steps", "0")
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    ledger = seen(tmp_path)[0].ledger
    assert ledger is not None
    assert SampleKind.STARTUP_END in {sample.kind for sample in ledger.samples}
    assert "allocations" in {span.name for span in ledger.spans}


def test_a_killed_process_ends_its_start_up_like_others() -> None:
    """SGLang kills its scheduler, sometimes before it replayed as often as it captured."""
    killed = make_ledger(startup_end_ns=None)
    assert end_startup(killed).startup_end_ns == 3_602 * MS
    assert end_startup(make_ledger()) == make_ledger()
    early = tuple(replace(graph, first_replay_ns=3_390 * MS) for graph in killed.graphs)
    assert end_startup(replace(killed, graphs=early)).startup_end_ns is None
