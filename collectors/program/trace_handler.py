"""A handler for torch.profiler that writes run bundles: :func:`trace_handler`. Imports no torch."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import graphviz_dash
from graphviz_dash.errors import InputError

if TYPE_CHECKING:
    from torch.profiler import profile

    from collectors.program.session import StrPath

_IMPORT: Final = (sys.executable, "-P", "-m", "graphviz_dash.app.cli.main", "import")


def trace_handler(output: StrPath, name: str = "trace") -> Callable[[profile], None]:
    """Return a handler for ``on_trace_ready`` that writes each trace as a run bundle::

        schedule = torch.profiler.schedule(wait=5, warmup=3, active=10)
        handler = collectors.trace_handler("runs/x")
        with torch.profiler.profile(schedule=schedule, on_trace_ready=handler) as profiler:
            for batch in loader:
                train_step(batch)
                profiler.step()

    Works in scripts and notebooks, with or without a GPU. Later traces of the same program become
    ``NAME-2``, ``NAME-3`` and so on; with several ranks, each name ends in the rank. A failure to
    write is a warning, so that it does not end the program. Open the result with
    ``graphviz-dash serve runs/x``.

    Args:
        output: Folder of the experiment; created if needed.
        name: Name of the run in the experiment.

    Raises:
        InputError: ``name`` is empty or contains a path separator.
    """
    if name in ("", "..") or Path(name).name != name:
        raise InputError("name", repr(name), "a name for a folder")
    folder = Path(output)

    def write(profiler: profile) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        run = _find_free_name(folder, name + _format_rank_suffix())
        # Readers of experiments ignore names that begin with a dot.
        with tempfile.TemporaryDirectory(prefix=".trace-", dir=folder) as scratch:
            trace = Path(scratch) / f"{run}.json"
            try:
                profiler.export_chrome_trace(str(trace))
            except (OSError, RuntimeError) as error:
                _warn(run, str(error))
                return
            _import_trace(trace, folder, run)

    return write


def _import_trace(trace: Path, folder: Path, run: str) -> None:
    """Import ``trace`` in a separate process, which keeps dataframes out of the program."""
    package = str(Path(graphviz_dash.__file__).parents[1])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.run(
        [*_IMPORT, str(trace), "-o", str(folder)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode != 0:
        _warn(run, (process.stderr.strip().splitlines() or ["the import failed"])[-1])


def _warn(run: str, reason: str) -> None:
    warnings.warn(f"graphviz-dash did not write the run {run}: {reason}", stacklevel=2)


def _find_free_name(folder: Path, name: str) -> str:
    """``name``, or the first of ``name-2``, ``name-3``, … that no run in ``folder`` has."""
    number, free = 1, name
    while (folder / free).exists():
        number += 1
        free = f"{name}-{number}"
    return free


def _format_rank_suffix() -> str:
    """``-rank3`` in a process group of several ranks, else nothing."""
    library = sys.modules.get("torch.distributed")
    if library is None or not library.is_available() or not library.is_initialized():
        return ""
    return f"-rank{library.get_rank()}" if library.get_world_size() > 1 else ""
