"""Read the variables of a running function."""

from __future__ import annotations

import sys
from inspect import CO_OPTIMIZED
from types import FrameType
from typing import Any


def read_variables(frame: FrameType) -> dict[str, Any]:
    """Copy the variables of ``frame``."""
    variables = frame.f_locals
    copy = dict(variables)
    # Before Python 3.13, the frame of a function keeps this dictionary, and with it objects that
    # the function deletes later.
    if sys.version_info < (3, 13) and frame.f_code.co_flags & CO_OPTIMIZED:
        variables.clear()
    return copy
