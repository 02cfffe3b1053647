"""Paths of source files as bundles hold them: without the folders of the machine."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

GENERATED = re.compile(r"/c[a-z0-9]{51}\.py$")
"""The path of a file that torch.compile wrote."""


@lru_cache(maxsize=4096)
def short_path(file: str) -> str:
    """``file`` relative to the working folder or to the longest entry of sys.path that holds it.

    So a bundle does not carry the folders of the machine it was made on.
    """
    path = Path(file)
    roots = [Path(entry) for entry in sys.path if entry]
    # A program may have removed the folder that it works in.
    with suppress(FileNotFoundError):
        roots.append(Path.cwd())
    inside = [root for root in roots if path.is_relative_to(root)]
    if not inside:
        return path.name
    return path.relative_to(max(inside, key=lambda root: len(root.parts))).as_posix()
