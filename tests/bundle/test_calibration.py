from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.bundle.calibration import read_calibration, write_calibration
from graphviz_dash.errors import InputError
from tests.analysis.predictions import CALIBRATION


def test_round_trip(tmp_path: Path) -> None:
    write_calibration(tmp_path / "c.json", CALIBRATION)
    assert read_calibration(tmp_path / "c.json") == CALIBRATION
    assert len((tmp_path / "c.json").read_text().splitlines()) > 5  # for people too


def test_another_file_says_how_to_make_one(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text("{}")
    with pytest.raises(InputError, match="graphviz-dash calibrate FOLDER -o FILE"):
        read_calibration(tmp_path / "c.json")
