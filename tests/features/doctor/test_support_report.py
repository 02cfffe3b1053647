from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from graphviz_dash import __version__
from graphviz_dash.features.doctor import support_report
from tests.cli.fixtures import FAILURE, Invoke
from tests.experiments import make_run
from tests.samples_once import SAMPLES


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    make_run(tmp_path / "secret-model", "eager", workload="secret-model")
    make_run(tmp_path / "secret-model", "graph", workload="secret-model", failure=FAILURE)
    return tmp_path / "secret-model"


def test_the_report_names_versions_and_each_run(experiment: Path, invoke: Invoke) -> None:
    result = invoke("doctor", "--report", "--bundle", str(experiment))
    assert result.code == 0
    assert f"- graphviz-dash: {__version__}" in result.out
    assert "- streamlit: " in result.out
    assert "### Run eager" in result.out
    assert "- Workload: secret-model" in result.out
    assert "AcceleratorError: CUDA error" in result.out


def test_a_redacted_report_has_no_names_and_no_messages(experiment: Path, invoke: Invoke) -> None:
    out = invoke("doctor", "--report", "--redact", "--bundle", str(experiment)).out
    assert "### Run 2" in out
    for name in ("secret", "CUDA error", "model.py", str(experiment)):
        assert name not in out
    assert "AcceleratorError: (redacted)" in out


def test_traced_steps_are_reported_only_if_they_are_known(experiment: Path, invoke: Invoke) -> None:
    assert " timed, 3 traced" in invoke("doctor", "--report", "--bundle", str(experiment)).out
    decoder = str(SAMPLES / "recorded-decoder")
    lines = invoke("doctor", "--report", "--bundle", decoder).out.splitlines()
    assert [line for line in lines if "Iterations" in line] == ["- Iterations: 20 timed"] * 2


def test_the_machine_alone_needs_no_recording(invoke: Invoke) -> None:
    out = invoke("doctor", "--report").out
    assert "### GPU" in out
    assert "### Run" not in out


def test_every_gpu_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "NVIDIA H200, 580.1, 143771 MiB, 9.0\nNVIDIA H200, 580.1, 143771 MiB, 9.0\n"

    def answer(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 0, lines, "")

    monkeypatch.setattr(subprocess, "run", answer)
    report = support_report.format_support_report(None, redact=False)
    assert "- GPU 1: NVIDIA H200, 580.1, 143771 MiB, 9.0" in report


@pytest.mark.parametrize("error", [FileNotFoundError(), subprocess.TimeoutExpired("x", 1)])
def test_a_machine_without_a_gpu_says_so(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(subprocess, "run", fail)
    assert "- GPU: none (nvidia-smi " in support_report.format_support_report(None, redact=True)


@pytest.mark.parametrize(
    "arguments",
    [("--redact",), ("--report", "--workload", "mlp-train"), ("--report", "--", "train.py")],
)
def test_options_that_do_not_go_together_are_refused(
    arguments: tuple[str, ...], invoke: Invoke
) -> None:
    assert invoke("doctor", *arguments).code == 2


def test_a_folder_without_runs_is_refused(tmp_path: Path, invoke: Invoke) -> None:
    result = invoke("doctor", "--report", "--bundle", str(tmp_path))
    assert (result.code, "no run bundle" in result.err) == (2, True)
