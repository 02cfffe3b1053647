"""Check the packages required for collecting."""

from __future__ import annotations

import importlib.util

from graphviz_dash.errors import MissingRequirementError

_INSTALL = "pip install 'graphviz-dash[collect]'"


def require(*modules: str) -> None:
    """Raise MissingRequirementError with install instructions unless all modules are installed."""
    missing = [module for module in modules if not is_installed(module)]
    if missing:
        raise MissingRequirementError(
            f"Collecting needs {' and '.join(missing)}, not installed here: {_INSTALL}"
        )


def is_installed(module: str) -> bool:
    """Check if ``module`` can be imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
