"""Load a suite: a module with a dictionary ``SUITE`` of workload factories by name."""

from __future__ import annotations

import re
from typing import Final

from collectors.workloads import Factory, import_users_module
from graphviz_dash.errors import InputError

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}", re.IGNORECASE)


def load_suite(module: str) -> dict[str, Factory]:
    """Load the suite in ``module``, preferring the working folder.

    Raises:
        InputError: The module or its dictionary is missing, or a name is not valid as a folder.
    """
    option = f"--suite {module}"
    try:
        suite_module = import_users_module(module)
    except ModuleNotFoundError as error:
        # Only the requested module; a missing import inside it is a different error.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise InputError(option, f"no module {module!r}", "an importable module") from error
    suite = getattr(suite_module, "SUITE", None)
    if not isinstance(suite, dict) or not suite or not all(map(callable, suite.values())):
        raise InputError(
            option, "the module defines no suite", "a dictionary SUITE from names to factories"
        )
    for name in suite:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InputError(option, f"the name {name!r}", "letters, digits, '_', '-' and '.'")
    return suite
