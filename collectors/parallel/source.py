"""Find the user line that called an operator."""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path
from types import FrameType

import torch

from collectors.collection.paths import shorten_path

_TORCH = str(Path(torch.__file__).parent)
_OURS = str(Path(__file__).parent.parent)
_WORKLOADS = str(Path(__file__).parent.parent / "workloads")


def find_calling_line() -> str | None:
    """Return ``file:line`` of the innermost user frame, or None, as in autograd's threads."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else f"{shorten_path(frame.f_code.co_filename)}:{frame.f_lineno}"


@lru_cache(maxsize=4096)
def _is_user_file(file: str) -> bool:
    is_project_file = file.startswith(_OURS) and not file.startswith(_WORKLOADS)
    return not is_project_file and not file.startswith((_TORCH, "<"))
