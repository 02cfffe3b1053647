from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from graphviz_dash.analysis.metrics.kernel_table import build_kernel_table
from graphviz_dash.analysis.nodes.replay_faults import is_same_step
from graphviz_dash.analysis.nodes.whole_graph import expand_graph
from graphviz_dash.analysis.replay_check import (
    ReplayCause,
    ReplayDiagnosis,
    diagnose_replays,
    find_differing_ranks,
)
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.ingest.load import load_experiment, load_run
from graphviz_dash.model.doctor import RuleId, Severity
from tests.gpu.test_doctor import doctor, found

HERE = Path(__file__).parent / "programs_replays"
STEPS = "tests.gpu.programs_replays.steps"
PLANTED = (
    *("scalar", "scalar-add", "cpu-scalar", "random-scalar", "replaced", "batches", "window"),
    *("pinned", "pinned-back", "cpu-noise", "branch", "loop", "shape", "no-join", "escaped"),
    *("foreign", "dropout-list"),
)

torch = pytest.importorskip("torch", reason="needs a CUDA GPU; torch is not installed")

pytestmark = pytest.mark.timeout(180)


def marked_line(file: str, word: str) -> int:
    lines = (HERE / file).read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.endswith(f"# {word}"))


def collect_marks(folder: Path, *program: str, strict: bool = False) -> tuple[ReplayDiagnosis, str]:
    options = ("--strict",) if strict else ()
    command = (
        "import sys; from graphviz_dash.app.cli.main import main; sys.exit(main(sys.argv[1:]))",
        *("collect", "--marks", *options, "--hang-seconds", "3", "-o", str(folder), "--"),
        *(sys.executable, *program),
    )
    done = subprocess.run(
        [sys.executable, "-c", *command], capture_output=True, text=True, check=False, timeout=170
    )
    check = read_bundle(folder / "recorded").replay_check
    assert check is not None, done.stderr
    return diagnose_replays(check), done.stderr


@pytest.mark.parametrize("name", PLANTED)
def test_the_first_wrong_operator_of_a_planted_fault(name: str) -> None:
    from collectors import check_replays
    from tests.gpu.planted_faults import FAULTS, build

    assert set(PLANTED) == set(FAULTS)
    planted = build(name, 12, seed=3, train=False)
    (wrong,) = diagnose_replays(check_replays(planted.step)).wrong
    assert (wrong.operator.name, wrong.cause.value) == (planted.truth.operator, planted.truth.cause)
    assert wrong.operator.module == planted.module
    assert wrong.operator.location is not None
    if not planted.truth.submodule:
        assert wrong.operator.location.file.endswith("planted_faults.py")


@pytest.mark.parametrize("train", [False, True])
def test_a_sound_step_agrees_bit_by_bit(train: bool) -> None:
    from collectors import check_replays
    from tests.gpu.planted_faults import build_clean

    check = check_replays(build_clean(6, train=train))
    assert diagnose_replays(check).fault_count == 0
    (values,) = check.values
    assert values.hash_count > len(values.operators) / 4
    assert values.difference_count == 0
    assert values.duration_ns is not None


def test_the_state_of_the_step_is_restored() -> None:
    from collectors import check_replays

    total = torch.zeros(4, device="cuda")
    check_replays(lambda: total.add_(1), warmup=2)
    # Two steps of warm-up and one that observes; replays and compared steps are taken back.
    assert total.tolist() == [3.0] * 4


def test_a_graph_of_the_program_that_reads_a_replaced_tensor() -> None:
    from collectors import check_replays

    x = torch.ones(256, device="cuda")
    state = {"bias": torch.ones(256, device="cuda"), "factor": 2.0}

    def step() -> torch.Tensor:
        y = x * state["factor"]
        return torch.tanh(y) + state["bias"]

    for _ in range(3):
        step()
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        step()
    assert diagnose_replays(check_replays(step, graph)).fault_count == 0
    old = state["bias"]
    state["bias"] = torch.zeros(256, device="cuda")
    (wrong,) = diagnose_replays(check_replays(step, graph)).wrong
    assert (wrong.cause, wrong.operator.name) == (ReplayCause.INPUT_REPLACED, "aten::add")
    state["bias"], state["factor"] = old, 3.0
    (wrong,) = diagnose_replays(check_replays(step, graph)).wrong
    assert (wrong.cause, wrong.operator.name) == (ReplayCause.SCALAR_FROZEN, "aten::mul")
    assert wrong.fact is not None
    assert (wrong.fact.capture_value, wrong.fact.eager) == ("2", ("3",))


def test_a_graph_that_torch_does_not_keep_is_reported() -> None:
    from collectors import check_replays

    x = torch.ones(8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x * 2
    check = check_replays(lambda: x * 2, graph)
    assert any("keep_graph=True" in gap.reason for gap in check.gaps)


def test_elements_of_a_wrong_tensor_are_read() -> None:
    from collectors import check_replays

    x, state = torch.ones(4, device="cuda"), {"count": 0.0}

    def step() -> torch.Tensor:
        state["count"] += 1
        return x * state["count"]

    (wrong,) = diagnose_replays(check_replays(step)).wrong
    assert wrong.elements is not None
    assert (wrong.elements.differing_elements, wrong.elements.elements) == (4, 4)
    first = wrong.elements.first[0]
    assert first.index == (0,)
    assert first.eager == first.replay + 1


@pytest.mark.parametrize(
    ("kind", "kernel", "cause"),
    [
        ("bad-store", "bad_store", ReplayCause.CRASH),
        ("assert", "gather", ReplayCause.CRASH),
        ("unmapped", "elementwise", ReplayCause.MEMORY_FREED),
        ("spin", "spin", ReplayCause.HANG),
        ("host", "", ReplayCause.HANG),
    ],
)
def test_the_node_of_a_crash_or_hang(
    kind: str, kernel: str, cause: ReplayCause, tmp_path: Path
) -> None:
    program = ("-m", "evaluation.replays.stopping", kind, "10", "5")
    diagnosis, stderr = collect_marks(tmp_path, *program)
    (fault,) = diagnosis.stops
    assert fault.cause is cause
    assert fault.stop.key == "step rows=64"
    (suspect,) = fault.stop.suspects
    assert kernel in (suspect.name or "")
    assert (suspect.kind == "Host") == (kind == "host")
    assert ("Hang: graph-" in stderr) == (cause is ReplayCause.HANG)
    if kind == "bad-store":
        assert [(item.argument, item.value) for item in fault.stop.invalid_arguments] == [
            (0, "0x10")
        ]
    if kind == "unmapped":
        assert fault.memory is not None
        assert fault.memory.argument is not None


def test_a_workspace_that_is_cleared(tmp_path: Path) -> None:
    diagnosis, _ = collect_marks(tmp_path, str(HERE / "workspace.py"))
    assert diagnosis.memory
    for fault in diagnosis.memory:
        assert fault.cause is ReplayCause.MEMORY_FREED
        assert (fault.memory.owner, fault.memory.reported_before_replay) == ("workspace", 3)
        assert fault.memory.free_location is not None
        assert fault.memory.free_location.line == marked_line("workspace.py", "FREES")
        assert fault.memory.node is not None
        assert fault.memory.node.location is not None
        assert fault.memory.node.location.line == marked_line("workspace.py", "READS")


@pytest.mark.parametrize(("kind", "owner"), [("device", "library"), ("pinned", "pinned")])
def test_memory_of_a_library_that_is_freed(kind: str, owner: str, tmp_path: Path) -> None:
    diagnosis, _ = collect_marks(tmp_path, str(HERE / "driver_memory.py"), kind, strict=True)
    fates = list(diagnosis.check.memory)
    assert [(fate.owner, fate.reported_before_replay) for fate in fates] == [(owner, 3)]
    assert fates[0].fate in ("freed", "reused")
    assert fates[0].node is not None
    assert fates[0].node.index == 1


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("memory", "the graph allocates memory, and CUDA allows no change of it"),
        ("conditional", "the graph has a conditional node, and CUDA copies none"),
        ("child", "nodes inside a child graph have no marks"),
    ],
)
def test_nodes_without_marks_are_reported(kind: str, reason: str, tmp_path: Path) -> None:
    diagnosis, _ = collect_marks(tmp_path, str(HERE / "every_node.py"), kind)
    assert (diagnosis.check.graphs, diagnosis.fault_count) == (1, 0)
    assert [gap.reason for gap in diagnosis.gaps] == [reason]


def test_launches_outside_torch_are_reported(tmp_path: Path) -> None:
    diagnosis, _ = collect_marks(tmp_path, str(HERE / "raw_launch.py"))
    assert diagnosis.fault_count == 0
    (gap,) = diagnosis.gaps
    assert (gap.subject, gap.count) == ("replays", 3)


def test_nodes_without_hashes_are_reported() -> None:
    from collectors import check_replays
    from collectors.workloads.all_nodes import all_nodes

    diagnosis = diagnose_replays(check_replays(all_nodes()))
    assert diagnosis.fault_count == 0
    subjects = {gap.subject for gap in diagnosis.gaps}
    kinds = ("Host", "ChildGraph", "Conditional", "MemAlloc", "MemFree", "BatchMemOp")
    assert {f"{kind} nodes" for kind in kinds} <= subjects


def test_a_kernel_outside_operators_at_the_end_of_the_step() -> None:
    from collectors import check_replays
    from tests.gpu.planted_faults import launch_scale

    x = torch.ones(256, device="cuda")
    state = {"factor": 1.0}

    def step() -> torch.Tensor:
        state["factor"] += 0.25
        y = x * 2
        launch_scale(y, state["factor"])
        return y

    (wrong,) = diagnose_replays(check_replays(step)).wrong
    assert wrong.cause is ReplayCause.FOREIGN_KERNEL
    assert wrong.operator.name == "end of the step"
    assert wrong.kernels == ("scale",)
    assert wrong.fact is not None


@pytest.mark.parametrize("strict", [False, True])
def test_an_arena_that_grows_late(strict: bool, tmp_path: Path) -> None:
    """R8."""
    diagnosis, _ = collect_marks(tmp_path, str(HERE / "arena.py"), strict=strict)
    (fault,) = diagnosis.memory
    assert (fault.cause, fault.memory.reported_before_replay) == (ReplayCause.MEMORY_FREED, 21)
    assert fault.memory.free_location is not None
    assert fault.memory.free_location.line == marked_line("arena.py", "FREES")
    assert fault.memory.node is not None
    assert fault.memory.node.location is not None
    assert fault.memory.node.location.line == marked_line("arena.py", "READS")
    location = fault.memory.allocation_location
    line = marked_line("arena.py", "ALLOCATES") if strict else None
    assert (location.line if location else None) == line


def test_errors_of_the_check_are_reported(tmp_path: Path) -> None:
    diagnosis, _ = collect_marks(tmp_path, str(HERE / "failing_check.py"))
    assert diagnosis.check.graphs == 1
    (gap,) = diagnosis.gaps
    assert (gap.subject, gap.count) == ("checks", 20)
    assert "KeyError at failing_check.py" in gap.reason


def test_forked_workers_have_their_own_graphs(tmp_path: Path) -> None:
    diagnosis, _ = collect_marks(tmp_path, str(HERE / "forked.py"))
    assert (diagnosis.check.graphs, diagnosis.gaps) == (2, ())
    (fault,) = diagnosis.memory
    assert fault.memory.reported_before_replay == 3
    assert fault.memory.free_location is not None
    assert fault.memory.free_location.line == marked_line("forked.py", "FREES")


@pytest.mark.parametrize(("program", "graphs"), [("eviction.py", 8), ("trainers.py", 1)])
def test_reports_that_this_torch_does_not_reproduce(
    program: str, graphs: int, tmp_path: Path
) -> None:
    """R9 and R10: the programs run to their end, and nothing is found."""
    diagnosis, _ = collect_marks(tmp_path, str(HERE / program))
    assert (diagnosis.check.graphs, diagnosis.fault_count) == (graphs, 0)


def test_random_numbers_after_memory_is_freed_on_another_stream(tmp_path: Path) -> None:
    """R11: this torch captures it."""
    examined = doctor(tmp_path, "--", sys.executable, str(HERE / "random_numbers.py"))
    assert examined.report.findings == ()


def test_profiler_sessions_record_all_kernels() -> None:
    """R16: this torch loses none."""
    command = (sys.executable, str(HERE / "profiled.py"))
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=170)
    assert "COUNTS [50, 50, 50, 50, 50]" in done.stdout


def test_accumulation_over_a_compiled_module(tmp_path: Path) -> None:
    """R2."""
    main = "import sys; from graphviz_dash.app.cli.main import main; sys.exit(main(sys.argv[1:]))"
    program = (sys.executable, str(HERE / "compiled_accumulation.py"))
    recorded = (sys.executable, "-c", main, "collect", "-o", str(tmp_path), "--", *program)
    subprocess.run(recorded, capture_output=True, check=False, timeout=170)
    command = (sys.executable, "-c", main, "compile", str(tmp_path / "recorded"))
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    text = " ".join(done.stdout.split())
    line = marked_line("compiled_accumulation.py", "CAUSE")
    assert "An output is used after the next run overwrote it" in text
    assert f"compiled_accumulation.py:{line}" in text


def test_rows_of_any_number_are_not_recorded() -> None:
    """R1: with the flag that skips sizes that change, this torch records no graph."""
    program = (sys.executable, str(HERE / "dynamic_rows.py"))
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=170)
    assert "RECORDINGS 0" in done.stdout


def test_gradients_of_a_graphed_callable(tmp_path: Path) -> None:
    """R3."""
    diagnosis, _ = collect_marks(tmp_path, str(HERE / "accumulation.py"))
    (fault,) = diagnosis.memory
    assert fault.cause is ReplayCause.GRADIENT_OVERWRITTEN
    assert fault.memory.reported_before_replay == 2


@pytest.mark.parametrize(("size", "is_slower"), [(508, False), (512, True)])
def test_large_copies_of_a_graph(size: int, is_slower: bool, tmp_path: Path) -> None:
    """R12."""
    main = "import sys; from graphviz_dash.app.cli.main import main; sys.exit(main(sys.argv[1:]))"
    options = ("--modes", "eager,graph", "--processes", "1", "-o", str(tmp_path / "copy"))
    command = ("collect", "--workload", f"{STEPS}:copy_{size}_mib", *options)
    subprocess.run([sys.executable, "-c", main, *command], check=True, timeout=170)
    table = build_kernel_table(load_experiment(tmp_path / "copy"), "eager")
    # The graph runs the copy as a kernel of the driver.
    copies = [row for row in table.rows if "memcpy" in row.name.lower()]
    eager, graph = (
        sum(row.uses[run].total_ns for row in copies if row.uses[run]) for run in range(2)
    )
    assert eager
    assert (graph > 1.1 * eager) == is_slower


def test_a_kernel_on_the_default_stream() -> None:
    """R14."""
    from collectors import check_replays
    from tests.gpu.programs_replays.steps import stray_kernel

    check = check_replays(stray_kernel())
    assert check.values[0].nodes == 2
    (wrong,) = diagnose_replays(check).wrong
    assert wrong.cause is ReplayCause.ESCAPED_WORK
    assert wrong.operator.location is not None
    assert wrong.operator.location.line == marked_line("steps.py", "STRAY")


def test_memory_that_a_capture_does_not_reuse(tmp_path: Path) -> None:
    """R4."""
    examined = doctor(tmp_path, "--workload", f"{STEPS}:deferred_free")
    assert examined.code == 0, examined.out
    finding = found(examined.report, RuleId.DEFERRED_FREE)
    assert (finding.severity, finding.calls_per_step) == (Severity.COSTLY, 8)
    assert finding.location is not None
    assert finding.location.line == marked_line("steps.py", "DEFERRED")


def test_memory_of_failed_captures(tmp_path: Path) -> None:
    """R5."""
    examined = doctor(tmp_path, "--", sys.executable, str(HERE / "failed_captures.py"))
    finding = found(examined.report, RuleId.FAILED_CAPTURE_POOL)
    (size,) = [fact.value for fact in finding.evidence if fact.unit == "B"]
    assert isinstance(size, int)
    assert size >= 256 << 20


def test_a_graph_collected_in_a_capture(tmp_path: Path) -> None:
    """R15."""
    examined = doctor(tmp_path, "--", sys.executable, str(HERE / "collected.py"))
    finding = examined.report.findings[0]
    assert finding.rule is RuleId.COLLECTED_GRAPH
    assert finding.location is not None
    assert finding.location.line == marked_line("collected.py", "COLLECTS")


def test_a_loader_that_pins_memory_during_captures(tmp_path: Path) -> None:
    """R13."""
    examined = doctor(tmp_path, "--", sys.executable, str(HERE / "loader_capture.py"))
    assert examined.code == 1
    finding = examined.report.findings[0]
    assert (finding.rule, finding.op) == (RuleId.OTHER_THREAD, "Tensor.pin_memory")
    assert finding.thread is not None
    assert "pin_memory_loop" in finding.thread
    assert finding.location is not None
    assert finding.location.line == marked_line("loader_capture.py", "FAILS")


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@pytest.mark.parametrize("kind", ["spin", "skip", "late"])
def test_ranks_that_hang(kind: str, tmp_path: Path) -> None:
    """R17."""
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
    program = ("-m", "evaluation.replays.hanging_ranks", kind, "0")
    diagnosis, stderr = collect_marks(tmp_path, *launcher, *program)
    assert "Hang: rank 0" in stderr
    waits = {stop.rank: stop.suspects[0].collective for stop in diagnosis.check.stops}
    assert waits[0] == {"spin": 7, "skip": 8, "late": 1}[kind]
    (differing,) = find_differing_ranks(diagnosis.stops[0])
    missing = (7,) if kind == "skip" else ()
    assert (differing.rank, differing.missing_collectives) == (1, missing)


def test_a_capture_out_of_memory(tmp_path: Path) -> None:
    examined = doctor(tmp_path, "--", sys.executable, str(HERE / "memory.py"))
    finding = examined.report.findings[0]
    assert finding.rule is RuleId.OUT_OF_MEMORY
    assert finding.location is not None
    assert finding.location.line == marked_line("memory.py", "FAILS")


def test_doctor_replays_of_a_sound_workload(tmp_path: Path) -> None:
    examined = doctor(tmp_path, "--replays", "--workload", "mlp-train")
    assert examined.code == 0, examined.out
    run = load_run(tmp_path / "doctor")
    check = run.replay_check
    assert check is not None
    assert check.values[0].difference_count == 0
    assert is_same_step(check.values[0], expand_graph(run, "graph-0"))
    assert "agree with eager steps" in examined.out
