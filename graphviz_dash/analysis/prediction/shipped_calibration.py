"""The calibration shipped with the package as JSON."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Final

import msgspec

from graphviz_dash.model.calibration import Calibration

_FILE: Final = "calibration-h200.json"


@cache
def load_shipped_calibration() -> Calibration:
    """Load the calibration of an NVIDIA H200 from ``graphviz-dash bench predict``
    (docs/explanation/prediction.md).
    """
    content = (resources.files("graphviz_dash.analysis.prediction") / _FILE).read_bytes()
    return msgspec.json.decode(content, type=Calibration)
