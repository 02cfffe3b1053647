from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from collectors.program.steps import PATIENCE
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.recording import BoundaryKind
from graphviz_dash.model.run import ExecutionMode
from tests.collectors.program.recorded import CAPTURE, COLLECT, PATH, alone, run, run_apart, seen


def test_a_loop_of_replays_is_counted_timed_and_traced(tmp_path: Path) -> None:
    loop = "g = captured()\nfor i in range(40):\n    g.replay()\nprint('out', i)\n"
    done = run(tmp_path, CAPTURE + loop, "--skip", "5", "--steps", "4")
    assert (done.returncode, done.stdout) == (0, "out 39\n"), done.stderr
    contents, recording = seen(tmp_path)
    manifest = contents.manifest
    assert (manifest.mode, manifest.status) == (ExecutionMode.RECORDED, "complete")
    assert (manifest.workload.name, manifest.workload.seed) == ("train.py", None)
    assert (recording.boundary_kind, recording.boundary) == (
        BoundaryKind.REPLAYS,
        "replay of graph-0",
    )
    (graph,) = recording.graphs
    # Three steps settle, four are marked.
    assert (graph.replays, graph.window_replays, graph.nodes) == (40, 7, 2)
    assert graph.captured_at == ("train.py:7", "train.py:10")
    assert (len(recording.step_ns), recording.window_steps) == (5, 4)
    assert recording.final_wait_ns is not None
    assert recording.exit_code == 0
    assert [len(graph.nodes) for graph in contents.graphs] == [2]
    assert contents.memory is not None
    assert [fact.fact for fact in manifest.absent] == [
        "clean pass",
        "memory pass",
        "capture pass",
        "limits of the GPU",
    ]
    (loaded,) = load_experiment(tmp_path / "out").runs
    assert loaded.replay_trace is not None
    marks = loaded.replay_trace.annotations["name"].to_list()
    assert marks == [f"graphviz_dash.step#{number}" for number in range(4)]


@pytest.mark.parametrize(
    ("program", "kind", "boundary"),
    [
        (
            "o = torch.optim.SGD()\nfor _ in range(20):\n    g.replay(); o.step()",
            BoundaryKind.OPTIMIZER,
            "SGD.step returns",
        ),
        (
            "o = torch.optim.SGD()\nh = G()\nwith torch.cuda.graph(h):\n    o.step()\n"
            "for _ in range(20):\n    g.replay(); h.replay()",
            BoundaryKind.OPTIMIZER,
            "replay of graph-1, which holds SGD.step",
        ),
        (
            "import collectors\no = torch.optim.SGD()\n"
            "for _ in range(20):\n    g.replay(); o.step(); collectors.step()",
            BoundaryKind.EXPLICIT,
            "collectors.step()",
        ),
        (
            "class M(torch.nn.Module):\n    def forward(self): pass\n"
            "class Net(torch.nn.Module):\n    inner = M()\n    def forward(self): self.inner()\n"
            "net = Net()\nfor _ in range(20):\n    net()\nassert type(net).__call__",
            BoundaryKind.FORWARDS,
            "forward of Net",
        ),
        (
            "del g\n@torch.compile\ndef attend(x): return x\n"
            "def embed(x): return x\n"
            "embed = torch.compile(embed)\n"
            "for _ in range(20):\n    attend(1); embed(1)\n"
            "import torch._dynamo.eval_frame as frames\n"
            "assert frames._callback_from_stance.__name__ == '<lambda>'",
            BoundaryKind.FORWARDS,
            "call of the compiled attend",
        ),
    ],
)
def test_the_surest_kind_ends_steps(
    tmp_path: Path, program: str, kind: BoundaryKind, boundary: str
) -> None:
    done = run(tmp_path, CAPTURE + "g = captured()\n" + program, "--skip", "4", "--steps", "2")
    assert done.returncode == 0, done.stderr
    _, recording = seen(tmp_path)
    assert (recording.boundary_kind, recording.boundary) == (kind, boundary)
    assert (len(recording.step_ns), recording.window_steps) == (4, 2)


def test_a_graph_that_is_replayed_without_the_first_ends_steps(tmp_path: Path) -> None:
    program = """
    a, b = torch.optim.SGD(), torch.optim.SGD()
    first, second = G(), G()
    with torch.cuda.graph(first): a.step()
    with torch.cuda.graph(second): b.step()
    for _ in range(50): first.replay(), second.replay()
    for _ in range(40): second.replay()
    """
    done = run(tmp_path, CAPTURE + textwrap.dedent(program), "--steps", "0")
    assert done.returncode == 0, done.stderr
    _, recording = seen(tmp_path)
    assert recording.boundary == "replay of graph-1, which holds SGD.step"
    # The last round has one of the ticks that it needs.
    assert recording.steps == 49 + 40 - (PATIENCE - 1)


def test_compiled_pieces_of_a_prefill_before_the_first_replay_are_no_steps(tmp_path: Path) -> None:
    """nano-vLLM's window was in its first prefill, and a step was one call of RMSNorm."""
    program = """
    @torch.compile
    def norm(x): return x
    graphs = [captured() for _ in range(4)]
    for _ in range(5):
        for _ in range(60): norm(1)
        for _ in range(10): graphs[0].replay()
    """
    program = CAPTURE + textwrap.dedent(program)
    done = run(tmp_path, program, "--skip", "4", "--steps", "2")
    assert done.returncode == 0, done.stderr
    _, recording = seen(tmp_path)
    assert (recording.boundary_kind, recording.boundary) == (
        BoundaryKind.REPLAYS,
        "replay of graph-0",
    )
    assert recording.window_steps == 2


def test_an_engine_that_warms_up_before_its_captures_executes_no_steps(tmp_path: Path) -> None:
    """nano-vLLM's window was in its warm-up, and a step was one call of RMSNorm."""
    program = """
    class Norm:
        @torch.compile
        def forward(self, x): return x
    layers, graphs = [Norm() for _ in range(50)], []
    def prefill():
        for layer in layers: layer.forward(1)
    for _ in range(4):
        for _ in range(8): prefill()
        graphs.append(captured())
    for _ in range(20):
        prefill()
        for _ in range(10): graphs[0].replay()
    """
    done = run(tmp_path, CAPTURE + textwrap.dedent(program), "--skip", "4", "--steps", "2")
    assert done.returncode == 0, done.stderr
    _, recording = seen(tmp_path)
    assert recording.boundary == "replay of graph-0"
    assert (recording.window_steps, recording.graphs[0].window_replays > 0) == (2, True)


def test_compiled_methods_are_steps_of_a_program_without_graphs(tmp_path: Path) -> None:
    program = """
    class Model:
        @torch.compile
        def forward(self, x): return x
    model = Model()
    torch.cuda.synchronize()
    for _ in range(600): model.forward(1)
    """
    done = run(tmp_path, CAPTURE + textwrap.dedent(program), "--skip", "4", "--steps", "2")
    assert done.returncode == 0, done.stderr
    _, recording = seen(tmp_path)
    assert recording.boundary == "call of the compiled Model.forward"


def test_compiled_calls_are_steps_if_no_graph_is_replayed(tmp_path: Path) -> None:
    program = """
    @torch.compile
    def model(x): return x
    g = captured()
    for _ in range(2_100): model(1)
    """
    done = run(tmp_path, CAPTURE + textwrap.dedent(program), "--skip", "4", "--steps", "2")
    assert done.returncode == 0, done.stderr
    _, recording = seen(tmp_path)
    assert (recording.boundary_kind, recording.window_steps) == (BoundaryKind.FORWARDS, 2)


def test_without_a_window_nothing_is_profiled_and_steps_are_kept(tmp_path: Path) -> None:
    loop = "g = captured()\nfor i in range(1500):\n    g.replay()\n"
    assert run(tmp_path, CAPTURE + loop, "--steps", "0").returncode == 0
    contents, recording = seen(tmp_path)
    assert recording.graphs[0].replays == 1500
    assert len(recording.step_ns) == 1000
    assert recording.final_wait_ns is not None
    assert contents.replay_trace is None
    reasons = {fact.fact: fact.reason for fact in contents.manifest.absent}
    assert reasons["traced pass"] == "no traced window was asked for"


@pytest.mark.parametrize(
    ("serve", "end", "refused"),
    [
        ("for _ in range(40): step()", "thread.join()", None),
        ("while True: step()", "begun.wait()", None),
        (
            "for _ in range(40): step()\n    idle.set(); threading.Event().wait()",
            "idle.wait()",
            "the traced thread was waiting when the window had to close",
        ),
    ],
    ids=["ended", "serves on", "waits"],
)
def test_a_window_that_is_open_at_the_end_is_closed_by_its_thread(
    tmp_path: Path, serve: str, end: str, refused: str | None
) -> None:
    patience = 1 if refused else 60  # seconds; a busy machine lets a thread wait for its next step
    program = f"""
import threading, time
from collectors.program import window
window._CLOSE_S = {patience}
graph, begun, idle = captured(), threading.Event(), threading.Event()
def step():
    graph.replay()
    if graph._graphviz_dash_counter.replays > 30: begun.set()
def serve():
    {serve}
thread = threading.Thread(target=serve, daemon=True)
thread.start()
{end}
"""
    done = run(tmp_path, CAPTURE + program, "--skip", "5", "--steps", "1000000")
    assert (done.returncode, done.stderr.count("Error")) == (0, 0), done.stderr
    contents, recording = seen(tmp_path)
    assert recording.window_missing_reason == refused
    assert recording.window_steps > 20
    assert (contents.replay_trace is None) == (refused is not None)


def test_steps_are_counted_again_after_a_capture(tmp_path: Path) -> None:
    program = """
        g = captured()
        for _ in range(6):
            g.replay()
        h = captured()
        for _ in range(30):
            g.replay(); h.replay()
    """
    done = run(tmp_path, CAPTURE + textwrap.dedent(program), "--skip", "8", "--steps", "1")
    assert done.returncode == 0, done.stderr
    _, recording = seen(tmp_path)
    first, second = recording.graphs
    assert second.step == 5
    assert (len(recording.step_ns), recording.window_steps) == (8, 1)
    assert first.window_replays == second.window_replays == 4


def test_a_failed_capture_is_the_programs_own_error(tmp_path: Path) -> None:
    program = """
        try:
            with torch.cuda.graph(G()):
                torch.capturing = "broken"
        except torch.AcceleratorError as error:
            print(type(error).__name__, error.__context__)
        g = captured()
        g.replay()
    """
    done = run(
        tmp_path, CAPTURE + textwrap.dedent(program).replace("torch.capturing", "torch.capturing")
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "AcceleratorError None\n"
    contents, recording = seen(tmp_path)
    failed, well = recording.graphs
    assert failed.problem == "AcceleratorError: CUDA error: operation failed"
    assert failed.nodes is None
    assert (well.nodes, well.replays) == (2, 1)
    assert [graph.id for graph in contents.graphs] == ["graph-1"]


@pytest.mark.parametrize(
    ("end", "code", "failures"),
    [
        ("raise KeyError('x')", 1, ["KeyError"]),
        ("import sys; sys.exit(9)", 9, []),
        ("import os; os.kill(os.getpid(), 9)", -9, ["ProcessDied"]),
        ("import os; os._exit(4)", 4, []),
    ],
)
def test_however_it_ends_the_captures_are_kept(
    tmp_path: Path, end: str, code: int, failures: list[str]
) -> None:
    # A command whose program was killed by a signal ends by it too.
    recorded = run if code >= 0 else run_apart
    done = recorded(tmp_path, CAPTURE + f"g = captured()\ng.replay()\n{end}")
    assert done.returncode == code
    contents, recording = seen(tmp_path)
    assert [graph.nodes for graph in recording.graphs] == [2]
    assert recording.exit_code == code
    assert [failure.error for failure in contents.manifest.failures] == failures
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["recorded"]


def test_a_capture_that_never_ended_is_reported(tmp_path: Path) -> None:
    program = "captured()\nG().capture_begin()\nraise SystemExit(3)\n"
    assert run(tmp_path, CAPTURE + program).returncode == 3
    _, recording = seen(tmp_path)
    assert [graph.problem for graph in recording.graphs] == [None, "the capture had not ended"]


def test_the_compiler_finds_modules_as_torch_made_them(tmp_path: Path) -> None:
    program = """
        import torch
        original = torch.nn.Module.__call__
        class Net(torch.nn.Module):
            def forward(self): pass
        net = Net()
        for _ in range(6):
            net()
        bare = torch.compile(net.__call__)
        print(bare.__func__.__name__, "__call__" in vars(Net), torch.compile.__name__)
        for _ in range(6):
            net()
    """
    done = run(tmp_path, program)
    assert done.stdout == "__call__ False compile\n", done.stderr
    _, recording = seen(tmp_path)
    assert (recording.boundary_kind, recording.steps) == (BoundaryKind.FORWARDS, 5)


def test_torch_is_left_as_it_was_and_part_of_a_program_can_be_recorded(tmp_path: Path) -> None:
    program = """
        import collectors
        names = ("capture_begin", "capture_end", "replay")
        before = [getattr(G, name) for name in names] + [torch.nn.Module.__call__, torch.compile]
        class Mine(G):
            def replay(self):
                super().replay()
        early = captured()
        with collectors.record("part", name="p", steps=0):
            m = Mine()
            with torch.cuda.graph(m):
                pass
            early.replay()
            m.replay()
            assert G.replay is not before[2]
        after = [getattr(G, name) for name in names] + [torch.nn.Module.__call__, torch.compile]
        assert after == before
        assert not hasattr(G, "_graphviz_dash_seen")
        assert not torch._hooks
        early.replay()
        m.replay()
    """
    done = alone(tmp_path, program)
    assert done.returncode == 0, done.stderr
    recording = read_bundle(tmp_path / "part" / "p").recording
    assert recording is not None
    assert recording.earlier_replays == 1
    assert [graph.replays for graph in recording.graphs] == [1]
    assert recording.exit_code is None


def test_a_graph_that_the_program_drops_is_not_kept(tmp_path: Path) -> None:
    program = """
        import gc, weakref
        g = captured()
        g.replay()
        gone = weakref.ref(g)
        del g
        print(gone())
        kept = captured()
    """
    done = run(tmp_path, CAPTURE + textwrap.dedent(program))
    assert done.stdout == "None\n"
    _, recording = seen(tmp_path)
    assert [(graph.alive, graph.replays) for graph in recording.graphs] == [(False, 1), (True, 0)]


def test_a_forked_child_leaves_the_parents_recording_alone(tmp_path: Path) -> None:
    program = """
        import os, sys
        g = captured()
        child = os.fork()
        for _ in range(3 if child else 50):
            g.replay()
        if not child:
            sys.exit(0)
        os.waitpid(child, 0)
    """
    done = run(tmp_path, CAPTURE + textwrap.dedent(program))
    assert done.returncode == 0, done.stderr
    _, recording = seen(tmp_path)
    assert recording.graphs[0].replays == 3


@pytest.mark.parametrize(
    ("options", "program", "told", "code"),
    [
        ((), "import torch", "Nothing was recorded: it captured no graph", 1),
        ((), "pass", "Nothing was recorded: the program did not import torch", 1),
        ((), "import sys; sys.exit(6)", "did not import torch", 6),
        (("--name", "a/b"), "pass", "is not a valid name", 2),
        (("--workload", "mlp-train"), "pass", "not both", 2),
    ],
)
def test_a_failed_recording_is_one_line(
    tmp_path: Path, options: tuple[str, ...], program: str, told: str, code: int
) -> None:
    done = run(tmp_path, program, *options)
    assert done.returncode == code
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_a_run_is_never_overwritten_and_the_program_not_begun(tmp_path: Path) -> None:
    program = CAPTURE + "captured()\nopen('ran', 'a').write('x')\n"
    assert run(tmp_path, program).returncode == 0
    again = run(tmp_path, program)
    assert again.returncode == 2
    assert "a run is already there" in again.stderr
    assert (tmp_path / "ran").read_text() == "x"


def test_the_programs_exit_code_survives_a_bundle_that_cannot_be_written(tmp_path: Path) -> None:
    program = """
        import os, shutil
        captured()
        state = os.environ["GRAPHVIZ_DASH_SCRATCH"] + "/.."
        os.chmod(state, 0o500)
        os.mkdir("moved"); os.rename("out", "moved/out")
        open("out", "w").close()
        raise SystemExit(5)
    """
    done = run(tmp_path, CAPTURE + textwrap.dedent(program))
    assert done.returncode == 5
    assert "Traceback" not in done.stderr


def test_a_name_that_was_taken_meanwhile_gets_a_number(tmp_path: Path) -> None:
    program = CAPTURE + "captured()\nimport os\nos.mkdir('out/recorded')\nraise SystemExit(7)\n"
    done = run(tmp_path, program)
    assert done.returncode == 7
    assert "Recorded: out/recorded-2" in done.stderr
    assert seen(tmp_path, "recorded-2")[1].exit_code == 7


def test_a_killed_command_leaves_no_half_bundle_and_the_program_goes_on(tmp_path: Path) -> None:
    program = """
        import pathlib, time
        g = captured()
        pathlib.Path("captured").touch()
        for _ in range(30):
            g.replay()
        while not pathlib.Path("go-on").exists():
            time.sleep(0.02)
        h = captured()
        pathlib.Path("done").write_text("as always")
    """
    (tmp_path / "train.py").write_text(CAPTURE + textwrap.dedent(program))
    with subprocess.Popen(
        [sys.executable, "-c", COLLECT, "collect", "-o", "out", "--", sys.executable, "train.py"],
        cwd=tmp_path,
        env=os.environ | PATH,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        wait_for(tmp_path / "captured")
        command.kill()
        command.wait()
        assert [path for path in (tmp_path / "out").iterdir() if path.name[0] != "."] == []
        # Another run into the folder leaves the recording alone while its program still runs.
        again = run(tmp_path, CAPTURE + "captured()\n", "--name", "again")
        assert again.returncode == 0, again.stderr
        assert "goes on without its command" in again.stderr
        (tmp_path / "go-on").touch()
        wait_for(tmp_path / "done")
        assert command.stderr is not None
        assert command.stderr.read() == ""
    (left,) = (tmp_path / "out").glob(".record.*")
    last = run(tmp_path, CAPTURE + "captured()\n", "--name", "last")
    assert "Recorded, although its command was killed: out/recorded" in last.stderr
    assert not left.exists()
    names = ["again", "last", "recorded"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    contents, recording = seen(tmp_path)
    assert [graph.replays for graph in recording.graphs] == [30, 0]
    assert (recording.exit_code, contents.manifest.status) == (None, "complete")


def wait_for(file: Path) -> None:
    for _ in range(300):
        if file.exists():
            return
        time.sleep(0.1)
    pytest.fail(f"{file.name} did not appear")


def test_a_folder_that_takes_no_more_is_not_the_programs_concern(tmp_path: Path) -> None:
    program = """
        import os, shutil
        g = captured()
        shutil.rmtree(os.environ["GRAPHVIZ_DASH_SCRATCH"])
        h = captured()
        for _ in range(60):
            h.replay()
        print("well")
    """
    done = run(tmp_path, CAPTURE + textwrap.dedent(program))
    assert (done.returncode, done.stdout) == (1, "well\n")
    assert done.stderr.startswith("Nothing was recorded")
    assert "Traceback" not in done.stderr


def test_a_forked_child_that_captures_is_a_run_of_its_own(tmp_path: Path) -> None:
    program = """
        import os
        g = captured()
        g.replay()
        if not (child := os.fork()):
            h = captured()
            for _ in range(5):
                h.replay()
            raise SystemExit(3)
        os.waitpid(child, 0)
    """
    done = run(tmp_path, CAPTURE + textwrap.dedent(program))
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["recorded", "recorded-2"]
    _, parent = seen(tmp_path)
    contents, child = seen(tmp_path, "recorded-2")
    assert [graph.replays for graph in parent.graphs] == [1]
    assert [graph.replays for graph in child.graphs] == [5]
    assert (parent.exit_code, child.exit_code) == (0, None)
    assert [len(graph.nodes) for graph in contents.graphs] == [2]
    assert contents.manifest.failures == ()


def test_the_bundle_reports_failures_of_the_recorder(tmp_path: Path) -> None:
    program = """
        import resource
        first = captured()
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        second = captured()
        second.replay()
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        print("well")
    """
    done = run(tmp_path, CAPTURE + textwrap.dedent(program))
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr
    contents, recording = seen(tmp_path)
    (reason,) = [
        fact.reason for fact in contents.manifest.absent if fact.fact == "complete recording"
    ]
    assert reason.startswith("the recorder failed ")
    assert reason.endswith("times, first: graphs/graph-1.json: File too large")
    assert [(graph.nodes, graph.replays) for graph in recording.graphs] == [(2, 0), (None, 1)]
    assert recording.graphs[1].problem == "it could not be written"


def test_processes_that_could_not_be_recorded_are_told_in_the_bundle(tmp_path: Path) -> None:
    program = """
        import os, subprocess, sys
        captured()
        refused = os.environ | {"GRAPHVIZ_DASH_SETTINGS": "no JSON"}
        subprocess.run([sys.executable, "-c", "import torch"], env=refused, check=True)
    """
    done = run(tmp_path, CAPTURE + textwrap.dedent(program))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    contents, _ = seen(tmp_path)
    (reason,) = [
        fact.reason for fact in contents.manifest.absent if fact.fact == "complete recording"
    ]
    assert "1 of 2 processes could not be, first: DecodeError" in reason


def test_a_child_that_outlives_the_program_goes_on_alone(tmp_path: Path) -> None:
    program = """
        import os
        captured()
        if not os.fork():
            os.setsid()
            streams = os.open("/dev/null", os.O_RDWR)
            for number in range(3):
                os.dup2(streams, number)
            while os.path.exists(os.environ["GRAPHVIZ_DASH_SCRATCH"]):
                os.sched_yield()
            h = captured()
            h.replay()
            open("late", "w").write("well")
            os.execv(sys.executable, [sys.executable, "-c", LATER])
    """
    later = "import torch, os; open('part', 'w').write('well'); os.rename('part', 'later')"
    done = run(tmp_path, f"import sys\nLATER = {later!r}\n" + CAPTURE + textwrap.dedent(program))
    assert done.returncode == 0, done.stderr
    wait_for(tmp_path / "later")
    assert (tmp_path / "late").read_text() == "well"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["recorded"]


def test_a_child_that_forks_starts_no_thread_of_its_parent(tmp_path: Path) -> None:
    """A thread of the parent's recorder would write into the parent's files."""
    program = """
        import collectors, os, time
        with collectors.record("part", name="p", steps=0):
            g = captured()
            g.replay()
            if not (child := os.fork()):
                if not (grandchild := os.fork()):
                    os._exit(0)
                os.waitpid(grandchild, 0)
                time.sleep(0.1)
                os._exit(len(os.listdir("/proc/self/task")))
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    done = alone(tmp_path, program)
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_a_child_that_leaves_the_recorded_part_writes_nothing(tmp_path: Path) -> None:
    program = """
        import collectors, os
        with collectors.record("part", name="p", steps=0):
            g = captured()
            g.replay()
            if not (child := os.fork()):
                raise SystemExit(3)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            g.replay()
        print(sorted(os.listdir("part")))
    """
    done = alone(tmp_path, program)
    assert (done.stdout, done.stderr) == ("3\n['p']\n", "")
    recording = read_bundle(tmp_path / "part" / "p").recording
    assert recording is not None
    assert [graph.replays for graph in recording.graphs] == [2]


def test_a_method_kept_from_the_recorded_part_goes_on(tmp_path: Path) -> None:
    program = """
        import collectors
        early = captured()
        with collectors.record("part", name="p", steps=0):
            captured()
            replay = early.replay
        replay()
        print("well")
    """
    done = alone(tmp_path, program)
    assert (done.stdout, done.stderr) == ("well\n", "")


def test_the_programs_own_error_goes_before_that_of_its_bundle(tmp_path: Path) -> None:
    program = """
        import collectors, os
        try:
            with collectors.record("part", name="p", steps=0):
                captured()
                os.mkdir("part/p")
                raise KeyError("own")
        except KeyError as error:
            print(error, error.__context__)
    """
    done = alone(tmp_path, program)
    assert (done.stdout, done.stderr) == ("'own' None\n", "")
