"""Reading and writing a calibration of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from graphviz_dash.bundle.document import Document, write_beside
from graphviz_dash.model.calibration import (
    CALIBRATION_FORMAT,
    CALIBRATION_VERSION,
    Calibration,
)

_DOCUMENT: Final = Document(
    CALIBRATION_FORMAT,
    (CALIBRATION_VERSION,),
    Calibration,
    64 << 20,
    "Make one with: graphviz-dash bench predict -o FOLDER, then graphviz-dash calibrate FOLDER "
    "-o FILE.",
)


def read_calibration(path: Path) -> Calibration:
    """The calibration in the file ``path``.

    Raises:
        InputError: no file, not JSON, another format or version, or a field of the wrong type.
    """
    return _DOCUMENT.read(path)


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Writes ``calibration`` to the file ``path``; never half a file.

    Raises:
        OSError: it could not be written; nothing of it stays behind.
    """
    write_beside(path, msgspec.json.format(msgspec.json.encode(calibration), indent=1))
