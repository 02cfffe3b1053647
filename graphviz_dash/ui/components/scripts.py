"""The script of a component, from its ES modules: Streamlit takes one, and one is fetched sooner
than twenty.

Each module becomes a function that returns what it exports, called once and after those of the
modules that it imports, so that its other names stay its own. Of the forms of import and export
there are those that modules here use: ``import { name } from "./module.js";``, ``export`` before a
function, class or const, and the entry's ``export default``. The checks read the modules as they
are.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

__all__ = ["one_script"]

_IMPORT: Final = re.compile(r'^import (\{[\w\s,]*\}) from "(\.\.?/[\w./-]+\.js)";$', re.MULTILINE)
_EXPORT: Final = re.compile(
    r"^export (?=(?:(?:async )?function\*?|class|const) (\w+))", re.MULTILINE
)
_COMMENT: Final = re.compile(r"^ *(?:/\*\*(?:(?!\*/).)*\*/|//.*?)\n", re.MULTILINE | re.DOTALL)
_OTHER: Final = re.compile(r"^(?:import\b|export (?!default)).*", re.MULTILINE)


def one_script(entry: Path) -> str:
    """``entry`` and all that it imports as one module, whose default export is the entry's.

    Raises:
        ValueError: modules import each other in a circle, or an import or export has another form.
    """
    modules: dict[Path, str] = {}
    _collect(entry.resolve(), modules, ())
    *imported, last = modules.items()
    names = {path: f"module{number}" for number, path in enumerate(modules)}
    parts = [
        f"const {names[path]} = (() => {{\n{_body(path, text, names)}"
        f"return {{ {', '.join(_EXPORT.findall(text))} }};\n}})();\n"
        for path, text in imported
    ]
    return "".join([*parts, _body(*last, names)])


def _collect(path: Path, modules: dict[Path, str], importers: tuple[Path, ...]) -> None:
    """Adds the module at ``path`` to ``modules``, after those that it imports."""
    if path in importers:
        raise ValueError(f"{path.name}: imports itself by way of {importers[-1].name}")
    if path in modules:
        return
    text = path.read_text(encoding="utf-8")
    for _, target in _IMPORT.findall(text):
        _collect((path.parent / target).resolve(), modules, (*importers, path))
    modules[path] = text


def _body(path: Path, text: str, names: dict[Path, str]) -> str:
    """A module's text with its imports as constants, and without the word export and comments."""

    def constant(statement: re.Match[str]) -> str:
        return f"const {statement[1]} = {names[(path.parent / statement[2]).resolve()]};"

    body = _COMMENT.sub("", _EXPORT.sub("", _IMPORT.sub(constant, text)))
    other = _OTHER.search(body)
    if other:
        raise ValueError(f"{path.name}: {other.group()!r} is of another form")
    return body
