"""Join the ES modules of a component into one script, because Streamlit accepts only one.

Each module becomes a function that returns its exports, called once after its imports. Supported
forms are ``import { name } from "./module.js";``, ``export`` before a function, class or const, and
``export default`` in the entry.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

__all__ = ["join_modules"]

_IMPORT: Final = re.compile(r'^import (\{[\w\s,]*\}) from "(\.\.?/[\w./-]+\.js)";$', re.MULTILINE)
_EXPORT: Final = re.compile(
    r"^export (?=(?:(?:async )?function\*?|class|const) (\w+))", re.MULTILINE
)
_COMMENT: Final = re.compile(r"^ *(?:/\*\*(?:(?!\*/).)*\*/|//.*?)\n", re.MULTILINE | re.DOTALL)
_OTHER_FORM: Final = re.compile(r"^(?:import\b|export (?!default)).*", re.MULTILINE)


def join_modules(entry: Path) -> str:
    """Join ``entry`` and its imports into one module with the default export of the entry.

    Raises:
        ValueError: an import cycle, or an unsupported form of import or export.
    """
    modules: dict[Path, str] = {}
    _collect_modules(entry.resolve(), modules, ())
    *imports, main = modules.items()
    names = {path: f"module{number}" for number, path in enumerate(modules)}
    parts = [
        f"const {names[path]} = (() => {{\n{_convert_module(path, text, names)}"
        f"return {{ {', '.join(_EXPORT.findall(text))} }};\n}})();\n"
        for path, text in imports
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

    def format_constant(statement: re.Match[str]) -> str:
        return f"const {statement[1]} = {names[(path.parent / statement[2]).resolve()]};"

    body = _COMMENT.sub("", _EXPORT.sub("", _IMPORT.sub(format_constant, text)))
    statement = _OTHER_FORM.search(body)
    if statement:
        raise ValueError(f"{path.name}: unsupported form: {statement.group()!r}")
    return body
