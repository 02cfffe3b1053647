"""Data shipped with the program: published figures, a recording and sample experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from graphviz_dash.bundle.launch import find_launches
from graphviz_dash.model.launch import PublishedLaunch

REFERENCE_FOLDER: Final = Path(__file__).parents[1] / "reference"

_CHECKOUT_SAMPLES: Final = Path(__file__).parents[2] / "sample_traces"
"""Folder of the recording and the experiments in a checkout."""

_INSTALLED_SAMPLES: Final = Path(__file__).parents[1] / "samples"
"""Folder of the experiments in an installed program. FOLDER contains the recording."""


def read_published_launch() -> PublishedLaunch:
    """Read the figures of NVIDIA's post on constant-time launches."""
    content = (REFERENCE_FOLDER / "launch-published.json").read_bytes()
    return msgspec.json.decode(content, type=PublishedLaunch)


def find_reference_launches() -> dict[str, Path]:
    """Return the shipped recordings of launch costs: folder by name."""
    folders = (REFERENCE_FOLDER, _CHECKOUT_SAMPLES) if _is_checkout() else (REFERENCE_FOLDER,)
    launches = [path for folder in folders for path in find_launches(folder, depth=1)]
    return {f"{path.name} (shipped)": path for path in launches}


def find_sample_experiments() -> Path | None:
    """Return the folder of the sample experiments: all in a checkout, some in an installed program.
    None if not installed."""
    folder = _CHECKOUT_SAMPLES if _is_checkout() else _INSTALLED_SAMPLES
    return folder if folder.is_dir() else None


def _is_checkout() -> bool:
    return (_CHECKOUT_SAMPLES.parent / "pyproject.toml").is_file()
