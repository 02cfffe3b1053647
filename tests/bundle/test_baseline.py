from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from graphviz_dash.bundle.baseline import read_baseline
from graphviz_dash.errors import InputError
from graphviz_dash.model.baseline import BASELINE_FORMAT, BASELINE_VERSION


def test_one_without_a_recording_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    empty = {
        "format": BASELINE_FORMAT,
        "version": BASELINE_VERSION,
        "tool_version": "1",
        "recordings": [],
    }
    file.write_bytes(msgspec.json.encode(empty))
    with pytest.raises(InputError, match=r"no recording.*--write-baseline"):
        read_baseline(file)
