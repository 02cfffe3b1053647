"""What must be installed before anything is collected."""

from __future__ import annotations

import importlib.util

from graphviz_dash.errors import MissingRequirementError

_INSTALL = "pip install 'graphviz-dash[collect]'"


def require(*modules: str) -> None:
    """Raises MissingRequirementError, with the way to install them, unless all are installed."""
    missing = [module for module in modules if not is_installed(module)]
    if missing:
        raise MissingRequirementError(
            f"Collecting needs {' and '.join(missing)}, not installed here: {_INSTALL}"
        )


def is_installed(module: str) -> bool:
    """Whether ``module`` could be imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
