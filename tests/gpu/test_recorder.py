from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from graphviz_dash.bundle.read import BundleContents, read_bundle
from graphviz_dash.model.recording import BoundaryKind, Recording
from graphviz_dash.model.run import ExecutionMode

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
COLLECT = (sys.executable, "-m", "graphviz_dash.app.cli.main", "collect")


def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=160,
    )


def recorded(cwd: Path, program: list[str], *options: str) -> subprocess.CompletedProcess[str]:
    return run([*COLLECT, "-o", "out", *options, "--", *program], cwd)


def seen_of(contents: BundleContents) -> Recording:
    assert contents.recording is not None
    return contents.recording


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("program", "kind", "graphs", "code"),
    [
        (["plain_module.py", "--code", "3"], BoundaryKind.OPTIMIZER, 0, 3),
        (["graphed_callables.py"], BoundaryKind.OPTIMIZER, 6, 0),
        (["compiled.py"], BoundaryKind.OPTIMIZER, 3, 0),
        (["torchvision_train.py"], BoundaryKind.OPTIMIZER, 0, 0),
        (["torchvision_train.py", "--graph"], BoundaryKind.OPTIMIZER, 1, 0),
        (["huggingface_generate.py"], BoundaryKind.REPLAYS, 1, 0),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else None,
)
def test_a_program_prints_and_ends_as_without_us_and_is_seen(
    tmp_path: Path, program: list[str], kind: BoundaryKind, graphs: int, code: int
) -> None:
    command = [sys.executable, str(PROGRAMS / program[0]), *program[1:]]
    plain = run(command, tmp_path)
    assert plain.returncode == code, plain.stderr
    # A step of the ResNet has more than 2,000 events.
    options = ("--skip", "8", "--steps", "4", "--window-pause", "5")
    watched = recorded(tmp_path, command, *options)
    assert (watched.returncode, watched.stdout) == (code, plain.stdout), watched.stderr
    print(watched.stderr[-2000:])
    assert "callback is not found" not in watched.stderr
    contents = read_bundle(tmp_path / "out" / "recorded")
    assert contents.manifest.mode is ExecutionMode.RECORDED
    assert contents.manifest.status == "complete"
    seen = seen_of(contents)
    print(
        seen.boundary_kind,
        seen.boundary,
        seen.steps,
        len(seen.step_ns),
        seen.step_ns[:8],
        seen.window_steps,
    )
    for graph in seen.graphs:
        print(graph)
    assert (seen.boundary_kind, seen.exit_code) == (kind, code)
    captured = [graph for graph in seen.graphs if graph.nodes]
    assert len(captured) >= graphs
    assert (graphs > 0) == bool(captured)
    assert {graph.graph for graph in captured} == {
        graph.id for graph in contents.graphs if graph.parent is None
    }
    assert not [graph.problem for graph in seen.graphs if graph.problem]
    assert seen.final_wait_ns is not None
    # Backward graphs of compiled code are captured in a thread that runs no line of the program's.
    assert any(graph.captured_at for graph in captured) == bool(graphs)
    assert len(seen.step_ns) == 8
    assert seen.window_steps == 4
    assert contents.replay_trace is not None
    assert sum(graph.replays for graph in captured) >= len(captured) > 0 or not graphs


@pytest.mark.timeout(300)
def test_captures_are_profiled_when_asked_for(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAMS / "torchvision_train.py"), "--graph"]
    done = recorded(tmp_path, command, "--attribute", "--name", "graphed", "--skip", "5")
    assert done.returncode == 0, done.stderr
    contents = read_bundle(tmp_path / "out" / "graphed")
    seen = seen_of(contents)
    (graph,) = seen.graphs
    assert graph.profiled
    assert seen.profiler_active
    assert graph.captured_at[0].startswith("torchvision_train.py:")
    assert contents.capture_trace is not None
    assert contents.replay_trace is not None


SCRIPT = """
import os, sys, torch
x = torch.zeros(64, device="cuda")
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    x.add_(1)
for i in range(40):
    g.replay()
torch.cuda.synchronize()
print(x[0].item(), flush=True)
{end}
"""


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("end", "code", "failure"),
    [
        ("raise RuntimeError('lost')", 1, "RuntimeError"),
        ("import time; time.sleep(4); os.kill(os.getpid(), 9)", -signal.SIGKILL, "ProcessDied"),
        ("sys.exit('no')", 1, None),
    ],
)
def test_a_program_that_ends_badly_leaves_what_was_seen(
    tmp_path: Path, end: str, code: int, failure: str | None
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.format(end=end))
    done = recorded(tmp_path, [sys.executable, "train.py"], "--steps", "0")
    assert (done.returncode, done.stdout) == (code, "40.0\n"), done.stderr
    contents = read_bundle(tmp_path / "out" / "recorded")
    assert [failed.error for failed in contents.manifest.failures] == ([failure] if failure else [])
    seen = seen_of(contents)
    assert [graph.replays for graph in seen.graphs] == [40]
    assert seen.exit_code == code
    assert [len(graph.nodes) for graph in contents.graphs] == [1]
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["recorded"]


@pytest.mark.timeout(200)
def test_every_rank_of_torchrun_is_a_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.format(end=""))
    done = recorded(tmp_path, ["torchrun", "--nproc-per-node", "2", "train.py"], "--steps", "5")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "40.0\n40.0\n"
    runs = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert runs == ["recorded-rank0", "recorded-rank1"]
    for rank, name in enumerate(runs):
        contents = read_bundle(tmp_path / "out" / name)
        assert contents.manifest.rank == rank


def test_a_part_of_a_program_is_recorded_and_torch_is_left_as_it_was(tmp_path: Path) -> None:
    import torch
    from torch.cuda import CUDAGraph

    import collectors

    class Mine(CUDAGraph):
        def replay(self) -> None:
            super().replay()

    before = {name: getattr(CUDAGraph, name) for name in ("capture_begin", "capture_end", "replay")}
    call = torch.nn.Module.__call__
    data = torch.zeros(4, device="cuda")
    earlier = CUDAGraph()
    with torch.cuda.graph(earlier):
        data.add_(1)
    with collectors.record(tmp_path, name="part", skip=4, steps=3):
        graph, mine = CUDAGraph(), Mine()
        for one in (graph, mine):
            with torch.cuda.graph(one):
                data.add_(1)
        for _ in range(20):
            earlier.replay()
            graph.replay()
            mine.replay()
            collectors.step()
        # The last of the program's references goes: the recorder holds none.
        gone = weakref.ref(graph)
        del graph, one
        gc.collect()
        assert gone() is None
    assert {name: getattr(CUDAGraph, name) for name in before} == before
    assert torch.nn.Module.__call__ is call
    assert torch.compile.__module__.startswith("torch")
    torch.cuda.synchronize()
    assert data.tolist() == [60.0] * 4
    contents = read_bundle(tmp_path / "part")
    seen = seen_of(contents)
    assert (seen.boundary_kind, seen.boundary) == (BoundaryKind.EXPLICIT, "collectors.step()")
    assert seen.earlier_replays == 20
    assert [(graph.replays, graph.alive) for graph in seen.graphs] == [(20, False), (20, True)]
    assert [graph.window_replays for graph in seen.graphs] == [6, 6]
    assert (len(seen.step_ns), seen.window_steps) == (4, 3)
    assert seen.graphs[0].captured_at[0].startswith(("test_recorder.py:", "tests/gpu/"))


def test_a_failed_capture_is_kept_and_the_program_gets_its_own_error(tmp_path: Path) -> None:
    import torch

    import collectors

    data = torch.zeros(4, device="cuda")
    with collectors.record(tmp_path, name="failing", steps=0):
        with pytest.raises(torch.AcceleratorError), torch.cuda.graph(torch.cuda.CUDAGraph()):
            data.sum().item()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            data.add_(1)
        graph.replay()
    seen = seen_of(read_bundle(tmp_path / "failing"))
    assert [graph.nodes for graph in seen.graphs] == [None, 1]
    assert "AcceleratorError" in (seen.graphs[0].problem or "")


def test_memory_is_freed_as_without_the_recorder(tmp_path: Path) -> None:
    import torch

    import collectors

    def use() -> tuple[int, int]:
        """Bytes of the device in use with a graph alive, and after it is gone."""
        data = torch.zeros(1 << 20, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = data
            for _ in range(200):
                out = out + 1
        graph.replay()
        torch.cuda.synchronize()
        held = torch.cuda.memory_reserved()
        del graph, out, data
        gc.collect()
        torch.cuda.empty_cache()
        return held, torch.cuda.memory_reserved()

    use()
    plain = use()
    with collectors.record(tmp_path, name="memory", steps=0):
        watched = use()
    assert watched == plain
