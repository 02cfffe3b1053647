from __future__ import annotations

import sys
import weakref
from pathlib import Path

import pytest
from msgspec.structs import replace

from collectors.program.loop.assembly import assemble_loop
from collectors.program.loop.engines.frames import read_variables
from collectors.program.loop.events import (
    Event,
    EventKind,
    GraphFacts,
    LoopFacts,
    LoopLog,
    PassFacts,
    ScopeFacts,
    read_events,
)
from collectors.program.loop.families import derive_shape_keys, find_shape_size, has_family_shapes
from collectors.program.loop.grids import add_grid_keys
from collectors.program.loop.units import find_repetition, replay_units
from collectors.program.mapped_file import MappedFile
from graphviz_dash.analysis.loop.family_report import LoopReport, build_loop_report
from graphviz_dash.bundle.part_checks import check_loop
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.loop import KeyMethod, Phase, ProgramLoop, SizeMethod, StepKind
from graphviz_dash.model.recording import BoundaryKind, StartMethod
from tests.collectors.program.recorded import CAPTURE, run, seen
from tests.loops import make_server

R, F, C = StepKind.REPLAY, StepKind.FALLBACK, StepKind.CAPTURE

SERVER = """
class Net(torch.nn.Module):
    def forward(self, x): pass

net, graphs = Net(), {}

def warm_up(size):
    net(torch.Tensor(size, 8))
    with torch.cuda.graph(graphs.setdefault(size, G())):
        net(torch.Tensor(size, 8))

def serve(real):
    size = min((size for size in graphs if size >= real), default=None)
    net(torch.Tensor(real, 8)) if size is None else graphs[size].replay()
"""


def loop_of(folder: Path, name: str = "recorded") -> ProgramLoop:
    loop = read_bundle(folder / "out" / name).loop
    assert loop is not None
    return loop


def test_threads_that_capture_and_replay_at_once_lose_nothing(tmp_path: Path) -> None:
    program = """
    import collectors, threading
    sys.setswitchinterval(1e-6)
    together = threading.Barrier(4)
    def serve(rank):
        graphs = {}
        for size in (8, 4, 2):
            with collectors.label(f"rank {rank}", phase="decode", batch=size):
                g = graphs[size] = G()
                together.wait()
                with torch.cuda.graph(g):
                    together.wait()
        for step in range(400):
            real = 1 + (step * 7 + rank) % 9
            size = min((s for s in graphs if s >= real), default=None)
            key = size or real
            with collectors.label(f"rank {rank}", real=real, phase="decode", batch=key):
                if size is not None: graphs[size].replay()
    threads = [threading.Thread(target=serve, args=(rank,)) for rank in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    """
    done = run(tmp_path, "import sys\n" + CAPTURE + flat(program), "--steps", "0")
    assert done.returncode == 0, done.stderr
    loop = loop_of(tmp_path)
    assert len({cost.graph for cost in loop.graphs}) == 12
    assert sorted(family.name for family in loop.families) == [f"rank {n}" for n in range(4)]
    steps = loop.steps
    for number, family in enumerate(loop.families):
        rank = int(family.name[-1])
        assert [(m.key, m.method) for m in family.members] == [
            ((size,), KeyMethod.LABEL) for size in (8, 4, 2)
        ]
        own = [at for at, place in enumerate(steps.family) if place == number]
        assert len({steps.thread[at] for at in own}) == 1
        served = own[3:]
        assert [steps.kind[at] for at in own[:3]] == [C, C, C]
        real = [1 + (step * 7 + rank) % 9 for step in range(400)]
        assert [steps.real_size[at] for at in served] == real
        padded = [min((s for s in (2, 4, 8) if s >= size), default=None) for size in real]
        assert [steps.padded_size[at] for at in served] == padded
    _, recording = seen(tmp_path)
    assert sum(graph.replays for graph in recording.graphs) == sum(kind is R for kind in steps.kind)
    assert [graph.nodes for graph in recording.graphs] == [2] * 12


def test_a_labelled_server_has_sizes_paddings_and_fallbacks(tmp_path: Path) -> None:
    program = """
    import collectors
    def label(real, size):
        return collectors.label("decode", real=real, phase="decode", batch=size)
    for size in (4, 2, 1):
        with label(None, size): warm_up(size)
    for real in (1, 3, 4, 9, 2) * 8:
        with label(real, min((s for s in graphs if s >= real), default=real)): serve(real)
    """
    done = run(tmp_path, CAPTURE + SERVER + flat(program), "--skip", "20", "--steps", "2")
    assert done.returncode == 0, done.stderr
    loop = loop_of(tmp_path)
    (family,) = loop.families
    assert (family.name, family.axes, family.module) == ("decode", ("batch",), "Net")
    assert [(m.key, m.method, m.graphs) for m in family.members] == [
        ((4,), KeyMethod.LABEL, ("graph-0",)),
        ((2,), KeyMethod.LABEL, ("graph-1",)),
        ((1,), KeyMethod.LABEL, ("graph-2",)),
    ]
    steps = loop.steps
    assert steps.kind == (C, C, C, *(R, R, R, F, R) * 8)
    assert steps.real_size[3:] == (1, 3, 4, 9, 2) * 8
    assert steps.padded_size[3:] == (1, 4, 4, None, 2) * 8
    assert set(steps.phase) == {Phase.DECODE}
    assert set(steps.size_method[3:]) == {SizeMethod.LABEL}
    _, recording = seen(tmp_path)
    assert recording.boundary_kind is BoundaryKind.LABEL
    # The window went on until each of the three graphs was in it, and no longer than that.
    assert all(graph.window_replays for graph in recording.graphs)
    assert recording.window_steps == len(loop.window_rows) < 10
    assert loop.clean_steps == 3 + 21
    # Three steps settle.
    assert loop.window_rows[0] == loop.clean_steps + 3


def test_a_server_that_says_nothing_is_known_by_shapes_and_modules(tmp_path: Path) -> None:
    program = """
    for size in (4, 2, 1): warm_up(size)
    for real in (1, 3, 9, 2, 4, 1) * 9: serve(real)
    """
    done = run(tmp_path, CAPTURE + SERVER + flat(program), "--steps", "0")
    assert done.returncode == 0, done.stderr
    loop = loop_of(tmp_path)
    (family,) = loop.families
    assert [(m.key, m.method) for m in family.members] == [
        ((size,), KeyMethod.SHAPES) for size in (4, 2, 1)
    ]
    assert family.name == "warm_up, train.py:18"
    assert loop.steps.kind == (C, C, C, *(R, R, F, R, R, R) * 9)
    # What ran eagerly was given so many rows; of replays nothing says it.
    assert set(zip(loop.steps.kind, loop.steps.real_size, loop.steps.size_method, strict=True)) == {
        (C, None, None),
        (R, None, None),
        (F, 9, SizeMethod.SHAPES),
    }
    _, recording = seen(tmp_path)
    assert recording.boundary == "replay of any graph captured at train.py:18"
    first = loop.graphs[0]
    assert (first.pool, first.driver_bytes) == ((0, 1), 0)
    assert first.first_launch_ns is not None
    assert len(first.launch_ns) == 17
    # The second, and of 32 replays the third and the fourth.
    assert first.gpu_ns == (250_000,) * 3


def test_a_graph_that_is_replayed_often_is_timed_less_often(tmp_path: Path) -> None:
    program = """
    for size in (4, 2, 1): warm_up(size)
    for real in [1] * 1280: serve(real)
    """
    done = run(tmp_path, CAPTURE + SERVER + flat(program), "--steps", "0")
    assert done.returncode == 0, done.stderr
    timed = [i for i, ns in enumerate(loop_of(tmp_path).steps.gpu_ns[3:], 1) if ns is not None]
    # The second, then one in 16, two in a row; behind 512 one in 128.
    assert timed[:7] == [2, 3, 4, 35, 36, 67, 68]
    assert sum(replay <= 512 for replay in timed) == 33
    assert len(timed) == 33 + (1280 - 512) // 128


def test_the_shape_of_a_weight_is_no_key(tmp_path: Path) -> None:
    """Pieces of a compiled model get their weights before their input."""
    program = """
    class Piece(torch.nn.Module):
        def forward(self, weight, x): pass
    piece, captured = Piece(), []
    def warm_up(size, width):
        graph = G()
        with torch.cuda.graph(graph):
            piece(torch.nn.Parameter(width, 8), torch.Tensor(size, 8))
        captured.append(graph)
    for width in (24, 16, 32): warm_up(4, width)
    for at in range(30): captured[at % 3].replay()
    """
    done = run(tmp_path, CAPTURE + flat(program), "--steps", "0")
    assert done.returncode == 0, done.stderr
    members = [member for family in loop_of(tmp_path).families for member in family.members]
    assert members
    assert {(member.key, member.method) for member in members} == {(None, None)}


def test_graphs_of_any_accelerator_are_seen_and_what_they_take(tmp_path: Path) -> None:
    program = """
    held = []
    torch.cuda.memory_snapshot = lambda: held
    def hold(pool, size, used):
        held.append({"segment_pool_id": pool, "total_size": size, "allocated_size": used})
    graphs = []
    for size, used in ((4096, 512), (0, 0), (2048, 1024)):
        hold((0, 7), size, used)
        graph = torch.accelerator.Graph(pool=(0, 7))
        with graph:
            pass
        graphs.append(graph)
    hold((0, 1), 8192, 0)
    for at in range(30): graphs[at % 3].replay()
    """
    done = run(tmp_path, CAPTURE + flat(program), "--steps", "0")
    assert done.returncode == 0, done.stderr
    _, recording = seen(tmp_path)
    assert [graph.replays for graph in recording.graphs] == [10, 10, 10]
    graphs = loop_of(tmp_path).graphs
    assert [graph.pool for graph in graphs] == [(0, 7)] * 3
    assert [graph.pool_growth_bytes for graph in graphs] == [4096, 0, 2048]
    assert [graph.exclusive_bytes for graph in graphs] == [512, 0, 1024]


RUNNER = """
import torch
from types import SimpleNamespace as Some

class Batch:
    use_block_table = False
    max_seqlen_k = {"full_attention": 0}

    def hold(self, *lengths):
        self.requests_in_batch = [Some(query_length=length) for length in lengths]
        self.num_request_in_batch, self.total_seqlen_q = len(lengths), sum(lengths)

    def _get_graph_key(self):
        return -(-self.total_seqlen_q // 8) * 8, 1024, 512

class ModelRunner:
    def __init__(self):
        self.inputs_and_outputs, self.graphs = Batch(), {}

    def compute_batch(self, model, batch):
        key = self.inputs_and_outputs._get_graph_key()
        if key in self.graphs:
            return self.graphs[key].replay()
        self.graphs[key] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graphs[key]):
            pass
"""


def test_an_engine_tells_keys_sizes_and_phases(tmp_path: Path) -> None:
    package = tmp_path / "transformers" / "generation" / "continuous_batching"
    package.mkdir(parents=True)
    (package / "model_runner.py").write_text(RUNNER)
    (tmp_path / "transformers" / "__init__.py").write_text("__version__ = '5.17'")
    program = """
    import threading
    from transformers.generation.continuous_batching.model_runner import ModelRunner
    runner = ModelRunner()
    def run(*lengths):
        runner.inputs_and_outputs.hold(*lengths)
        runner.compute_batch(None, {})
    def generate():
        run(30)
        for _ in range(12): run(20, 10); run(7, 1, 1); run(1, 1, 1)
    run(64)
    thread = threading.Thread(target=generate); thread.start(); thread.join()
    """
    done = run(tmp_path, CAPTURE + flat(program), "--steps", "0")
    assert done.returncode == 0, done.stderr
    _, recording = seen(tmp_path)
    assert recording.boundary == "a step of transformers 5.17 ends"
    # The thread that warmed up counts no longer when another one serves.
    assert recording.steps == 35
    loop = loop_of(tmp_path)
    (family,) = loop.families
    assert (family.name, family.axes, family.size_axis) == (
        "varlen",
        ("tokens", "cache", "longest full_attention"),
        0,
    )
    assert [member.key for member in family.members] == [
        (size, 1024, 512) for size in (64, 32, 16, 8)
    ]
    assert {member.method for member in family.members} == {KeyMethod.ENGINE}
    assert loop.engine == "transformers 5.17"
    assert loop.steps.kind == (C, C, R, C, C, *(R,) * 33)
    assert loop.steps.real_size[2:] == (30, 9, 3) * 12
    assert loop.steps.padded_size[2:] == (32, 16, 8) * 12
    assert loop.steps.phase[2:] == (Phase.PREFILL, Phase.MIXED, Phase.DECODE) * 12


@pytest.mark.parametrize("method", [StartMethod.FORK, StartMethod.SPAWN, StartMethod.FORKSERVER])
def test_a_worker_is_a_run_with_role_and_parent(tmp_path: Path, method: StartMethod) -> None:
    program = f"""
    def work():
        import collectors
        for size in (2, 1):
            with collectors.label("decode", batch=size): warm_up(size)
        for real in (1, 2) * 20:
            with collectors.label("decode", real=real, batch=real): serve(real)
    if __name__ == "__main__":
        import multiprocessing
        g = captured(); g.replay(); g.replay()
        worker = multiprocessing.get_context("{method.value}").Process(target=work, name="engine")
        worker.start(); worker.join()
    """
    done = run(tmp_path, CAPTURE + SERVER + flat(program))
    assert done.returncode == 0, done.stderr
    contents, recording = seen(tmp_path, "recorded-2")
    parent = seen(tmp_path)[1].process
    assert parent is not None
    assert (parent.role, parent.start_method, parent.parent) == (
        "train.py",
        StartMethod.PROGRAM,
        None,
    )
    process = recording.process
    assert process is not None
    assert (process.role, process.start_method, process.parent) == ("engine", method, "recorded")
    assert process.parent_pid == parent.pid
    assert contents.loop is not None
    assert [member.key for member in contents.loop.families[0].members] == [(2,), (1,)]


def flat(program: str) -> str:
    lines = program.splitlines()
    return "\n".join(line[4:] for line in lines) + "\n"


VLLM_WRAPPER = """
import torch

class CUDAGraphWrapper:
    def __init__(self, mode):
        self.runtime_mode, self.entries = mode, {}

    def __call__(self, batch_descriptor):
        key = batch_descriptor.num_tokens
        if key in self.entries:
            return self.entries[key].replay()
        self.entries[key] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.entries[key]):
            pass
"""

VLLM_RUNNER = """
from types import SimpleNamespace as Some
from vllm.compilation.cuda_graph import CUDAGraphWrapper

class GPUModelRunner:
    uniform_decode_query_len = 1

    def __init__(self, decode, mixed):
        self.decode = CUDAGraphWrapper(Some(name="FULL"))
        self.pieces = [CUDAGraphWrapper(Some(name="PIECEWISE")) for _ in range(3)]
        self.sizes = {True: sorted(decode), False: sorted(mixed)}
        for size in mixed: self._run(size, False)
        for size in decode: self._run(size, True)
        self.capture_model()

    def capture_model(self):
        return 5 << 20

    def _run(self, tokens, uniform):
        padded = min((size for size in self.sizes[uniform] if size >= tokens), default=None)
        batch = Some(num_tokens=padded, uniform=uniform, num_active_loras=0)
        if padded is not None:
            for wrapper in [self.decode] if uniform else self.pieces:
                wrapper(batch)

    def execute_model(self, scheduled, intermediate_tensors=None):
        counts = scheduled.num_scheduled_tokens.values()
        if counts:
            self._run(sum(counts), max(counts) == 1)
"""

SGLANG_RUNNERS = {
    "cuda_graph_runner": """
import torch

class CudaGraphRunner:
    def __init__(self, sizes):
        self.graphs = {}
        for bs in sizes: self.capture_one_batch_size(bs)

    def capture_one_batch_size(self, bs):
        graph = self.graphs[bs] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            pass
""",
    "piecewise_cuda_graph_runner": """
import torch

class PiecewiseCudaGraphRunner:
    def __init__(self, sizes):
        self.graphs = {}
        for num_tokens in sizes: self.capture_one_batch_size(num_tokens)

    def capture_one_batch_size(self, num_tokens):
        self.graphs[num_tokens] = [torch.cuda.CUDAGraph() for _ in range(2)]
        for graph in self.graphs[num_tokens]:
            with torch.cuda.graph(graph):
                pass
""",
    "model_runner": """
from sglang.srt.model_executor.cuda_graph_runner import CudaGraphRunner
from sglang.srt.model_executor.piecewise_cuda_graph_runner import PiecewiseCudaGraphRunner

class ModelRunner:
    is_draft_worker = False

    def __init__(self, decode, prefill):
        self.init_device_graphs(decode)
        self.prefill = PiecewiseCudaGraphRunner(prefill)

    def init_device_graphs(self, sizes):
        self.decode = CudaGraphRunner(sizes)
        self.graph_mem_usage = 0.25

    def forward(self, forward_batch, pp_proxy_tensors=None):
        if forward_batch.forward_mode.name == "IDLE":
            return
        if forward_batch.forward_mode.name == "DECODE":
            real, graphs = forward_batch.batch_size, self.decode.graphs
        else:
            real, graphs = len(forward_batch.input_ids), self.prefill.graphs
        padded = min((size for size in graphs if size >= real), default=None)
        if padded is not None:
            found = graphs[padded]
            for graph in found if isinstance(found, list) else [found]:
                graph.replay()
""",
}


def write_package(root: Path, version: str, modules: dict[str, str]) -> None:
    for module, source in modules.items():
        file = root.joinpath(*module.split(".")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
    package = root / next(iter(modules)).split(".")[0]
    (package / "__init__.py").write_text(f"__version__ = {version!r}")


def test_vllm_tells_mode_phase_sizes_and_requests(tmp_path: Path) -> None:
    modules = {
        "vllm.compilation.cuda_graph": VLLM_WRAPPER,
        "vllm.v1.worker.gpu_model_runner": VLLM_RUNNER,
    }
    write_package(tmp_path, "0.22.0", modules)
    program = """
    from types import SimpleNamespace as Some
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner
    runner = GPUModelRunner(decode=(4, 2), mixed=(64, 32, 8))
    def run(*tokens):
        scheduled = {f"request {number}": count for number, count in enumerate(tokens)}
        runner.execute_model(Some(
            total_num_scheduled_tokens=sum(tokens), num_scheduled_tokens=scheduled))
    for _ in range(40): run(1, 1, 1); run(20, 1); run(100); run(1, 1, 1, 1, 1); run(1, 1)
    run()
    """
    done = run(tmp_path, CAPTURE + flat(program), "--steps", "0")
    assert done.returncode == 0, done.stderr
    loop = loop_of(tmp_path)
    assert loop.engine == "vLLM 0.22.0"
    assert loop.engine_capture_bytes == 5 << 20
    piecewise, decode = loop.families
    assert (piecewise.name, piecewise.axes, piecewise.size_axis) == ("piecewise", ("tokens",), 0)
    # Graphs that were never replayed have their key and their segments too.
    assert [(m.key, len(m.graphs)) for m in piecewise.members] == [
        ((64,), 3),
        ((32,), 3),
        ((8,), 3),
    ]
    assert (decode.name, [m.key for m in decode.members]) == ("full decode", [(4,), (2,)])
    assert {m.method for family in loop.families for m in family.members} == {KeyMethod.ENGINE}
    steps = loop.steps
    served = [at for at, kind in enumerate(steps.kind) if kind is not C]
    assert len(served) == 200
    rows = [
        (
            steps.kind[at],
            steps.phase[at],
            steps.real_size[at],
            steps.padded_size[at],
            steps.requests[at],
        )
        for at in served
    ]
    assert (
        rows
        == [
            (R, Phase.DECODE, 3, 4, 3),
            (StepKind.SEGMENTS, Phase.MIXED, 21, 32, 2),
            (F, Phase.PREFILL, 100, None, 1),
            (F, Phase.DECODE, 5, None, 5),
            (R, Phase.DECODE, 2, 2, 2),
        ]
        * 40
    )
    families = {loop.families[steps.family[at] or 0].name for at in served[2::5]}
    assert families == {"piecewise"}
    assert {steps.family[at] for at in served[3::5]} == {1}


def test_an_unknown_version_of_an_engine_loses_facts_only(tmp_path: Path) -> None:
    modules = {
        "vllm.compilation.cuda_graph": VLLM_WRAPPER.replace("runtime_mode", "mode"),
        "vllm.v1.worker.gpu_model_runner": VLLM_RUNNER,
    }
    write_package(tmp_path, "9.0", modules)
    program = """
    from types import SimpleNamespace as Some
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner
    runner = GPUModelRunner(decode=(4, 2), mixed=(64,))
    for _ in range(40):
        runner.execute_model(Some(num_scheduled_tokens={"a": 1, "b": 1}))
        runner.execute_model(Some(num_scheduled_tokens={"a": 1, "b": 40}))
    """
    done = run(tmp_path, CAPTURE + flat(program), "--steps", "0")
    assert done.returncode == 0, done.stderr
    # One error for the captures and one for the steps, not one for each of them.
    contents = read_bundle(tmp_path / "out" / "recorded")
    assert any("failed 2 times" in str(part) for part in contents.manifest.absent), (
        contents.manifest
    )
    assert sum(graph.replays for graph in seen(tmp_path)[1].graphs) == 160


def test_sglang_tells_sizes_of_decode_and_prefill(tmp_path: Path) -> None:
    modules = {f"sglang.srt.model_executor.{name}": text for name, text in SGLANG_RUNNERS.items()}
    write_package(tmp_path, "0.5.12", modules)
    program = """
    from types import SimpleNamespace as Some
    from sglang.srt.model_executor.model_runner import ModelRunner
    runner = ModelRunner(decode=(32, 16), prefill=(256, 128))
    def decode(requests):
        mode = Some(name="DECODE")
        runner.forward(Some(forward_mode=mode, batch_size=requests, input_ids=[0] * requests))
    def extend(mode, tokens):
        runner.forward(Some(forward_mode=Some(name=mode), batch_size=2, input_ids=[0] * tokens))
    extend("EXTEND", 200)
    for requests in (10, 20, 40) * 20: decode(requests)
    extend("MIXED", 300)
    extend("IDLE", 1)
    """
    done = run(tmp_path, CAPTURE + flat(program), "--steps", "0")
    assert done.returncode == 0, done.stderr
    loop = loop_of(tmp_path)
    assert loop.engine == "SGLang 0.5.12"
    assert loop.engine_capture_bytes == 1 << 28
    assert [(f.name, f.axes, [m.key for m in f.members]) for f in loop.families] == [
        ("decode", ("requests",), [(32,), (16,)]),
        ("prefill", ("tokens",), [(256,), (128,)]),
    ]
    steps = loop.steps
    served = [at for at, kind in enumerate(steps.kind) if kind is not C]
    rows = [
        (
            steps.kind[at],
            steps.phase[at],
            steps.real_size[at],
            steps.padded_size[at],
            steps.family[at],
        )
        for at in served
    ]
    assert rows == [
        (StepKind.SEGMENTS, Phase.PREFILL, 200, 256, 1),
        *[
            (R, Phase.DECODE, 10, 16, 0),
            (R, Phase.DECODE, 20, 32, 0),
            (F, Phase.DECODE, 40, None, 0),
        ]
        * 20,
        (F, Phase.MIXED, 300, None, 1),
    ]


def test_an_integer_of_the_capturing_function_is_the_key(tmp_path: Path) -> None:
    program = """
    graphs = {}
    def capture(bs):
        count, seed = len(graphs), 7 * bs % 5
        graphs[bs] = G()
        with torch.cuda.graph(graphs[bs]):
            pass
    for size in (48, 16, 3, 1): capture(size)
    for _ in range(40):
        graphs[48].replay(); graphs[3].replay(); graphs[1].replay(); graphs[16].replay()
        graphs[1].replay(); graphs[48].replay()
    """
    done = run(tmp_path, CAPTURE + flat(program), "--steps", "0")
    assert done.returncode == 0, done.stderr
    (family,) = loop_of(tmp_path).families
    assert (family.axes, family.size_axis) == (("bs",), 0)
    assert [(m.key, m.method) for m in family.members] == [
        ((size,), KeyMethod.VARIABLES) for size in (48, 16, 3, 1)
    ]


def test_fields_of_a_record_separate_graphs_with_equal_inputs(tmp_path: Path) -> None:
    program = """
    from dataclasses import dataclass
    class Net(torch.nn.Module):
        def forward(self, x): pass
    net, pool = Net(), {}
    @dataclass(frozen=True)
    class Key:
        model: str
        batch: int
        capacity: int
    @dataclass
    class Settings:
        limit: int = 3
    class Runner:
        def __init__(self, key):
            self.key, self.settings = key, Settings(len(pool) + 1)
        def capture(self, seed):
            self.graph = G()
            with torch.cuda.graph(self.graph):
                net(torch.Tensor(self.key.batch, 8))
    for seed, (batch, capacity) in enumerate(((1, 64), (1, 256), (4, 64), (4, 256))):
        key = Key("llama", batch, capacity)
        pool[key] = Runner(key)
        pool[key].capture(seed)
    runners = list(pool.values())
    for call in (0, 3, 1, 2, 0, 2, 3, 1) * 5:
        for _ in range(3 + call): runners[call].graph.replay()
    """
    done = run(tmp_path, CAPTURE + flat(program), "--steps", "0")
    assert done.returncode == 0, done.stderr
    (family,) = loop_of(tmp_path).families
    assert (family.axes, family.size_axis) == (("input 0 size(0)", "capacity"), 0)
    assert [(m.key, m.method) for m in family.members] == [
        (key, KeyMethod.SHAPES) for key in ((1, 64), (1, 256), (4, 64), (4, 256))
    ]


def test_graphs_that_a_cache_evicts_are_marked(tmp_path: Path) -> None:
    program = """
    import collections
    cache = collections.OrderedDict()
    for size in (8, 4, 2, 8):
        if len(cache) == 2: cache.popitem(last=False)
        graph = cache[size] = G()
        with torch.cuda.graph(graph):
            pass
        for _ in range(5): graph.replay()
        del graph
    """
    done = run(tmp_path, CAPTURE + flat(program), "--steps", "0")
    assert done.returncode == 0, done.stderr
    _, recording = seen(tmp_path)
    assert [graph.eviction for graph in recording.graphs] == [True, True, False, False]
    report = build_loop_report(load_run(tmp_path / "out" / "recorded", traces=False))
    assert isinstance(report, LoopReport)
    (family,) = report.families
    assert [member.is_eviction for member in family.members].count(True) == 2
    assert len(family.kept_members) == 2


def test_reading_variables_keeps_no_object_alive() -> None:
    class Big:
        pass

    def capture() -> bool:
        big = Big()
        alive = weakref.ref(big)
        assert read_variables(sys._getframe())["big"] is big
        del big
        return alive() is None

    assert capture()


# Without a program: from events alone.


def replays(*graphs: int, thread: int = 1, start: int = 0) -> list[Event]:
    return [
        Event(EventKind.REPLAY, graph, thread, start + 10 * at, start + 10 * at + 4)
        for at, graph in enumerate(graphs)
    ]


def captures(count: int) -> list[Event]:
    return [Event(EventKind.CAPTURE, at, 1, at - 1000, at - 999) for at in range(count)]


def facts(graphs: int, *scopes: ScopeFacts, places: int = 1) -> LoopFacts:
    known = tuple(GraphFacts((f"a.py:{at * places // graphs}",)) for at in range(graphs))
    return LoopFacts(scopes, (), (), known, 0, 0, None)


def assembled(
    events: list[Event], told: LoopFacts, boundary: BoundaryKind | None = None
) -> ProgramLoop:
    loop = assemble_loop(events, told, [f"graph-{at}" for at in range(len(told.graphs))], boundary)
    check_loop(loop, (), Path("loop"))
    return loop


def test_layers_between_two_optimizer_steps_are_segments_on_any_thread() -> None:
    forward, backward = replays(0, 1), replays(3, 2, thread=2, start=50)
    ends = [Event(EventKind.STEP, 0, 1, at, at) for at in (90, 190, 290)]
    events = [*captures(4), *ends]
    for start in (0, 100, 200, 300):
        events += [
            event._replace(begin=event.begin + start, end=event.end + start)
            for event in (*forward, *backward)
        ]
    loop = assembled(events, facts(4, places=2), BoundaryKind.OPTIMIZER)
    kinds = [kind for kind in loop.steps.kind if kind is not C]
    # What comes after the last end of a step is no whole one.
    assert kinds == [StepKind.SEGMENTS] * 2
    assert [len(family.members) for family in loop.families] == [1]
    assert loop.families[-1].members[-1].graphs == ("graph-0", "graph-1", "graph-3", "graph-2")
    assert loop.steps.launch_ns[-1] == 16


def test_pieces_in_labels_are_one_member_for_each_size() -> None:
    label = ScopeFacts(True, "decode", ("batch",), (8,), 5, None)
    other = ScopeFacts(True, "decode", ("batch",), (4,), 3, None)
    events = [
        Event(EventKind.SCOPE, 0, 1, 0, 90),
        Event(EventKind.SCOPE, 1, 1, 100, 190),
        Event(EventKind.SCOPE, 0, 1, 200, 290),
        *replays(0, 1, 2),
        *replays(3, 4, 5, start=110),
        *replays(0, 1, 2, start=210),
    ]
    loop = assembled(events, facts(6, label, other))
    assert [m.graphs for m in loop.families[0].members] == [
        ("graph-0", "graph-1", "graph-2"),
        ("graph-3", "graph-4", "graph-5"),
    ]
    assert loop.steps.padded_size == (8, 4, 8)
    assert loop.steps.real_size == (5, 3, 5)
    assert (loop.steps.start_ns[1], loop.steps.end_ns[1]) == (100, 190)


def test_an_engines_step_within_a_label_is_the_labels() -> None:
    engine = ScopeFacts(False, "varlen", ("tokens",), (64,), 60, None)
    label = ScopeFacts(True, "mine", ("batch",), (8,), 7, None)
    events = [
        Event(EventKind.SCOPE, 0, 1, 10, 40),
        Event(EventKind.SCOPE, 1, 1, 0, 50),
        *replays(0, start=20),
    ]
    loop = assembled(events, facts(1, engine, label))
    assert [family.name for family in loop.families] == ["mine"]
    assert loop.steps.real_size == (7,)


def test_after_a_profiler_times_are_not_clean() -> None:
    events = [
        *replays(0, 0, 0, 0),
        Event(EventKind.PROFILER, 0, 1, 15, 15),
        Event(EventKind.GPU, 0, 1, 10, 700),
        Event(EventKind.GPU, 0, 1, 30, 900),
    ]
    loop = assembled(events, facts(1))
    assert (loop.clean_steps, loop.step_count) == (2, 4)
    assert loop.steps.gpu_ns == (None, 700, None, 900)
    assert (loop.graphs[0].first_launch_ns, loop.graphs[0].launch_ns) == (4, (4,))
    assert loop.graphs[0].gpu_ns == (700,)
    detached = assembled([*events, Event(EventKind.CLEAN, 0, 1, 25, 25)], facts(1))
    assert (detached.clean_steps, detached.later_clean_steps) == (2, (3, 4))
    assert detached.graphs[0].launch_ns == (4, 4)
    assert detached.graphs[0].gpu_ns == (700, 900)


@pytest.mark.parametrize(
    ("sequence", "units"),
    [
        ("", []),
        ("aaaa", ["a", "a", "a", "a"]),
        # Layers in a cycle: one step each time round.
        ("abcabcab", ["abc", "abc", "ab"]),
        # A server: nothing always follows anything.
        ("abacabca", ["a", "b", "a", "c", "a", "b", "c", "a"]),
        # Pieces of two sizes.
        ("abcdefabcabcdef", ["abc", "def", "abc", "abc", "def"]),
    ],
)
def test_kernels_that_always_follow_each_other_form_one_unit(
    sequence: str, units: list[str]
) -> None:
    numbers = [ord(letter) for letter in sequence]
    found = replay_units(numbers, lambda _first, _second: True)
    assert [sequence[begin:end] for begin, end in found] == units


@pytest.mark.parametrize(
    ("sequence", "periods"),
    [
        # One frame of six graphs of several modules.
        ("abcdefabcdefabcdefabcdef", ["abcdef"] * 4),
        # A batch with two nested loops, whose counts depend on data.
        ("abccdbcdabcdabcccdbcdbccdabcda", ["abccdbcd", "abcd", "abcccdbcdbccd", "abcd", "a"]),
        # An update at every second step.
        ("pmpmlpmpmlpmpml", ["pm", "pml"] * 3),
        # Nothing repeats.
        ("abacbcabcacb", None),
        ("aaaaaaaa", None),
        ("ababab", None),
    ],
)
def test_periods_of_replays_are_steps(sequence: str, periods: list[str] | None) -> None:
    found = find_repetition([ord(graph) for graph in sequence])
    assert (found and [sequence[begin:end] for begin, end in found]) == periods


def test_inner_loops_are_one_member_and_one_step_for_each_batch() -> None:
    loop = assembled(replays(*(0, 1, 1, 2, 0, 1, 2, 0, 1, 1, 1, 2) * 2), facts(3, places=3))
    (family,) = loop.families
    assert [member.graphs for member in family.members] == [("graph-0", "graph-1", "graph-2")]
    assert loop.steps.kind == (StepKind.SEGMENTS,) * 6
    assert loop.steps.launch_ns == (16, 12, 20) * 2


def test_sizes_that_a_server_drains_in_one_order_are_no_period() -> None:
    loop = assembled(replays(*(0, 0, 1, 1, 2) * 5), facts(3))
    assert set(loop.steps.kind) == {R}
    assert len(loop.steps.kind) == 25


def test_an_optional_graph_before_the_optimizer_is_of_the_same_family() -> None:
    ends = [Event(EventKind.STEP, 0, 1, at, at) for at in (15, 45, 65, 95)]
    told = facts(3, places=3)
    loop = assembled([*replays(0, 1, 2, 0, 1, 0, 1, 2, 0, 1), *ends], told, BoundaryKind.OPTIMIZER)
    assert len(loop.families) == 1
    assert [member.graphs for member in loop.families[0].members] == [
        ("graph-0", "graph-1"),
        ("graph-2", "graph-0", "graph-1"),
    ]


def test_families_captured_by_one_library_function_have_different_names() -> None:
    told = facts(2)
    for graph, caller in zip(told.graphs, ("run.py:52", "run.py:56"), strict=True):
        graph.place = "_call, wrapper.py:212"
        graph.captured_at = ("wrapper.py:212", caller)
    loop = assembled([*captures(2), *replays(0, 0, 0, 1, 1, 1, 0, 0)], told)
    assert [family.name for family in loop.families] == [
        "_call, wrapper.py:212, run.py:52",
        "_call, wrapper.py:212, run.py:56",
    ]


def test_families_captured_by_the_same_calls_have_different_names() -> None:
    told = facts(2)
    for graph in told.graphs:
        graph.place, graph.captured_at = "_call, wrapper.py:212", ("wrapper.py:212", "run.py:52")
    ends = [Event(EventKind.STEP, 0, 1, at, at) for at in (15, 25, 45, 65)]
    loop = assembled([*replays(0, 0, 1, 0, 1, 0), *ends], told, BoundaryKind.OPTIMIZER)
    assert [family.name for family in loop.families] == [
        "_call, wrapper.py:212, 2 graphs per step",
        "_call, wrapper.py:212, 1 graph per step",
    ]


def test_eager_passes_with_the_inputs_of_a_graph_are_no_fallbacks() -> None:
    told = facts(1)
    told.modules = ("Net",)
    told.graphs[0].module, told.graphs[0].shapes = 0, ((4, 8),)
    told.passes = (PassFacts(0, ((4, 8),)), PassFacts(0, ((9, 8),)))
    passes = [
        Event(EventKind.PASS, number, 1, at, at + 5)
        for number, at in ((0, -2000), (0, 300), (1, 320), (0, 340))
    ]
    loop = assembled([*captures(1), *replays(0, 0), *passes], told)
    assert loop.steps.kind == (C, R, R, F)


def test_prefills_and_validations_of_a_decoder_are_no_fallbacks_of_its_sizes() -> None:
    """A pool of decode graphs that validates some calls, recorded on an H100.

    Each call has an eager prefill before its replays. A validation repeats prefill and decode.
    """
    told = facts(2)
    told.modules = ("Llama",)
    prefill_1, prefill_4, decode_1, decode_8 = range(4)
    told.passes = tuple(PassFacts(0, (shape,)) for shape in ((1, 100), (4, 20), (1, 1), (8, 1)))
    for graph, batch in zip(told.graphs, (1, 4), strict=True):
        graph.module, graph.shapes, graph.captured_at = 0, ((batch, 1),), ("pool.py:1",)
    passes = [
        Event(EventKind.PASS, number, 1, at, at + 5)
        for number, at in (
            (prefill_1, 300),
            (prefill_1, 500),
            (decode_1, 510),
            (decode_1, 520),
            (prefill_4, 600),
            (decode_8, 900),
        )
    ]
    decode = [Event(EventKind.REPLAY, 0, 1, at, at + 5) for at in (310, 320)]
    decode += [Event(EventKind.REPLAY, 1, 1, at, at + 5) for at in (610, 620)]
    loop = assembled([*captures(2), *decode, *passes], told)
    assert loop.steps.kind == (C, C, F, R, R, F, F, R, R, F)
    eager = [number for number, kind in enumerate(loop.steps.kind) if kind is F]
    # Only a batch of 8 needs a graph that the pool lacks.
    assert [loop.steps.family[number] for number in eager] == [None, None, None, 0]
    assert [loop.steps.real_size[number] for number in eager] == [None, None, None, 8]


def test_passes_that_replay_graphs_are_no_fallbacks() -> None:
    told = facts(1)
    told.modules, told.passes = ("Net",), (PassFacts(0, ((9, 8),)),)
    inside = Event(EventKind.REPLAY, 0, 1, 310, 315)
    passes = [Event(EventKind.PASS, 0, 1, at, at + 50) for at in (300, 400)]
    loop = assembled([*captures(1), inside, *passes], told)
    assert loop.steps.kind == (C, R, F)


def test_eager_passes_are_fallbacks_after_a_compilation_too(tmp_path: Path) -> None:
    program = """
    @torch.compile
    def norm(x): return x
    class Layer(torch.nn.Module):
        def forward(self, x): norm(x)
    class Decoder(torch.nn.Module):
        def __init__(self): self.layers = [Layer(), Layer()]
        def forward(self, x):
            for layer in self.layers: layer(x)
    net = Decoder()
    net(torch.Tensor(64, 8))
    for size in (4, 2, 1): warm_up(size)
    for real in (1, 3, 9, 2) * 10: serve(real)
    print("__call__" in vars(Decoder), "__call__" in vars(Layer))
    call = torch.nn.Module.__call__
    torch.compile(norm)
    print("__call__" in vars(Decoder), torch.nn.Module.__call__ is call)
    """
    done = run(tmp_path, CAPTURE + SERVER + flat(program), "--steps", "0")
    assert done.returncode == 0, done.stderr
    # Only the outermost module of the captures is watched, until something is compiled again.
    assert done.stdout.split("\n")[:2] == ["True False", "False True"]
    loop = loop_of(tmp_path)
    (family,) = loop.families
    assert (family.module, [member.key for member in family.members]) == (
        "Decoder",
        [(4,), (2,), (1,)],
    )
    assert loop.steps.kind == (C, C, C, *(R, R, F, R) * 10)
    assert loop.steps.real_size[5] == 9


def test_the_last_key_is_the_grid_of_a_kernel_that_differs_in_all(tmp_path: Path) -> None:
    unknown = load_run(make_server(tmp_path, sizes=(1, 2, 4, 8), method=None))
    assert unknown.loop is not None
    (family,) = add_grid_keys(unknown.loop, unknown.graphs).families
    assert family.axes == ("grid x of void small_gemm<float>(float*)",)
    assert [member.key for member in family.members] == [(8,), (4,), (2,), (1,)]
    assert {member.method for member in family.members} == {KeyMethod.GRIDS}
    assert family.size_axis is None
    fewer = [replace(graph, nodes=graph.nodes[: 1 + at]) for at, graph in enumerate(unknown.graphs)]
    assert add_grid_keys(unknown.loop, fewer).families == unknown.loop.families
    assert add_grid_keys(unknown.loop, ()).families == unknown.loop.families


def test_keys_are_the_sizes_in_which_inputs_differ() -> None:
    axes, keys = derive_shape_keys([((8, 16), (8,)), ((4, 16), (4,)), ((2, 16), (2,))])
    assert (axes, keys) == (("input 0 size(0)",), [(8,), (4,), (2,)])
    assert derive_shape_keys([((8, 16),), ((8,),)]) == ((), [None, None])
    assert derive_shape_keys([(), ()]) == ((), [None, None])


@pytest.mark.parametrize(
    ("shapes", "size"),
    [
        pytest.param(((9, 16), (9,)), 9, id="more rows"),
        pytest.param(((9, 16), (3,)), None, id="two sizes"),
        pytest.param(((9, 32), (9,)), None, id="another width"),
        pytest.param(((9, 16, 1), (9,)), None, id="another rank"),
        pytest.param(((9, 16),), None, id="another input"),
        pytest.param((), None, id="no input"),
    ],
)
def test_an_eager_pass_has_the_size_in_which_graphs_differ(
    shapes: tuple[tuple[int, ...], ...], size: int | None
) -> None:
    assert find_shape_size([((8, 16), (8,)), ((4, 16), (4,)), ((2, 16), (2,))], shapes) == size
    # One graph differs in nothing, and several sizes are no single one.
    assert find_shape_size([((8, 16), (8,))], shapes) is None
    assert find_shape_size([((8, 16), (8,)), ((4, 8), (4,))], shapes) is None


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (((3, 16), (3,)), True),
        (((3, 15), (3,)), False),
        (((3, 16),), False),
        ((), True),
    ],
)
def test_a_graph_of_another_size_could_run_a_pass_of_the_same_form(
    shapes: tuple[tuple[int, ...], ...], expected: bool
) -> None:
    assert has_family_shapes([((8, 16), (8,)), ((4, 16), (4,))], shapes) is expected
    # A single graph, or graphs of different places, do not tell.
    assert has_family_shapes([((8, 16), (8,))], shapes)
    assert has_family_shapes([((8, 16), (8,)), ((4, 16),)], shapes)


def test_a_label_costs_few_calls(tmp_path: Path) -> None:
    """A label surrounds each replay. Times of a busy machine tell little, so calls are counted."""
    program = """
    import collectors
    def label():
        with collectors.label("decode", real=3, phase="decode", batch=4): pass
    g = captured()
    for _ in range(60): label()
    calls = []
    sys.setprofile(lambda frame, event, _: event == "call" and calls.append(frame.f_code.co_name))
    label()
    sys.setprofile(None)
    print(*calls)
    """
    done = run(tmp_path, "import sys\n" + CAPTURE + flat(program), "--steps", "0")
    assert done.returncode == 0, done.stderr
    expected = ["label", "label", "label", "__exit__", "__enter__", "__exit__"]
    assert done.stdout.split()[: len(expected)] == expected


def test_a_step_of_an_engine_costs_few_calls(tmp_path: Path) -> None:
    modules = {
        "vllm.compilation.cuda_graph": VLLM_WRAPPER,
        "vllm.v1.worker.gpu_model_runner": VLLM_RUNNER,
    }
    write_package(tmp_path, "0.22.0", modules)
    program = """
    from types import SimpleNamespace as Some
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner
    runner = GPUModelRunner(decode=(4, 2), mixed=(8,))
    scheduled = Some(total_num_scheduled_tokens=2, num_scheduled_tokens={"a": 1, "b": 1})
    for _ in range(60): runner.execute_model(scheduled)
    calls = []
    sys.setprofile(lambda frame, event, _: event == "call" and calls.append(frame.f_code.co_name))
    runner.execute_model(scheduled)
    sys.setprofile(None)
    print(*calls)
    """
    done = run(tmp_path, "import sys\n" + CAPTURE + flat(program), "--skip", "1000000")
    assert done.returncode == 0, done.stderr
    before, _, after = done.stdout.strip().partition(" execute_model ")
    assert before.split() == ["run_step", "read_step", "__exit__"]
    replay, _, ending = after.rpartition(" _handle_scope_end ")
    assert "_handle_scope_end" not in replay
    assert ending.split() == ["end_plain_step", "__exit__"]


def test_a_replay_costs_few_calls(tmp_path: Path) -> None:
    program = """
    g, h = captured(), captured()
    for _ in range(60): g.replay(), h.replay()
    calls = []
    sys.setprofile(lambda frame, event, _: event == "call" and calls.append(frame.f_code.co_name))
    g.replay()
    calls.append("|")
    h.replay()
    sys.setprofile(None)
    print(*calls)
    """
    done = run(tmp_path, "import sys\n" + CAPTURE + flat(program), "--steps", "0")
    assert done.returncode == 0, done.stderr
    first, _, second = done.stdout.partition(" | ")
    # The first graph ends steps.
    watched = ["replay", "record_replay"]
    assert first.split() == [*watched, "end_plain_step", "replay"]
    assert second.split() == [*watched, "replay"]


def test_events_are_drained_whole_and_in_order(tmp_path: Path) -> None:
    log = LoopLog()
    for number in range(2_345):
        log.note((EventKind.REPLAY, number, 7, log.origin + number, log.origin + number + 1))
    file = tmp_path / "loop.bin"
    MappedFile(file).append(log.drain())
    events = list(read_events(file, log.origin))
    assert [event.ref for event in events] == list(range(2_345))
    assert events[-1] == Event(EventKind.REPLAY, 2_344, 7, 2_344, 2_345)
    assert log.drain() == b""


def test_scopes_are_counted_when_no_event_is_kept() -> None:
    log = LoopLog()
    log.count_scopes()
    for _ in range(3):
        log.note_scope((EventKind.SCOPE, 0, 7, 1, 2))
    assert (log.dropped, log.drain()) == (3, b"")
