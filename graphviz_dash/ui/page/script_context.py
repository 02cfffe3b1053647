"""Read the current and the requested page of a run from Streamlit's script context.

Streamlit does not document the context. If a version lacks a name, both pages are None, and late
events of the previous page are not ignored.
"""

from __future__ import annotations

from typing import Any


def get_page_hash() -> str | None:
    """Return the page of this run, as Streamlit names it; None if unknown."""
    return _get_text(_get_context(), "page_script_hash")


def get_requested_page_hash() -> str | None:
    """Return the page that the browser requested; None if unknown or the same as before."""
    return _get_text(getattr(_get_context(), "pages_manager", None), "intended_page_script_hash")


def _get_context() -> Any:
    try:
        from streamlit.runtime.scriptrunner import get_script_run_ctx
    except ImportError:
        return None
    return get_script_run_ctx()


def _get_text(holder: Any, name: str) -> str | None:
    value = getattr(holder, name, None)
    return value if isinstance(value, str) else None
