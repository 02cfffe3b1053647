from __future__ import annotations

import ast
import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PARTS: Final = ("graphviz_dash", "collectors")


@cache
def modules() -> Mapping[str, ast.Module]:
    files = [file for part in PARTS for file in (ROOT / part).rglob("*.py")]
    with _uncollected():
        return {
            ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(
                ".__init__"
            ): ast.parse(file.read_text(encoding="utf-8"))
            for file in files
        }


@cache
def nodes() -> Mapping[str, tuple[ast.AST, ...]]:
    """The nodes of each module that define, import, handle or call, by module."""
    kinds = (
        *(ast.FunctionDef, ast.AsyncFunctionDef, ast.Import, ast.ImportFrom),
        *(ast.ExceptHandler, ast.Call),
    )
    with _uncollected():
        return {
            module: tuple(node for node in ast.walk(tree) if isinstance(node, kinds))
            for module, tree in modules().items()
        }


@contextmanager
def _uncollected() -> Iterator[None]:
    """Disable garbage collection, which takes most of the time among nodes that all stay."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
