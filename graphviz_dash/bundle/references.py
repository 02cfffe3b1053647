"""What ships with the program: published figures and a recording to set measurements beside, and
experiments to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from graphviz_dash.bundle.launch import find_launches
from graphviz_dash.model.launch import PublishedLaunch

FOLDER: Final = Path(__file__).parents[1] / "reference"

_CHECKOUT_SAMPLES: Final = Path(__file__).parents[2] / "sample_traces"
"""Where recording and experiments lie in a checkout."""

_INSTALLED_SAMPLES: Final = Path(__file__).parents[1] / "samples"
"""Where an installed program has its experiments; the recording lies in FOLDER."""


def published_launch() -> PublishedLaunch:
    """The figures of NVIDIA's post on launches in constant time, as far as they are known."""
    content = (FOLDER / "launch-published.json").read_bytes()
    return msgspec.json.decode(content, type=PublishedLaunch)


def reference_launches() -> dict[str, Path]:
    """The shipped recordings of launch costs: the name of each and its folder."""
    folders = (FOLDER, _CHECKOUT_SAMPLES) if _is_checkout() else (FOLDER,)
    launches = [path for folder in folders for path in find_launches(folder, depth=1)]
    return {f"{path.name} (shipped)": path for path in launches}


def sample_experiments() -> Path | None:
    """The folder of the experiments that ship: all of a checkout, some of an installed program;
    None where they were left out."""
    folder = _CHECKOUT_SAMPLES if _is_checkout() else _INSTALLED_SAMPLES
    return folder if folder.is_dir() else None


def _is_checkout() -> bool:
    return (_CHECKOUT_SAMPLES.parent / "pyproject.toml").is_file()
