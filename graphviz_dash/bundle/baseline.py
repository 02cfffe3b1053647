"""Reading a baseline: everything is checked before any of it is believed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from graphviz_dash.errors import InputError
from graphviz_dash.model.baseline import BASELINE_FORMAT, BASELINE_VERSION, Baseline

_MAX_BYTES: Final = 256 << 20
_WRITE_ONE: Final = "Write one with: graphviz-dash gate EXPERIMENT --write-baseline FILE."


class _Envelope(msgspec.Struct):
    """The two fields by which a file is known before the rest is looked at."""

    format: str
    version: int


def read_baseline(path: Path) -> Baseline:
    """The baseline in the file ``path``.

    Raises:
        InputError: no file, not JSON, another format or version, or a field of the wrong type.
    """
    expected = f"a file of format {BASELINE_FORMAT}"
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(path, f"more than {_MAX_BYTES:,} bytes", expected)
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(path, reason.lower(), expected, _WRITE_ONE) from error
    try:
        envelope = msgspec.json.decode(content, type=_Envelope)
        if envelope.format != BASELINE_FORMAT:
            raise InputError(path, f"format {envelope.format[:80]!r}", expected, _WRITE_ONE)
        if envelope.version != BASELINE_VERSION:
            raise InputError(
                path,
                f"baseline version {envelope.version}",
                f"version {BASELINE_VERSION}, which this graphviz-dash reads",
                "Install a newer graphviz-dash to read it."
                if envelope.version > BASELINE_VERSION
                else "",
            )
        baseline = msgspec.json.decode(content, type=Baseline)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(path, str(error), expected, _WRITE_ONE) from error
    if not baseline.recordings:
        raise InputError(path, "no recording in it", "at least one", _WRITE_ONE)
    return baseline
