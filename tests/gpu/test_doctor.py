from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.model.doctor import (
    CheckStatus,
    DetectionMethod,
    DoctorReport,
    Finding,
    RuleId,
    Severity,
)

torch = pytest.importorskip("torch", reason="needs a CUDA GPU; torch is not installed")

HERE = Path(__file__).parent / "programs_doctor"
STEPS = "tests.gpu.programs_doctor.steps"

pytestmark = pytest.mark.timeout(180)


@dataclass(frozen=True)
class Examined:
    code: int
    out: str
    err: str
    report: DoctorReport


def doctor(folder: Path, *arguments: str) -> Examined:
    command = (
        "import sys; from graphviz_dash.app.cli.main import main; sys.exit(main(sys.argv[1:]))",
        *("doctor", "-o", str(folder), *arguments),
    )
    done = subprocess.run(
        [sys.executable, "-c", *command], capture_output=True, text=True, check=False, timeout=170
    )
    bundle = folder / "doctor"
    assert bundle.is_dir(), done.stderr
    held = read_bundle(bundle).doctor
    assert held is not None
    return Examined(done.returncode, done.stdout, done.stderr, held)


def marked(file: str, rule: str, after: str = "") -> int:
    """The line of a file that says it breaks a rule, the first after a text."""
    lines = (HERE / file).read_text().splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith(after)), 0)
    return next(
        n
        for n, line in enumerate(lines[start:], start + 1)
        if re.search(rf"# BREAKS (\d )?{rule}$", line)
    )


def found(report: DoctorReport, rule: RuleId) -> Finding:
    return next(finding for finding in report.findings if finding.rule is rule)


# Factory, rule, operator; in the order of the rules.
ILLEGAL = [
    ("sync_value", "sync-value", "aten::_local_scalar_dense"),
    ("sync_shape", "sync-shape", "aten::index"),
    ("sync_copy", "sync-copy", "aten::_to_copy"),
    ("sync_call", "sync-call", "torch.cuda.synchronize"),
    ("control_flow", "control-flow", "aten::_local_scalar_dense"),
    ("unpinned_copy", "unpinned-copy", "aten::_to_copy"),
    ("unpinned_constant", "unpinned-copy", "torch.tensor"),
    ("generator", "generator", "aten::randn"),
    ("two_captures", "two-captures", "torch.cuda.graph"),
    ("other_thread", "other-thread", "aten::empty"),
    ("unjoined_stream", "unjoined-stream", "aten::mul"),
    ("optimizer_capturable", "optimizer-capturable", "Adam.step"),
    ("forbidden_call", "forbidden-call", None),
    ("in_backward", "sync-value", "aten::_local_scalar_dense"),
]
SILENT = [
    ("moved_input", "moved-input", "aten::mul"),
    ("changing_shape", "changing-shape", "aten::mul"),
    ("changing_scalar", "changing-scalar", "aten::add_"),
    ("cpu_work", "cpu-work", "aten::mul_"),
    ("escaped_work", "escaped-work", "aten::add_"),
    ("control_flow_silent", "control-flow", "aten::sum"),
    ("empty_capture", "empty-capture", None),
]


@pytest.mark.parametrize(("name", "rule", "op"), ILLEGAL)
def test_an_illegal_call_of_a_workload(
    name: str, rule: str, op: str | None, tmp_path: Path
) -> None:
    examined = doctor(tmp_path, "--workload", f"{STEPS}:{name}")
    assert examined.code == 1, examined.err
    finding = examined.report.findings[0]
    assert (finding.rule.value, finding.severity) == (rule, Severity.ILLEGAL)
    assert (finding.ends_capture, finding.detected_by) == (True, DetectionMethod.CAPTURE)
    assert finding.op == op
    assert finding.location is not None
    assert finding.location.file.endswith("programs_doctor/steps.py")
    assert finding.location.line == marked("steps.py", rule, f"def {name}(")
    assert (
        f"# BREAKS {rule}"
        in finding.location.lines[finding.location.line - finding.location.first_line]
    )
    assert finding.message
    assert finding.stream
    assert examined.report.captured is False
    assert sum(one.ends_capture for one in examined.report.findings) == 1
    checks = {check.rule.value: check.status for check in examined.report.checks}
    assert checks[rule] is CheckStatus.FOUND
    assert f":{finding.location.line}" in examined.out.splitlines()[0]


@pytest.mark.parametrize(("name", "rule", "op"), SILENT)
def test_the_doctor_finds_silent_losses_of_a_workload(
    name: str, rule: str, op: str | None, tmp_path: Path
) -> None:
    examined = doctor(tmp_path, "--workload", f"{STEPS}:{name}")
    assert examined.code == 3, examined.err
    report = examined.report
    assert report.captured is True
    assert all(one.severity is Severity.SILENT for one in report.findings)
    finding = found(report, RuleId(rule))
    assert finding.op == op
    assert finding.location is not None
    assert finding.location.line == marked("steps.py", rule, f"def {name}(")
    assert any(isinstance(one.value, int | float) for one in finding.evidence) or any(
        str(one.value).startswith("0x") for one in finding.evidence
    )


def test_every_rule_has_a_workload_or_a_program_here() -> None:
    rules = {rule for _, rule, _ in (*ILLEGAL, *SILENT)}
    own = {RuleId.DEFAULT_STREAM, RuleId.NO_WARMUP, RuleId.REPLAY_DIFFERS}
    own |= {RuleId.GRADIENT_STREAM, RuleId.CONDITIONAL_COLLECTIVE, RuleId.FIRST_RANDOM}
    # tests/gpu/test_replays.py
    own |= {RuleId.OUT_OF_MEMORY, RuleId.COLLECTED_GRAPH}
    own |= {RuleId.DEFERRED_FREE, RuleId.FAILED_CAPTURE_POOL}
    assert rules == {rule.value for rule in RuleId if rule not in own}


def test_a_replay_of_a_moved_input_differs_in_numbers(tmp_path: Path) -> None:
    report = doctor(tmp_path, "--workload", f"{STEPS}:moved_input").report
    result = next(check for check in report.outputs if check.kind == "result")
    # 64 rows of inputs, each twice the shift of 1 from one batch to the next.
    assert (result.differing_elements, result.elements, result.max_difference) == (64, 64, 128.0)
    addresses = [
        one.value
        for one in found(report, RuleId.MOVED_INPUT).evidence
        if one.name.startswith("address in step")
    ]
    assert len(set(addresses)) == len(addresses) == 3


def test_a_replay_that_differs_and_nobody_knows_why(tmp_path: Path) -> None:
    examined = doctor(tmp_path, "--workload", f"{STEPS}:replay_differs")
    assert examined.code == 3
    (finding,) = examined.report.findings
    assert (finding.rule, finding.detected_by) == (RuleId.REPLAY_DIFFERS, DetectionMethod.REPLAY)
    # Captured, the step gives three times the input, whose largest element is 4095/4096.
    assert finding.evidence[-1].value == pytest.approx(4095 / 4096)


def test_a_step_that_is_not_the_same_twice_proves_nothing(tmp_path: Path) -> None:
    report = doctor(tmp_path, "--workload", f"{STEPS}:not_the_same_twice").report
    check = next(one for one in report.checks if one.rule is RuleId.REPLAY_DIFFERS)
    assert check.status is CheckStatus.NOT_CHECKED
    assert check.reason is not None
    assert "not deterministic" in check.reason


def test_all_illegal_calls_are_found_in_their_order(tmp_path: Path) -> None:
    examined = doctor(tmp_path, "--workload", f"{STEPS}:several")
    assert examined.code == 1
    illegal = [one for one in examined.report.findings if one.severity is Severity.ILLEGAL]
    rules = ["unpinned-copy", "sync-value", "sync-call", "sync-shape", "unjoined-stream"]
    assert [one.rule.value for one in illegal] == rules
    assert all(one.detected_by is DetectionMethod.CAPTURE for one in illegal)
    assert [one.ends_capture for one in illegal] == [True, False, False, False, False]
    places = [one.location.line for one in illegal if one.location]
    assert places == [marked("steps.py", rule, "def several(") for rule in rules]
    assert examined.report.attempts == len(rules) + 1
    assert examined.report.nodes


@pytest.mark.parametrize(
    "workload",
    [
        f"{STEPS}:healthy",
        f"{STEPS}:healthy_training",
        *("mlp-train", "transformer-train", "decode", "fork-join"),
    ],
)
def test_a_sound_step(workload: str, tmp_path: Path) -> None:
    examined = doctor(tmp_path, "--workload", workload)
    assert (examined.code, examined.report.findings) == (0, ()), examined.out
    assert examined.report.captured is True
    assert examined.report.nodes
    assert examined.report.outputs
    assert all(check.differing_elements == 0 for check in examined.report.outputs)


def test_the_built_in_workload_that_cannot_be_captured(tmp_path: Path) -> None:
    examined = doctor(tmp_path, "--workload", "sync-in-step")
    assert examined.code == 1
    source = (Path(__file__).parents[2] / "collectors/workloads/sync_in_step.py").read_text()
    line = next(n for n, text in enumerate(source.splitlines(), 1) if ".item())" in text)
    finding = examined.report.findings[0]
    assert finding.location is not None
    assert finding.location.text == f"collectors/workloads/sync_in_step.py:{line}"
    assert finding.rule is RuleId.SYNC_VALUE
    state = found(examined.report, RuleId.CPU_WORK)
    assert state.op == "Python variable len(losses)"


@pytest.mark.parametrize(("name", "rule", "op"), ILLEGAL)
def test_an_illegal_call_of_a_program(name: str, rule: str, op: str | None, tmp_path: Path) -> None:
    examined = doctor(tmp_path, "--", sys.executable, str(HERE / "program.py"), name)
    assert examined.code == 1, examined.err
    (finding,) = [one for one in examined.report.findings if one.severity is Severity.ILLEGAL]
    assert (finding.rule.value, finding.op, finding.ends_capture) == (rule, op, True)
    assert finding.location is not None
    assert finding.location.line == marked("steps.py", rule, f"def {name}(")
    assert examined.report.subject == "program"
    assert "The program ended with exit code" in examined.err


@pytest.mark.parametrize(
    ("program", "rule", "code"),
    [
        ("default_stream.py", "default-stream", 1),
        ("no_warmup.py", "no-warmup", 1),
        ("freed_input.py", "moved-input", 3),
        ("gradient_stream.py", "gradient-stream", 1),
        ("first_random.py", "first-random", 1),
    ],
)
def test_rules_that_only_a_program_can_break(
    program: str, rule: str, code: int, tmp_path: Path
) -> None:
    examined = doctor(tmp_path, "--", sys.executable, str(HERE / program))
    assert examined.code == code, examined.err
    finding = found(examined.report, RuleId(rule))
    assert finding.location is not None
    assert finding.location.line == marked(program, rule)


def test_a_collective_in_a_conditional_body(tmp_path: Path) -> None:
    program = str(HERE / "conditional_collective.py")
    examined = doctor(tmp_path, "--", sys.executable, program)
    assert examined.code == 1, examined.err
    finding = found(examined.report, RuleId.CONDITIONAL_COLLECTIVE)
    values = {fact.name: fact.value for fact in finding.evidence}
    assert values["first collective in a conditional body"] == "ncclDevKernel_AllReduce_Sum_f32"
    assert finding.location is not None
    assert finding.location.file.endswith("conditional_collective.py")


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_a_collective_of_nccl_in_a_conditional_body(tmp_path: Path) -> None:
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
    program = str(HERE / "conditional_ranks.py")
    examined = doctor(tmp_path, "--", sys.executable, *launcher, program)
    assert examined.code == 1, examined.err
    finding = found(examined.report, RuleId.CONDITIONAL_COLLECTIVE)
    assert finding.location is not None
    assert finding.location.file.endswith("conditional_ranks.py")


@pytest.mark.parametrize("name", ["moved_input", "cpu_work", "escaped_work", "empty_capture"])
def test_the_doctor_finds_silent_losses_of_a_program(name: str, tmp_path: Path) -> None:
    rule = name.replace("_", "-")
    examined = doctor(tmp_path, "--", sys.executable, str(HERE / "program.py"), name)
    assert examined.code == 3, examined.err
    finding = found(examined.report, RuleId(rule))
    assert finding.location is not None
    assert finding.location.line == marked("steps.py", rule, f"def {name}(")
    assert "replayed" in examined.err


@pytest.mark.parametrize("how", ["context", "raw"])
def test_a_sound_program(how: str, tmp_path: Path) -> None:
    program = str(HERE / "program.py")
    examined = doctor(tmp_path, "--", sys.executable, program, "healthy_training", how)
    assert (examined.code, examined.report.findings) == (0, ()), examined.out
    assert (examined.report.captured, examined.report.attempts) == (True, 1)
    assert examined.report.replays == 3
    assert "replayed" in examined.err


def test_a_capture_that_is_never_ended(tmp_path: Path) -> None:
    program = str(HERE / "program.py")
    examined = doctor(tmp_path, "--", sys.executable, program, "sync_value", "raw")
    assert examined.code == 1
    assert examined.report.findings[0].rule is RuleId.SYNC_VALUE


def test_a_program_that_captures_nothing_is_watched_step_by_step(tmp_path: Path) -> None:
    examined = doctor(tmp_path, "--", sys.executable, str(HERE / "training.py"))
    assert examined.code == 1, examined.err
    report = examined.report
    assert (report.captured, report.steps, report.attempts) == (None, 3, 0)
    for rule in ("unpinned-copy", "optimizer-capturable", "sync-value"):
        finding = found(report, RuleId(rule))
        assert (finding.detected_by, finding.ends_capture) == (DetectionMethod.EAGER, False)
        assert finding.location is not None
        assert finding.location.line == marked("training.py", rule)
    assert "12 steps" in examined.err
    assert "would fail" in examined.out


def test_a_failed_mode_of_collect_holds_its_cause(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from collectors.collection.cli import collect

    result = CliRunner().invoke(
        collect,
        [
            *("--workload=sync-in-step", "--modes=graph", f"--output={tmp_path / 'out'}"),
            *("--iterations=5", "--processes=1", "--traced-iterations=2"),
        ],
    )
    assert result.exit_code == 1
    contents = read_bundle(tmp_path / "out" / "graph")
    assert contents.doctor is not None
    finding = contents.doctor.findings[0]
    assert finding.location is not None
    assert finding.location.text == contents.manifest.failures[0].location


@pytest.mark.parametrize(
    ("program", "prints"), [("compiled", "compiled"), ("callables", "graphed")]
)
def test_sound_programs_of_other_ways_to_capture(program: str, prints: str, tmp_path: Path) -> None:
    examined = doctor(tmp_path, "--", sys.executable, str(HERE / f"{program}.py"))
    assert (examined.code, examined.report.findings) == (0, ()), examined.out
    assert examined.report.captured is True
    assert examined.report.attempts >= 1
    assert examined.report.replays
    assert prints in examined.err


def test_a_data_loader_runs_as_it_does(tmp_path: Path) -> None:
    examined = doctor(tmp_path, "--", sys.executable, str(HERE / "loader.py"))
    assert "loaded True" in examined.err
    assert examined.report.captured is None
    assert examined.report.steps == 3
    # Its batches come in pinned memory, so the copies are fine; but the memory is new each time.
    assert all(one.severity is Severity.SILENT for one in examined.report.findings), examined.out


def test_inputs_that_move_through_training(tmp_path: Path) -> None:
    examined = doctor(tmp_path, "--workload", "moved-inputs")
    assert examined.code == 3
    rules = {one.rule for one in examined.report.findings}
    assert {RuleId.MOVED_INPUT, RuleId.CPU_WORK} <= rules
    loss = next(check for check in examined.report.outputs if check.kind == "result")
    assert loss.differing_elements == 1


def test_inference_is_watched_from_call_to_call(tmp_path: Path) -> None:
    examined = doctor(tmp_path, "--", sys.executable, str(HERE / "inference.py"))
    assert examined.code == 1, examined.err
    (finding,) = [one for one in examined.report.findings if one.severity is Severity.ILLEGAL]
    assert finding.rule is RuleId.SYNC_VALUE
    assert finding.location is not None
    assert finding.location.line == marked("inference.py", "sync-value")
    assert examined.report.steps == 3
    assert "12 answers" in examined.err
