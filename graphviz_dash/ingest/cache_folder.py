"""Folder of the user's caches."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

CACHE_VARIABLE: Final = "GRAPHVIZ_DASH_CACHE"
"""Environment variable: folder of the caches, or ``off``."""


def find_cache_folder() -> Path | None:
    """Return the folder from :data:`CACHE_VARIABLE` or XDG. None if disabled or without a home."""
    setting = os.environ.get(CACHE_VARIABLE, "")
    if setting.lower() == "off":
        return None
    if setting:
        return Path(setting).expanduser()
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        base_folder = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    except RuntimeError:  # no home folder
        return None
    return base_folder / "graphviz-dash" / "traces"
