"""Shorten source paths for bundles, without local folders."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

GENERATED = re.compile(r"/c[a-z0-9]{51}\.py$")


@lru_cache(maxsize=4096)
def shorten_path(file: str) -> str:
    """Return ``file`` relative to the working folder or to the longest matching sys.path entry."""
    path = Path(file)
    roots = [Path(entry) for entry in sys.path if entry]
    # A program may have deleted its working folder.
    with suppress(FileNotFoundError):
        roots.append(Path.cwd())
    inside = [root for root in roots if path.is_relative_to(root)]
    if not inside:
        return path.name
    return path.relative_to(max(inside, key=lambda root: len(root.parts))).as_posix()
