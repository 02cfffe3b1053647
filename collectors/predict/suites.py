"""A suite: a module with a dictionary ``SUITE`` from the names of workloads to their factories."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Final

from collectors.workloads import Factory
from graphviz_dash.errors import InputError

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}", re.IGNORECASE)


def load_suite(module: str) -> dict[str, Factory]:
    """The workloads of the suite in ``module``; the working folder is looked in first.

    Raises:
        InputError: no such module, no such dictionary in it, or a name that cannot be a folder's.
    """
    where = f"--suite {module}"
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        # Only the module asked for: one that is missing inside it is its own error.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise InputError(where, f"no module {module!r}", "an importable module") from error
    suite = getattr(loaded, "SUITE", None)
    if not isinstance(suite, dict) or not suite or not all(map(callable, suite.values())):
        raise InputError(where, "no suite in it", "a dictionary SUITE from names to factories")
    for name in suite:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InputError(where, f"the name {name!r}", "letters, digits, '_', '-' and '.'")
    return suite
