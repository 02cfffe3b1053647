from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import msgspec
import pytest

from graphviz_dash.analysis.ledger.memory import LedgerPart
from graphviz_dash.analysis.ledger.report import LedgerReport, build_ledger_report
from graphviz_dash.analysis.ledger.savings import SavingAction
from graphviz_dash.analysis.ledger.startup import TimePart
from graphviz_dash.bundle import parts
from graphviz_dash.features.ledger.narrative import describe_losses
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.ledger import SampleKind
from graphviz_dash.model.run import ExecutionMode, Pass

MIB = 1 << 20
SERVER = Path(__file__).parents[2] / "evaluation" / "ledger" / "server.py"


def test_a_recorded_program_adds_up_to_what_it_reads_itself(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "collectors", "-o", str(tmp_path / "out"), "--steps", "0"]
    program = [sys.executable, str(SERVER), "--layers", "2", "--width", "512", "--sizes", "8,4,1"]
    done = subprocess.run([*command, "--", *program], capture_output=True, text=True, check=True)
    facts = json.loads(next(line for line in done.stdout.splitlines() if line[:5] == "FACTS")[6:])
    run = load_run(tmp_path / "out" / "recorded")
    report = build_ledger_report(run)
    assert report is not None
    assert report.memory is not None
    moment = report.memory.end_of_startup
    assert sum(moment.parts.values()) == moment.used == facts["used"]["first replay"]
    assert LedgerPart.REMAINDER not in moment.parts
    for part in (LedgerPart.CONTEXT, LedgerPart.KERNELS, LedgerPart.WEIGHTS, LedgerPart.POOLS):
        assert moment.parts[part] > MIB
    assert sum(report.startup.parts.values()) == report.startup.total_ns
    # The kernel counts the age of a process in ticks of 10 ms.
    clock = facts["seconds"]["first replay"]
    assert report.startup.total_ns / 1e9 == pytest.approx(clock, rel=0.02, abs=0.05)
    assert report.startup.recorder_ns < 0.02 * report.startup.total_ns
    assert [graph.graph for graph in report.graphs] == ["graph-0", "graph-1", "graph-2"]
    assert all((graph.capture_ns or 0) > 0 for graph in report.graphs)


def test_a_memory_pass_shows_operators_and_drops_its_graphs(tmp_path: Path) -> None:
    from collectors.process.requests import PassRequest
    from collectors.workloads import BUILT_IN

    factory = BUILT_IN["mlp-train"]
    request = PassRequest(Pass.MEMORY, ExecutionMode.GRAPH, factory, 0, 3, 5, 2, str(tmp_path))
    file = tmp_path / "request.json"
    file.write_bytes(msgspec.json.encode(request))
    subprocess.run([sys.executable, "-m", "collectors.passes.worker", str(file)], check=True)
    ledger = parts.LEDGER.read(tmp_path / parts.LEDGER.file_name)
    kinds = {sample.kind for sample in ledger.samples}
    assert {SampleKind.OPERATOR, SampleKind.CACHE_RELEASE, SampleKind.GRAPH_DROP} <= kinds
    operators = [s.name for s in ledger.samples if s.kind is SampleKind.OPERATOR]
    assert any(name is not None and "mm" in name for name in operators)
    assert ledger.startup_end_ns is not None
    assert ledger.states
    drops = [s for s in ledger.samples if s.kind is SampleKind.GRAPH_DROP]
    assert [sample.name for sample in drops] == ["graph-0"]


def record_program(folder: Path, text: str) -> LedgerReport:
    script = folder / "program.py"
    script.write_text(textwrap.dedent(text))
    command = [sys.executable, "-m", "collectors", "-o", str(folder / "out"), "--steps", "0"]
    done = subprocess.run(
        [*command, "--", sys.executable, str(script)], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    (folder / "stdout.txt").write_bytes(done.stdout)
    report = build_ledger_report(load_run(folder / "out" / "recorded"))
    assert report is not None
    assert report.memory is not None
    return report


def read_fact(folder: Path, name: str) -> int:
    """Read a number that the recorded program printed after ``name``."""
    lines = (folder / "stdout.txt").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1])


def test_memory_held_for_other_streams_explains_a_pool_that_grows(tmp_path: Path) -> None:
    """64 blocks of 4 MiB, used on a side stream and freed in a capture: the pool keeps them all."""
    program = """
    import torch
    side = torch.cuda.Stream()
    def step():
        for _ in range(64):
            block = torch.empty(4 << 20, dtype=torch.uint8, device="cuda")
            block.zero_()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                block.add_(1)
            block.record_stream(side)
            del block
        torch.cuda.current_stream().wait_stream(side)
    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    graph.replay()
    torch.cuda.synchronize()
    """
    report = record_program(tmp_path, program)
    graph = report.graphs[0]
    assert graph.held_bytes is not None
    assert graph.reserved_bytes is not None
    assert graph.held_bytes == pytest.approx(64 * 4 * MIB, rel=0.02)
    assert graph.held_bytes == pytest.approx(graph.reserved_bytes, rel=0.1)
    assert any("record_stream" in text for text in describe_losses(report))


def test_failed_captures_explain_reserved_memory_without_tensors(tmp_path: Path) -> None:
    program = """
    import gc, torch
    torch.zeros(1, device="cuda")
    for _ in range(5):
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                block = torch.ones(256 << 20, dtype=torch.uint8, device="cuda")
                block.sum().item()
        except RuntimeError:
            pass
        graph = block = None
        gc.collect()
        torch.cuda.empty_cache()
    x = torch.zeros(4, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.add_(1)
    graph.replay()
    torch.cuda.synchronize()
    segments = torch.cuda.memory_snapshot()
    print("private", sum(s["total_size"] for s in segments if s["segment_pool_id"] != (0, 0)))
    """
    report = record_program(tmp_path, program)
    assert report.memory is not None
    assert [graph.failure for graph in report.graphs] == [True] * 5 + [False]
    end = report.memory.moments[-1]
    failed = end.parts[LedgerPart.FAILED_POOLS]
    grown = [graph.reserved_bytes or 0 for graph in report.graphs[:5]]
    # The last capture allocates nothing, so all private memory is of failed ones.
    assert failed == read_fact(tmp_path, "private")
    # The first capture allocates seeds of random numbers for its stream, in the default pool.
    assert sum(grown) - failed == 2 * MIB
    # Ones of 256 MiB, and as integers of eight bytes for the sum.
    assert failed >= 5 * (256 + 2048) * MIB
    assert sum(end.parts.values()) == end.used
    assert LedgerPart.REMAINDER not in end.parts
    assert any("failed captures left" in text for text in describe_losses(report))


def test_executables_explain_memory_outside_the_allocator(tmp_path: Path) -> None:
    """One graph of many tiny operators: the device loses more than torch's allocator has."""
    program = """
    import torch
    x = torch.ones(64, 64, device="cuda", requires_grad=True)
    def step():
        y = x
        for _ in range(360):
            y = torch.tanh(y * 1.01 + 0.1).clamp(-2, 2) * 0.99 + y.sigmoid()
        y.sum().backward()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step()
    torch.cuda.synchronize()
    x.grad = None
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        step()
    before, _ = torch.cuda.mem_get_info()
    graph.instantiate()
    after, _ = torch.cuda.mem_get_info()
    print("growth", before - after)
    graph.replay()
    torch.cuda.synchronize()
    """
    report = record_program(tmp_path, program)
    graph = report.graphs[0]
    assert graph.nodes is not None
    assert graph.nodes > 360 * 10
    assert graph.executable_bytes == read_fact(tmp_path, "growth")
    # A node of this driver uses 2.4 to 3.3 kB, in chunks of 2 MiB.
    assert 2_000 <= graph.executable_bytes / graph.nodes <= 3_500
    assert report.memory is not None
    end = report.memory.end_of_startup
    assert end.parts[LedgerPart.EXECUTABLES] == graph.executable_bytes
    assert sum(end.parts.values()) == end.used
    assert LedgerPart.REMAINDER not in end.parts


def test_objects_that_the_program_freezes_have_owners(tmp_path: Path) -> None:
    """Engines freeze Python's collector before captures, and it then lists no object."""
    program = """
    import gc, torch
    net = torch.nn.Linear(4096, 4096, device="cuda")
    net.buffers = []
    cache = torch.zeros(64 << 20, dtype=torch.uint8, device="cuda")
    x = torch.zeros(8, 4096, device="cuda")
    def step():
        with torch.no_grad():
            return net(x)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step()
    torch.cuda.synchronize()
    gc.collect()
    gc.freeze()
    frozen = gc.get_freeze_count()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    graph.replay()
    torch.cuda.synchronize()
    # Some frozen objects end with the program's own work.
    assert gc.get_freeze_count() > 0.99 * frozen
    """
    report = record_program(tmp_path, program)
    assert report.memory is not None
    parts = report.memory.end_of_startup.parts
    assert parts[LedgerPart.WEIGHTS] >= 64 * MIB
    assert parts[LedgerPart.TENSORS] >= 64 * MIB
    assert parts[LedgerPart.WORKSPACES] < 100 * MIB


def test_the_recorder_freezes_no_objects_of_the_program(tmp_path: Path) -> None:
    """Python 3.12 has frozen objects from its start, and each capture of torch collects."""
    program = """
    import gc, torch
    frozen = gc.get_freeze_count()
    ballast = [[number] for number in range(1_000_000)]
    x = torch.zeros(4, device="cuda")
    graphs = []
    for _ in range(3):
        gc.collect()
        graphs.append(torch.cuda.CUDAGraph())
        with torch.cuda.graph(graphs[-1]):
            x.add_(1)
    graphs[-1].replay()
    torch.cuda.synchronize()
    assert gc.get_freeze_count() <= frozen, gc.get_freeze_count()
    """
    report = record_program(tmp_path, program)
    freeze = next(s for s in report.savings if s.action is SavingAction.FREEZE)
    # Five of six collections of a million lists.
    assert freeze.ns > 50_000_000
    assert freeze.ns < report.startup.parts[TimePart.GC]


def test_memory_of_other_processes_stays_apart(tmp_path: Path) -> None:
    """Another process takes 512 MiB between the context and the capture."""
    program = """
    import subprocess, sys, time, torch
    x = torch.zeros(4, device="cuda")
    code = '''
    import torch
    x = torch.zeros(512 << 20, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    print("ready", flush=True)
    input()
    '''
    import textwrap
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", textwrap.dedent(code)]
    other = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    other.stdout.readline()
    time.sleep(0.2)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.add_(1)
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    time.sleep(0.2)
    other.communicate("\\n")
    """
    report = record_program(tmp_path, program)
    memory = report.memory
    assert memory is not None
    end = memory.end_of_startup
    before = memory.moments[0].parts.get(LedgerPart.OTHER_PROCESSES, 0)
    assert end.parts[LedgerPart.OTHER_PROCESSES] - before >= 512 * MIB + 400 * MIB
    assert end.parts[LedgerPart.KERNELS] < 400 * MIB
    assert memory.own_bytes < 1_500 * MIB
