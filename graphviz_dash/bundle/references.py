"""What ships with the program to set measurements beside: published figures, and a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from graphviz_dash.bundle.launch import find_launches
from graphviz_dash.model.launch import PublishedLaunch

FOLDER: Final = Path(__file__).parents[1] / "reference"

_SAMPLES: Final = Path(__file__).parents[2] / "sample_traces"
"""Where the recording lies in a checkout; an installed program has it in FOLDER."""


def published_launch() -> PublishedLaunch:
    """The figures of NVIDIA's post on launches in constant time, as far as they are known."""
    content = (FOLDER / "launch-published.json").read_bytes()
    return msgspec.json.decode(content, type=PublishedLaunch)


def reference_launches() -> dict[str, Path]:
    """The shipped recordings of launch costs: the name of each and its folder."""
    in_checkout = (_SAMPLES.parent / "pyproject.toml").is_file()
    folders = (FOLDER, _SAMPLES) if in_checkout else (FOLDER,)
    launches = [path for folder in folders for path in find_launches(folder, depth=1)]
    return {f"{path.name} (shipped)": path for path in launches}
