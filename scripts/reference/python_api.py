"""The public Python API: what ``collectors`` exports, read by ast because it may need torch."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scripts.reference.docstrings import format_code_marks

ROOT: Final = Path(__file__).parents[2]
_PACKAGE: Final = "collectors"
_SECTIONS: Final = ("Args", "Returns", "Yields", "Raises")

DocumentedNode = ast.FunctionDef | ast.ClassDef


def format_body() -> str:
    """A section for each exported name."""
    package = ROOT / _PACKAGE / "__init__.py"
    places = dict(_list_imports(ast.parse(package.read_text(encoding="utf-8"))))
    parts = []
    for name in list_exports():
        node = _find_definition(places[name], name)
        parts.append(_format_section(name, node, places[name]))
    return "\n".join(parts)


def list_exports() -> list[str]:
    """The names in ``collectors.__all__``."""
    tree = ast.parse((ROOT / _PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return sorted(ast.literal_eval(node.value), key=str.lower)
    raise LookupError("collectors/__init__.py has no __all__")


def _list_imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Names and the modules that they are imported from, in functions and branches too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((alias.asname or alias.name, node.module) for alias in node.names)


def _find_definition(module: str, name: str) -> DocumentedNode:
    for node in ast.walk(_parse_module(module)):
        if isinstance(node, DocumentedNode) and node.name == name:
            return node
    raise LookupError(f"{name} is not defined in {module}")


def _format_section(name: str, node: DocumentedNode, module: str) -> str:
    function = node if isinstance(node, ast.FunctionDef) else _find_constructor(node)
    arguments = _format_signature(function, module) if function is not None else ""
    result = ""
    if isinstance(node, ast.FunctionDef) and node.returns is not None:
        result = f" -> {ast.unparse(node.returns)}"
    signature = f"{_PACKAGE}.{name}({arguments}){result}"
    text = _format_docstring(ast.get_docstring(node) or "")
    return f"## {name}\n\n```text\n{signature}\n```\n\n{text}"


def _find_constructor(node: ast.ClassDef) -> ast.FunctionDef | None:
    return next(
        (
            item
            for item in node.body
            if isinstance(item, ast.FunctionDef) and item.name == "__init__"
        ),
        None,
    )


def _format_signature(function: ast.FunctionDef, module: str) -> str:
    defaults = [*function.args.defaults, *function.args.kw_defaults]
    for node in defaults:
        if isinstance(node, ast.Name):
            node.id = _find_constant(module, node.id)
    arguments = re.sub(r"^self(, )?", "", ast.unparse(function.args))
    # As PEP 8 has it: spaces around the default of an annotated argument.
    arguments = re.sub(r"(: [^=]+?)=", r"\1 = ", arguments)
    return arguments.replace("StrPath", "str | PathLike")


def _find_constant(module: str, name: str) -> str:
    """The value of a constant as written, also if ``module`` imports it."""
    tree = _parse_module(module)
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name and node.value:
            return ast.unparse(node.value)
    return _find_constant(dict(_list_imports(tree))[name], name)


def _parse_module(module: str) -> ast.Module:
    file = ROOT / Path(*module.split("."))
    file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def _format_docstring(docstring: str) -> str:
    """A docstring as Markdown: sections as lists, text after ``::`` as code."""
    parts: list[str] = []
    lines = inspect.cleandoc(docstring).splitlines()
    while lines:
        block = _take_paragraph(lines)
        head = block[0].removesuffix(":")
        if head in _SECTIONS:
            parts.append(_format_arguments(head, block[1:]))
        elif block[0].startswith("    "):
            parts.append("```python\n" + inspect.cleandoc("\n".join(["", *block])) + "\n```\n")
        else:
            parts.append(re.sub(r"::$", ":", format_code_marks(" ".join(block))) + "\n")
    return "\n".join(parts)


def _take_paragraph(lines: list[str]) -> list[str]:
    """Remove and return the next paragraph; blank lines within code belong to it."""
    block = [lines.pop(0)]
    while lines:
        is_code = block[0].startswith("    ") and len(lines) > 1 and lines[1].startswith("    ")
        if not lines[0].strip() and not is_code:
            lines.pop(0)
            break
        block.append(lines.pop(0))
    return block


def _format_arguments(head: str, lines: list[str]) -> str:
    rows: list[list[str]] = []
    for line in inspect.cleandoc("\n".join(["", *lines])).splitlines():
        match = re.match(r"(\w+): (.*)", line)
        if match is not None:
            rows.append([f"`{match[1]}`", match[2]])
        elif rows:
            rows[-1][1] += f" {line.strip()}"
        else:
            rows.append(["", line.strip()])
    verb = "raises " if head == "Raises" else ""
    lines = [": ".join(filter(None, (name, format_code_marks(text)))) for name, text in rows]
    return "\n".join(f"- {verb}{line}" for line in lines) + "\n"
