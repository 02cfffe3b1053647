"""What nvidia-smi says of the machine; imports no torch."""

from __future__ import annotations

import subprocess


def driver_version() -> str | None:
    """The version of the loaded driver; None where there is no nvidia-smi, or it fails."""
    try:
        answer = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    lines = answer.stdout.split()
    return lines[0] if lines else None
