"""Reader of baselines."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from graphviz_dash.bundle.document import Document
from graphviz_dash.errors import InputError
from graphviz_dash.model.baseline import BASELINE_FORMAT, BASELINE_VERSION, Baseline

_DOCUMENT: Final = Document(
    BASELINE_FORMAT,
    (1, BASELINE_VERSION),
    Baseline,
    256 << 20,
    "Write one with: graphviz-dash gate EXPERIMENT --write-baseline FILE.",
)


def read_baseline(path: Path) -> Baseline:
    """Read the baseline in the file ``path``.

    Raises:
        InputError: File not found, not JSON, another format or version, a field of the wrong type,
            or no recording.
    """
    baseline = _DOCUMENT.read(path)
    if not baseline.recordings:
        raise InputError(path, "no recording", "at least one", _DOCUMENT.advice)
    return baseline
