"""Built-in workloads and lookup of user workloads.

A workload is a factory: it builds model and inputs on the current CUDA device and returns the
*step*, a callable without arguments that does the same work on the same memory in each call. The
factory takes no argument, or the workload's parameters (see :mod:`collectors.passes.parameters`). A
step may add nodes to the graph under capture (see explicit.py), and lists unsupported features in
``absent``, a tuple of Absent.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Final, TypeAlias

from graphviz_dash.errors import InputError

Step: TypeAlias = Callable[[], object]
Factory: TypeAlias = Callable[..., Step]

BUILT_IN: Final = {
    "mlp-train": "collectors.workloads.mlp:train",
    "transformer-train": "collectors.workloads.transformer:train",
    "gpt-train": "collectors.workloads.gpt:train",
    "decode": "collectors.workloads.decode:decode",
    "experts": "collectors.workloads.experts:infer",
    "fork-join": "collectors.workloads.fork_join:fork_join",
    "all-nodes": "collectors.workloads.all_nodes:all_nodes",
    "tp-transformer": "collectors.workloads.tp_transformer:train",
    "graph-update": "collectors.workloads.graph_update:graph_update",
    "creation-order": "collectors.workloads.creation_order:creation_order",
    "superset": "collectors.workloads.superset:superset",
    "sync-in-step": "collectors.workloads.sync_in_step:train",
    "moved-inputs": "collectors.workloads.moved_inputs:train",
}
"""``module:factory`` by name. ``sync-in-step`` cannot be captured and ``moved-inputs`` replays
wrongly by design."""


def get_factory_path(workload: str) -> str:
    """Return the ``module:factory`` of a built-in workload, or ``workload`` if it has that form.

    Raises:
        InputError: The name is unknown; the message lists the built-in names.
    """
    if workload in BUILT_IN:
        return BUILT_IN[workload]
    module, _, name = workload.partition(":")
    if module and name.isidentifier():
        return workload
    raise InputError(
        f"--workload {workload}",
        "no workload of that name",
        f"one of {', '.join(BUILT_IN)}, or package.module:factory",
    )


def import_users_module(name: str) -> ModuleType:
    """Import a module, preferring the working folder like ``python -m`` unless it is one of ours.

    The folder is then searched last, so that its files replace no module that is imported later.
    """
    if name.startswith("collectors."):
        return importlib.import_module(name)
    folder = str(Path.cwd())
    if folder in sys.path:
        return importlib.import_module(name)
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(folder)
        sys.path.append(folder)


def load_factory(path: str) -> Factory:
    """Import ``module:factory``, preferring the working folder, like ``python -m``.

    Raises:
        InputError: The module or function does not exist.
    """
    module_name, _, name = path.partition(":")
    try:
        module = import_users_module(module_name)
    except ModuleNotFoundError as error:
        # Only the requested module; a missing import inside it is a different error.
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise InputError(
            f"--workload {path}",
            f"no module {module_name!r}",
            "an importable module",
            "Run from the folder that contains it, or install it.",
        ) from error
    factory = getattr(module, name, None)
    if not callable(factory):
        raise InputError(
            f"--workload {path}",
            f"no function {name!r} in {module_name}",
            "a function that returns the step",
        )
    return factory
