from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.fixtures import Invoke
from tests.samples import SAMPLES

COMMANDS = (
    ("compare", "mlp-train"),
    ("compare", "sync-in-step"),
    ("compare", "tp-transformer"),
    ("show", "mlp-train/graph"),
    ("show", "recorded-server/vllm-sizes"),
    ("predict", "recorded-lightning"),
    ("ladder", "recorded-server"),
    ("compile", "compile-fixes/fixed-0"),
    ("doctor", "--bundle", "moved-inputs"),
    ("doctor", "--bundle", "sync-in-step/graph"),
)


EXPERIMENTS = sorted(folder for folder in SAMPLES.iterdir() if folder.is_dir())


@pytest.mark.parametrize("command", COMMANDS)
def test_output_fits_a_terminal_unless_all_is_asked_for(
    command: tuple[str, ...], invoke: Invoke
) -> None:
    *words, path = command
    brief = invoke(*words, str(SAMPLES / path))
    lines = brief.out.splitlines()
    assert len(lines) <= 40
    assert [line for line in lines if len(line) > 80 and "graphviz-dash " not in line] == []
    assert lines[-1] == "--all prints everything."
    complete = invoke(*words, str(SAMPLES / path), "--all")
    assert complete.code == brief.code
    assert "--all prints everything." not in complete.out
    if command[0] != "ladder":
        assert len(complete.out) > len(brief.out)


@pytest.mark.parametrize("folder", EXPERIMENTS, ids=lambda folder: folder.name)
def test_output_of_every_sample_fits_a_terminal(folder: Path, invoke: Invoke) -> None:
    runs = sorted(manifest.parent for manifest in folder.glob("*/manifest.json"))
    commands = [("compare", folder), ("doctor", "--bundle", folder)]
    commands += [(name, run) for name in ("show", "predict", "ladder", "compile") for run in runs]
    for *words, path in commands:
        lines = invoke(*words, str(path)).out.splitlines()
        assert len(lines) <= 40, (words, path)
        wide = [line for line in lines if len(line) > 80 and "graphviz-dash " not in line]
        assert wide == [], (words, path)


def test_a_doctor_takes_an_experiment(invoke: Invoke) -> None:
    whole = invoke("doctor", "--bundle", str(SAMPLES / "sync-in-step"))
    assert whole.code == 1
    assert "a GPU value is" in whole.out
    eager = invoke("doctor", "--bundle", str(SAMPLES / "recorded-lightning"))
    assert "A copy from memory that is not pinned" in eager.out


def test_a_folder_without_runs_is_named_and_no_copy_of_it(invoke: Invoke, tmp_path: Path) -> None:
    folder = SAMPLES / "launch-h200"
    refused = invoke("compare", str(folder))
    assert refused.code != 0
    assert f"{folder}: no run" in refused.err
    assert "/graphviz-dash-compare-" not in refused.err + refused.out
