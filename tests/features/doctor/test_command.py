from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from graphviz_dash.bundle import parts
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.bundle.write import BundleWriter
from graphviz_dash.model.doctor import DoctorReport
from graphviz_dash.model.rules import RULES
from graphviz_dash.model.run import ExecutionMode, WorkloadInfo
from tests.cli.fixtures import FAILURE, Invoke
from tests.doctors import MOVED, OUTPUTS, READ, WAIT, failing_at_once, report
from tests.experiments import make_run, manifest
from tests.samples import SAMPLES


def bundle(folder: Path, given: DoctorReport) -> str:
    target = folder / "doctor"
    with BundleWriter(target) as writer:
        writer.add(parts.DOCTOR, given)
        writer.commit(manifest(ExecutionMode.GRAPH, WorkloadInfo("toy", "tests:toy", 0, 3, 3, 0)))
    return str(target)


def test_a_finding_is_told_with_its_line_rule_and_advice(tmp_path: Path, invoke: Invoke) -> None:
    result = invoke(
        "doctor", "--bundle", bundle(tmp_path, report(MOVED, READ, outputs=OUTPUTS)), "--all"
    )
    assert (result.code, result.err) == (1, "")
    lines = result.out.splitlines()
    assert lines[0].startswith("The capture fails at train.py:18")
    assert (
        "1. illegal: A GPU value is read on the CPU [sync-value], the first illegal call" in lines
    )
    assert "   >    18          losses.append(loss.item())" in lines
    assert "   op aten::_local_scalar_dense, stream 0x55d0 (captured), 3 times per step" in lines
    assert "   error: CUDA error: operation not permitted when stream is capturing" in lines
    assert "   bytes copied: 4.00 KiB" in lines
    assert f"   fix: {RULES[READ.rule].advice}" in lines
    assert result.out.index("1. illegal") < result.out.index("2. silent")
    assert re.search(
        r"^default-stream +not checked +the doctor chose the stream$", result.out, re.M
    )
    assert re.search(r"^sync-value +broken +1 found$", result.out, re.M)
    assert "60 of 64 elements differ, by up to 3.25" in result.out


def test_rules_unchecked_after_a_failed_capture_are_one_row(tmp_path: Path, invoke: Invoke) -> None:
    result = invoke("doctor", "--bundle", bundle(tmp_path, failing_at_once()), "--all")
    rows = result.out[result.out.index("Rules") :].splitlines()[3:]
    assert [re.split(" {2,}", row) for row in rows] == [
        ["sync-value", "broken", "1 found"],
        [f"{len(RULES) - 1} rules", "not checked", "the step failed in its first run"],
    ]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (report(captured=True), 0),
        (report(READ, MOVED), 1),
        (report(WAIT, captured=None), 1),
        (report(MOVED, captured=True), 3),
    ],
)
def test_exit_codes(tmp_path: Path, invoke: Invoke, given: DoctorReport, code: int) -> None:
    path = bundle(tmp_path, given)
    assert invoke("doctor", "--bundle", path).code == code
    assert invoke("doctor", "--bundle", path, "--json").code == code


def test_json_has_the_report(tmp_path: Path, invoke: Invoke) -> None:
    path = bundle(tmp_path, report(READ, MOVED, outputs=OUTPUTS))
    document = json.loads(invoke("doctor", "--bundle", path, "--json").out)
    assert (document["schema"], document["version"]) == ("graphviz-dash/doctor", 2)
    (process,) = document["processes"]
    held = read_bundle(Path(path)).doctor
    assert held is not None
    for given, told in zip(held.findings, process["findings"], strict=True):
        assert told["advice"] == RULES[given.rule].advice
        assert (told["rule"], told["severity"]) == (given.rule, given.severity)
        assert (told["observed_in"], told["first_illegal_call"]) == (
            given.detected_by,
            given.ends_capture,
        )
        assert (told["op"], told["stream"], told["thread"]) == (
            given.op,
            given.stream,
            given.thread,
        )
        assert (told["message"], told["calls"]) == (given.message, given.calls_per_step)
        place = given.location
        assert told["location"] == (
            None
            if place is None
            else {
                "file": place.file,
                "line": place.line,
                "function": place.function,
                "first_line": place.first_line,
                "lines": list(place.lines),
            }
        )
        assert told["evidence"] == [
            {"name": fact.name, "value": fact.value, "unit": fact.unit} for fact in given.evidence
        ]
    assert len(process["rules"]) == len(RULES)


def test_a_bundle_without_a_report_is_refused(tmp_path: Path, invoke: Invoke) -> None:
    path = make_run(tmp_path / "toy", "graph")
    result = invoke("doctor", "--bundle", str(path), "--all")
    assert (result.code, result.out) == (2, "")
    assert "no doctor report" in result.err
    assert "graphviz-dash doctor --workload NAME" in result.err


def test_compiled_runs_without_a_cause_have_a_name_and_a_sentence(invoke: Invoke) -> None:
    text = " ".join(invoke("doctor", "--bundle", str(SAMPLES / "mlp-train")).out.split())
    assert text.startswith("compile-default 1 compilation, 0 graph launches per step.")
    assert " compile 1 compilation, 2 graph launches per step. No recorded cause" in text


def test_an_imported_run_tells_what_its_trace_shows(tmp_path: Path, invoke: Invoke) -> None:
    sample = SAMPLES / "sync-in-step" / "eager" / "traces" / "replay.json.gz"
    assert invoke("import", str(sample), "-o", str(tmp_path / "imported")).code == 0
    (run,) = (path.parent for path in tmp_path.rglob("manifest.json"))
    foretold = json.loads(invoke("predict", "--json", str(run)).out)["blockers"]
    assert any(blocker["certain"] for blocker in foretold)
    result = invoke("doctor", "--bundle", str(run), "--all")
    assert result.code == 1
    assert "A GPU value is read on the CPU [sync-value]" in result.out
    document = json.loads(invoke("doctor", "--bundle", str(run), "--json").out)
    assert (document["processes"], document["traced"][0]["blockers"]) == ([], foretold)


@pytest.mark.parametrize(
    "arguments", [(), ("--workload", "x", "--bundle", "y"), ("--workload", "x", "python", "t.py")]
)
def test_exactly_one_subject_is_asked_for(arguments: tuple[str, ...], invoke: Invoke) -> None:
    result = invoke("doctor", *arguments)
    assert result.code == 2
    assert "one of --workload, --bundle, or a program" in result.err


def test_without_torch_it_says_what_is_missing() -> None:
    code = (
        "import sys, importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'torch' else find(name, *rest)\n"
        "from graphviz_dash.app.cli.main import main\n"
        "sys.exit(main(['doctor', '--workload', 'mlp-train']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: The doctor needs torch")
    assert "--bundle" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_control_characters_of_a_report_reach_no_terminal(tmp_path: Path, invoke: Invoke) -> None:
    evil = msgspec.structs.replace(
        READ, message="\x1b[31mred", op="\x1b]0;title", thread="\x07", stream="\x1b[2J"
    )
    result = invoke("doctor", "--bundle", bundle(tmp_path, report(evil)), "--all")
    assert "\x1b" not in result.out
    assert "\\x1b[31mred" in result.out


def test_show_leads_from_a_failure_to_its_doctor(tmp_path: Path, invoke: Invoke) -> None:
    target = tmp_path / "graph"
    with BundleWriter(target) as writer:
        writer.add(parts.DOCTOR, report(READ))
        info = WorkloadInfo("toy", "tests:toy", 0, 3, 3, 0)
        writer.commit(manifest(ExecutionMode.GRAPH, info, failure=FAILURE))
    assert (
        f"To diagnose: graphviz-dash doctor --bundle {target}"
        in invoke("show", str(target), "--all").out
    )
