"""Reader and writer of calibrations."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from graphviz_dash.bundle.document import Document, write_atomically
from graphviz_dash.model.calibration import (
    CALIBRATION_FORMAT,
    CALIBRATION_VERSION,
    Calibration,
)

_DOCUMENT: Final = Document(
    CALIBRATION_FORMAT,
    (2, CALIBRATION_VERSION),
    Calibration,
    64 << 20,
    "Create one with: graphviz-dash bench predict -o FOLDER, then graphviz-dash calibrate FOLDER "
    "-o FILE.",
)


def read_calibration(path: Path) -> Calibration:
    """Read the calibration in the file ``path``.

    Raises:
        InputError: File not found, not JSON, another format or version, or a field of the wrong
            type.
    """
    return _DOCUMENT.read(path)


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Write ``calibration`` atomically to the file ``path``.

    Raises:
        OSError: Writing failed; no partial file remains.
    """
    write_atomically(path, msgspec.json.format(msgspec.json.encode(calibration), indent=1))
