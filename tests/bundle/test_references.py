from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.bundle import references
from graphviz_dash.bundle.launch import read_launch


def test_published_figures_name_their_source() -> None:
    published = references.read_published_launch()
    assert "/" in published.address
    assert published.times
    assert all(figure.source for figure in published.times)


def test_recordings_that_ship_are_read() -> None:
    shipped = references.find_reference_launches()
    assert all(name.endswith(" (shipped)") for name in shipped)
    assert all(read_launch(folder).series for folder in shipped.values())


def test_experiments_of_a_checkout_and_of_an_installed_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert references.find_sample_experiments() == Path(__file__).parents[2] / "sample_traces"
    monkeypatch.setattr(references, "_CHECKOUT_SAMPLES", tmp_path / "none")
    monkeypatch.setattr(references, "_INSTALLED_SAMPLES", tmp_path / "samples")
    assert references.find_sample_experiments() is None
    (tmp_path / "samples").mkdir()
    assert references.find_sample_experiments() == tmp_path / "samples"
