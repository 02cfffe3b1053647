"""Reading and writing a calibration of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from graphviz_dash.errors import InputError
from graphviz_dash.model.calibration import (
    CALIBRATION_FORMAT,
    CALIBRATION_VERSION,
    Calibration,
)

_MAX_BYTES: Final = 64 << 20
_MAKE_ONE: Final = (
    "Make one with: graphviz-dash bench predict -o FOLDER, then graphviz-dash calibrate FOLDER "
    "-o FILE."
)


class _Envelope(msgspec.Struct):
    format: str
    version: int


def read_calibration(path: Path) -> Calibration:
    """The calibration in the file ``path``.

    Raises:
        InputError: no file, not JSON, another format or version, or a field of the wrong type.
    """
    expected = f"a file of format {CALIBRATION_FORMAT}"
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(path, f"more than {_MAX_BYTES:,} bytes", expected)
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(path, reason.lower(), expected, _MAKE_ONE) from error
    try:
        envelope = msgspec.json.decode(content, type=_Envelope)
        if envelope.format != CALIBRATION_FORMAT:
            raise InputError(path, f"format {envelope.format[:80]!r}", expected, _MAKE_ONE)
        if envelope.version != CALIBRATION_VERSION:
            raise InputError(
                path,
                f"calibration version {envelope.version}",
                f"version {CALIBRATION_VERSION}, which this graphviz-dash reads",
                _MAKE_ONE,
            )
        return msgspec.json.decode(content, type=Calibration)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(path, str(error), expected, _MAKE_ONE) from error


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Writes ``calibration`` to the file ``path``; never half a file.

    Raises:
        OSError: it could not be written; nothing of it stays behind.
    """
    beside = path.with_name(f".{path.name}")
    try:
        beside.write_bytes(msgspec.json.format(msgspec.json.encode(calibration), indent=1))
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
