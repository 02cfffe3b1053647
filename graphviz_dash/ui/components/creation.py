"""Create the components of pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import streamlit as st
from msgspec import Struct


@cache
def create_component(script: Path, html: str) -> Any:
    """Create the component of ``script``, whose style is next to it, once per process."""
    return st.components.v2.component(
        f"graphviz_dash_{script.stem}",
        html=html,
        css=script.with_suffix(".css").read_text(encoding="utf-8"),
        js=join_modules(script),
    )


def ignore_change() -> None:
    """Do nothing on a change: the run of the page reads it."""


__all__ = ["join_modules"]

_IMPORT: Final = re.compile(r'^import (\{[\w\s,]*\}) from "(\.\.?/[\w./-]+\.js)";$', re.MULTILINE)
_EXPORT: Final = re.compile(
    r"^export (?=(?:(?:async )?function\*?|class|const) (\w+))", re.MULTILINE
)
_COMMENT: Final = re.compile(r"^ *(?:/\*\*(?:(?!\*/).)*\*/|//.*?)\n", re.MULTILINE | re.DOTALL)
_UNSUPPORTED: Final = re.compile(r"^(?:import\b|export (?!default)).*", re.MULTILINE)


def join_modules(entry: Path) -> str:
    """Join ``entry`` and its imports into one module with the default export of the entry.

    Raises:
        ValueError: an import cycle, or an unsupported form of import or export.
    """
    modules: dict[Path, str] = {}
    _collect_modules(entry.resolve(), modules, ())
    *imported, main = modules.items()
    names = {path: f"module{number}" for number, path in enumerate(modules)}
    parts = [
        f"const {names[path]} = (() => {{\n{_convert_module(path, text, names)}"
        f"return {{ {', '.join(_EXPORT.findall(text))} }};\n}})();\n"
        for path, text in imported
    ]
    return "".join([*parts, _convert_module(*main, names)])


def _collect_modules(path: Path, modules: dict[Path, str], importers: tuple[Path, ...]) -> None:
    if path in importers:
        raise ValueError(f"{path.name}: import cycle through {importers[-1].name}")
    if path in modules:
        return
    text = path.read_text(encoding="utf-8")
    for _, target in _IMPORT.findall(text):
        _collect_modules((path.parent / target).resolve(), modules, (*importers, path))
    modules[path] = text


def _convert_module(path: Path, text: str, names: dict[Path, str]) -> str:
    """Return a module with imports as constants, without ``export`` and comments."""

    def constant(statement: re.Match[str]) -> str:
        return f"const {statement[1]} = {names[(path.parent / statement[2]).resolve()]};"

    body = _COMMENT.sub("", _EXPORT.sub("", _IMPORT.sub(constant, text)))
    unsupported = _UNSUPPORTED.search(body)
    if unsupported:
        raise ValueError(f"{path.name}: unsupported form: {unsupported.group()!r}")
    return body


T = TypeVar("T")


class _SelectionState(Struct, Generic[T]):
    """The last state of a session: click, selection of the page, and result."""

    click: object
    page_selection: T | None
    selection: T | None


def resolve_selection(
    slot: str, click: Any, page_selection: T | None, decode: Callable[[dict[str, Any]], T | None]
) -> T | None:
    """Return the newer selection: the decoded ``click``, or that of the page.

    Every run gets both again, so the one that changed since the last run counts. ``slot`` names the
    session state that remembers both.
    """
    if not isinstance(click, dict):
        st.session_state.pop(slot, None)
        return page_selection
    memory: _SelectionState[T] | None = st.session_state.get(slot)
    if memory is None or click != memory.click:
        memory = _SelectionState(click, page_selection, decode(click))
    elif page_selection != memory.page_selection:
        # None counts too: going back in the browser's history clears the selection.
        memory = _SelectionState(click, page_selection, page_selection)
    st.session_state[slot] = memory
    return memory.selection
