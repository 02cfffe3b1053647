"""The calibration that comes with the tool: a constant of the package, kept as JSON."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Final

import msgspec

from graphviz_dash.model.calibration import Calibration

_FILE: Final = "calibration-h200.json"


@cache
def shipped_calibration() -> Calibration:
    """Recorded on an NVIDIA H200 with ``graphviz-dash bench predict``;
    docs/explanation/prediction.md tells
    how."""
    content = (resources.files("graphviz_dash.analysis.prediction") / _FILE).read_bytes()
    return msgspec.json.decode(content, type=Calibration)
