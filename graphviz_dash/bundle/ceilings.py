"""Reader and writer of measured limits of a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from graphviz_dash.bundle.document import Document, write_atomically
from graphviz_dash.bundle.part_checks import check_ceilings
from graphviz_dash.model.ceilings import CEILINGS_FORMAT, CEILINGS_VERSION, Ceilings

_DOCUMENT: Final = Document(
    CEILINGS_FORMAT,
    (CEILINGS_VERSION,),
    Ceilings,
    16 << 20,
    "Create one on the GPU with: graphviz-dash bench limits -o FILE.",
)


def read_ceilings(path: Path) -> Ceilings:
    """Read the limits in the file ``path``.

    Raises:
        InputError: File not found, not JSON, another format or version, a field of the wrong
            type, or a measurement of 0.
    """
    ceilings = _DOCUMENT.read(path)
    check_ceilings(ceilings, (), path)
    return ceilings


def write_ceilings(path: Path, ceilings: Ceilings) -> None:
    """Write ``ceilings`` atomically to the file ``path``.

    Raises:
        OSError: Writing failed; no partial file remains.
    """
    write_atomically(path, msgspec.json.encode(ceilings))
