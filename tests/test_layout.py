from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from tests.sources import PARTS, modules, nodes

VAGUE: Final = frozenset({"found", "one", "place", "told", "taken", "known"})
MOST_VAGUE: Final = 0.01
"""Share of functions in which a value has such a name."""

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def imports() -> Mapping[str, frozenset[str]]:
    names = modules().keys()
    imported = {}
    for module, parts in nodes().items():
        targets = set()
        for node in parts:
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    targets.add(inner if inner in names else node.module)
            elif isinstance(node, ast.Import):
                targets |= {alias.name for alias in node.names}
        imported[module] = frozenset(targets & (names - {module}))
    return imported


def functions() -> Iterator[tuple[str, Function]]:
    for module, parts in nodes().items():
        for node in parts:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield module, node


def documented(tree: ast.Module) -> Iterator[tuple[str, ast.ClassDef | Function]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("_"):
                continue
            yield node.name, node
            if isinstance(node, ast.ClassDef):
                for method in node.body:
                    if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                        yield f"{node.name}.{method.name}", method


def test_no_circle_of_imports() -> None:
    left = dict(imports())
    while leaves := [module for module, own in left.items() if not own & left.keys()]:
        for module in leaves:
            del left[module]
    assert left == {}


def test_values_are_named_for_what_they_are() -> None:
    vague = total = 0
    for _, function in functions():
        total += 1
        names = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
        names |= {
            node.id
            for node in ast.walk(function)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        vague += bool(names & VAGUE)
    assert vague <= MOST_VAGUE * total


def test_no_function_returns_a_value_or_a_text() -> None:
    """A reason for a missing value is a ``Missing``."""
    mixed = []
    for module, function in functions():
        if isinstance(function.returns, ast.BinOp):
            kinds = {kind.strip() for kind in ast.unparse(function.returns).split("|")}
            if "str" in kinds and kinds - {"str", "None", "bytes"}:
                mixed.append((module, function.name))
    assert mixed == []


def test_every_signature_is_annotated() -> None:
    bare = [
        (module, function.name)
        for module, function in functions()
        if function.returns is None
        or any(
            argument.annotation is None and argument.arg not in ("self", "cls")
            for argument in (
                *function.args.posonlyargs,
                *function.args.args,
                *function.args.kwonlyargs,
            )
        )
    ]
    assert bare == []


@pytest.mark.parametrize("part", PARTS)
def test_public_names_are_documented(part: str) -> None:
    silent = []
    for module, tree in modules().items():
        if module.split(".")[0] != part:
            continue
        if not ast.get_docstring(tree):
            silent.append(module)
        for name, node in documented(tree):
            plain = name.split(".")[-1].startswith("_")
            marks = {ast.unparse(mark) for mark in node.decorator_list}
            if not plain and not marks & {"override", "overload"} and not ast.get_docstring(node):
                silent.append(f"{module}.{name}")
    assert silent == []


def test_no_test_imports_programs_that_measure() -> None:
    """Programs of evaluation and benchmarks may use the tests' builders, not the reverse."""
    importers = [
        path.name
        for path in Path(__file__).parent.rglob("*.py")
        if re.search(r"^\s*(?:from|import) (?:benchmarks|evaluation)\b", path.read_text(), re.M)
    ]
    assert importers == []
