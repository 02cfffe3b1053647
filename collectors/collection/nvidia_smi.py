"""Query nvidia-smi. Imports no torch."""

from __future__ import annotations

import subprocess


def read_driver_version() -> str | None:
    """Return the loaded driver's version, or None if nvidia-smi is missing or fails."""
    try:
        result = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    lines = result.stdout.split()
    return lines[0] if lines else None
