from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from graphviz_dash.bundle import references
from graphviz_dash.bundle.references import find_reference_launches, find_sample_experiments
from graphviz_dash.ingest.load import find_experiments

ROOT = Path(__file__).parents[1]
SAMPLES = {"all-nodes", "fork-join", "mlp-train", "recorded-resnet", "sync-in-step"}
MOST_BYTES = 8_500_000
"""The documentation site is 1.8 MB of this."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    assert wheel.stat().st_size < MOST_BYTES
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_the_wheel_has_samples_and_settings(installed: Path) -> None:
    package = installed / "graphviz_dash"
    found = {path.name for path in find_experiments(package / "samples")}
    assert found == SAMPLES
    for needed in ("app/.streamlit/config.toml", "app/report/report.css", "py.typed"):
        assert (package / needed).is_file() == (ROOT / "graphviz_dash" / needed).is_file(), needed


def test_every_file_of_the_packages_is_in_the_wheel(installed: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "graphviz_dash", "collectors"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git clone, so there is no list of its files")
    assert [name for name in listed.stdout.split() if not (installed / name).is_file()] == []


def test_an_installed_program_finds_its_samples(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_sample_experiments() == ROOT / "sample_traces"
    monkeypatch.setattr(references, "_is_checkout", lambda: False)
    monkeypatch.setattr(references, "_INSTALLED_SAMPLES", installed / "graphviz_dash" / "samples")
    monkeypatch.setattr(references, "REFERENCE_FOLDER", installed / "graphviz_dash" / "reference")
    assert find_sample_experiments() == installed / "graphviz_dash" / "samples"
    assert list(find_reference_launches()) == ["launch-h200 (shipped)"]
