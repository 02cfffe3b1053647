"""List the files that a process loads the code of kernels from."""

from __future__ import annotations

import getpass
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from graphviz_dash.model.graph import CapturedGraph, EdgeType, KernelParams

_MAPS: Final = Path("/proc/self/maps")
_FIRST_FIELDS: Final = 5
"""Fields before the path."""


class CodeFiles(Struct, frozen=True):
    """Files with code of kernels."""

    libraries: tuple[str, ...]
    """Files that the process has mapped."""
    folders: tuple[str, ...]
    """Caches of compilers, which contain ``NAME.cubin``."""


def list_code_files() -> CodeFiles:
    """List the files of this process."""
    try:
        lines = _MAPS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    fields = (line.split(maxsplit=_FIRST_FIELDS) for line in lines)
    paths = dict.fromkeys(entry[-1] for entry in fields if len(entry) > _FIRST_FIELDS)
    folders = dict.fromkeys(map(str, _list_caches()))
    return CodeFiles(tuple(path for path in paths if path.startswith("/")), tuple(folders))


def _list_caches() -> Iterator[Path]:
    """List the caches of Triton and Inductor."""
    triton, inductor = map(os.environ.get, ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"))
    if triton:
        yield Path(triton)
    with suppress(RuntimeError):  # no home folder
        yield Path.home() / ".triton" / "cache"
    if inductor:
        yield Path(inductor) / "triton"
    with suppress(OSError, KeyError):  # no user
        yield Path(tempfile.gettempdir()) / f"torchinductor_{getpass.getuser()}" / "triton"


def find_unread_kernels(graphs: Iterable[CapturedGraph]) -> set[str]:
    """Return the mangled names of kernels with programmatic edges whose code was not read."""
    return {
        params.name
        for graph in graphs
        for edge in graph.edges
        if edge.type is EdgeType.PROGRAMMATIC
        for index in (edge.source, edge.target)
        if isinstance(params := graph.nodes[index].params, KernelParams)
        and params.dependency_wait is None
    }
