"""Measure the limits of a GPU once per version of driver and torch."""

from __future__ import annotations

import os
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from collectors.process.lifeline import PARENT
from collectors.process.python import PYTHON, SAFE_PATH
from collectors.process.subprocesses import WorkerLimit, describe_exit, find_last_line, run_worker
from graphviz_dash.bundle.ceilings import read_ceilings, write_ceilings
from graphviz_dash.errors import GraphvizDashError, escape_control_characters
from graphviz_dash.model.ceilings import Ceilings
from graphviz_dash.model.run import Environment

COMMAND: Final = (*PYTHON, "-m", "collectors.ceilings.measure")
_TIMEOUT_S: Final = 120
_CACHE_VARIABLE: Final = "GRAPHVIZ_DASH_CACHE"
"""Environment variable that is ``off`` if nothing may be kept."""


def load(environment: Environment) -> Ceilings | None:
    """Return the kept limits of the described GPU, or None."""
    folder = _get_folder()
    if folder is None or environment.gpu is None:
        return None
    gpu = environment.gpu
    key = (gpu.name, gpu.multiprocessors, gpu.memory_bytes, environment.torch)
    file = folder / _build_name(*key)
    if not file.exists():
        return None
    try:
        ceilings = read_ceilings(file)
    except GraphvizDashError:
        return None
    drivers = {ceilings.driver, environment.driver} - {None}
    return ceilings if len(drivers) < 2 else None


def keep(ceilings: Ceilings, torch: str | None) -> Path | None:
    """Keep ``ceilings`` for later recordings with a version of torch.

    Returns the file; None if the folder is read-only.
    """
    folder = _get_folder()
    if folder is None:
        return None
    gpu = ceilings.gpu
    name = _build_name(gpu.name, gpu.multiprocessors, gpu.memory_bytes, torch)
    file = folder / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_ceilings(file, ceilings)
    except OSError:
        return None
    return file


def measure_in_process() -> Ceilings:
    """Measure in a separate process, so that this one holds no CUDA context.

    Raises:
        GraphvizDashError: Measuring failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ceilings.json"
        environment = os.environ | SAFE_PATH | {PARENT: str(os.getpid())}
        limit = WorkerLimit(_TIMEOUT_S)
        process = run_worker([*COMMAND, str(file)], environment, limit)
        if process.returncode == 0 and file.exists():
            return msgspec.json.decode(file.read_bytes(), type=Ceilings)
        cause = limit.reason or find_last_line(process.stderr) or describe_exit(process.returncode)
        raise GraphvizDashError(escape_control_characters(cause))


def _get_folder() -> Path | None:
    if os.environ.get(_CACHE_VARIABLE, "").lower() == "off":
        return None
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        folder = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    except RuntimeError:  # no home folder
        return None
    return folder / "graphviz-dash" / "ceilings"


def _build_name(*parts: object) -> str:
    return sha256(repr(parts).encode()).hexdigest()[:16] + ".json"
