"""Name the parameters of Inductor's kernels in a trace, from the generated code.

The profiler records the sizes of the arguments. Only their names show that a kernel reads
(``in_ptr0``) or writes them (``out_ptr0``), or both (``in_out_ptr0``).
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

_FILE: Final = b'"kernel_file"'
_TYPES: Final = "Input type"
_VALUES: Final = "Concrete Inputs"
_MAX_FILE_BYTES: Final = 1 << 20


def name_parameters(event: bytes) -> bytes:
    """Add the names to a trace event, as concrete inputs of its tensors.

    Other events, and those whose code is not readable, do not change.
    """
    if _FILE not in event:
        return event
    try:
        content = msgspec.json.decode(event, type=dict[str, Any])
        arguments = msgspec.convert(content["args"], dict[str, Any])
        types, values = (msgspec.convert(arguments[key], list[Any]) for key in (_TYPES, _VALUES))
        names = _read_names(arguments["kernel_file"], arguments["kernel_name"])
    except (KeyError, TypeError, msgspec.DecodeError):
        return event
    if len(names) < len(types) or len(types) != len(values):
        return event
    arguments[_VALUES] = [
        name if value == "" and kind != "" else value
        for name, kind, value in zip(names, types, values, strict=False)
    ]
    return msgspec.json.encode(content | {"args": arguments})


@lru_cache(maxsize=4096)
def _read_names(file: str, kernel: str) -> tuple[str, ...]:
    """Return the names of a kernel's parameters; empty if unknown."""
    try:
        with Path(file).open("rb") as code:
            text = code.read(_MAX_FILE_BYTES).decode(errors="replace")
    except (OSError, ValueError):
        return ()
    match = re.search(rf"^def {re.escape(kernel)}\(([^)]*)\)", text, re.MULTILINE)
    return tuple(entry.split(":")[0].strip() for entry in match[1].split(",")) if match else ()
