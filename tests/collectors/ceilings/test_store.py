"""Limits are measured once and kept for the same GPU, driver and torch."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from collectors.ceilings import store
from collectors.ceilings.cli import measure_limits
from graphviz_dash.bundle.ceilings import read_ceilings
from graphviz_dash.errors import GraphvizDashError, InputError
from graphviz_dash.model.run import Environment
from tests.bundle.examples import MANIFEST
from tests.features.efficiency.steps import make_ceilings

CEILINGS = make_ceilings()
ENVIRONMENT = msgspec.structs.replace(
    MANIFEST.environment, gpu=CEILINGS.gpu, driver="580", torch="2.11.0"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("GRAPHVIZ_DASH_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "graphviz-dash" / "ceilings"


def let_measure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the measuring process copy a file instead."""
    made = tmp_path / "made.json"
    made.write_bytes(msgspec.json.encode(CEILINGS))
    code = f"import shutil, sys; shutil.copy({str(made)!r}, sys.argv[1])"
    monkeypatch.setattr(store, "COMMAND", (sys.executable, "-c", code))


def change(**fields: object) -> Environment:
    return msgspec.structs.replace(ENVIRONMENT, **fields)


def test_the_second_recording_does_not_measure(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store.load(ENVIRONMENT) is None
    let_measure(monkeypatch, tmp_path)
    store.keep(store.measure_in_process(), ENVIRONMENT.torch)
    assert store.load(ENVIRONMENT) == CEILINGS
    assert store.load(change(driver=None)) == CEILINGS
    assert [path.parent for path in folder.glob("*.json")] == [folder]


def test_others_are_not_used(folder: Path) -> None:
    store.keep(CEILINGS, "2.11.0")
    assert store.load(change(torch="2.12.0")) is None
    assert store.load(change(driver="590")) is None
    assert store.load(change(gpu=None)) is None
    (file,) = folder.glob("*.json")
    file.write_text("{}")
    assert store.load(ENVIRONMENT) is None


def test_nothing_is_kept_if_the_cache_is_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHVIZ_DASH_CACHE", "off")
    assert store.keep(CEILINGS, "2.11.0") is None
    assert not folder.exists()


def test_a_failed_measurement_says_why() -> None:
    with pytest.raises(GraphvizDashError, match="no GPU"):
        store.measure_in_process()


def test_the_command_writes_a_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_measure(monkeypatch, tmp_path)
    monkeypatch.setattr("collectors.ceilings.cli.require", lambda *_: None)
    target = tmp_path / "limits.json"
    result = CliRunner().invoke(measure_limits, ["-o", str(target)])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("Test GPU: 21 measurements, an empty kernel lasts 1.00 µs\n")
    assert read_ceilings(target) == CEILINGS
    assert store.load(ENVIRONMENT) == CEILINGS


def test_another_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text('{"format": "graphviz-dash-calibration", "version": 2}')
    with pytest.raises(InputError, match="bench limits"):
        read_ceilings(file)
