"""Check that the installed torch has every private name that collectors use.

    PYTHON scripts/torch_names.py [--json]

PYTHON is an interpreter with torch and needs nothing else. A build without CUDA is enough, but has
no names that begin with ``torch._C._cuda``, which are then not checked. Names come from the source
of collectors: imports, attributes and strings that begin with ``torch`` and have a part that begins
with an underscore, and the table ``TREE_ATTRIBUTES`` of collectors/compiled/trees.py.
Prints the missing names with the files that use them. The exit code is 1 if a name is missing that
is not optional.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
COLLECTORS: Final = ROOT / "collectors"
TREES: Final = COLLECTORS / "compiled" / "trees.py"
OPTIONAL: Final = frozenset(
    {"torch._inductor.cudagraph_trees.CUDAGraphTreeManager.id_to_compile_id"}  # torch 2.7
)
"""Names that collectors read with a default."""
_CUDA_ONLY: Final = "torch._C._cuda"
_TABLE: Final = "TREE_ATTRIBUTES"
_TEXT: Final = re.compile(r"torch(?:\.\w+)*\._[A-Za-z]\w*(?:\.\w+)*")


def find_names(folder: Path = COLLECTORS) -> dict[str, tuple[str, ...]]:
    """Return the private names of torch in the sources below ``folder``, with their files."""
    names: dict[str, set[str]] = {}
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name in _iter_names(tree):
            if _is_private(name):
                names.setdefault(name, set()).add(path.relative_to(folder.parent).as_posix())
    # The longest name of each chain is enough.
    return {
        name: tuple(sorted(files))
        for name, files in sorted(names.items())
        if not any(other.startswith(f"{name}.") and files <= names[other] for other in names)
    }


class _Modules(NamedTuple):
    """Names of a file that represent modules of torch."""

    aliases: dict[str, str]
    """Imported and looked-up modules."""
    constants: dict[str, str]
    """Constants with the name of a module."""


def _iter_names(tree: ast.AST) -> Iterator[str]:
    modules = _find_modules(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(module=str(module), level=0):
                yield from (f"{module}.{alias.name}" for alias in node.names)
            case ast.Attribute():
                yield from filter(None, [_join_attributes(node, modules)])
            case ast.Call(
                func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str(attribute)), *_]
            ):
                names = filter(None, [_join_attributes(owner, modules)])
                yield from (f"{name}.{attribute}" for name in names)
            case ast.Constant(value=str(text)) if _TEXT.fullmatch(text):
                yield text


def _find_modules(tree: ast.AST) -> _Modules:
    modules = _Modules({}, {})
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), level=0):
                for alias in node.names:
                    modules.aliases[alias.asname or alias.name] = f"{module}.{alias.name}"
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=value)
            ):
                match value:
                    case ast.Constant(value=str(text)) if _TEXT.fullmatch(text):
                        modules.constants[name] = text
                    case ast.Call() if (module := _find_module(value, modules)) is not None:
                        modules.aliases[name] = module
    return modules


def _find_module(call: ast.Call, modules: _Modules) -> str | None:
    """Return the module of torch that ``call`` looks up."""
    match call:
        case ast.Call(
            func=ast.Attribute(attr="get" | "import_module") | ast.Name(id="import_module"),
            args=[ast.Name(id=name), *_],
        ):
            return modules.constants.get(name)
        case ast.Call(
            func=ast.Attribute(attr="get" | "import_module") | ast.Name(id="import_module"),
            args=[ast.Constant(value=str(text)), *_],
        ) if _TEXT.fullmatch(text):
            return text
    return None


def _join_attributes(node: ast.expr, modules: _Modules) -> str | None:
    match node:
        case ast.Attribute():
            before = _join_attributes(node.value, modules)
            return None if before is None else f"{before}.{node.attr}"
        case ast.Name():
            return modules.aliases.get(node.id, node.id)
        case ast.Call():
            return _find_module(node, modules)
    return None


def _is_private(name: str) -> bool:
    first, *parts = name.split(".")
    return first == "torch" and any(re.match(r"_[^_]", part) for part in parts)


def read_tree_attributes(path: Path = TREES) -> dict[str, tuple[str, ...]]:
    """Return the table of classes and the attributes of their instances, without importing it."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == _TABLE:
            assert node.value is not None
            table: dict[str, tuple[str, ...]] = ast.literal_eval(node.value)
            return table
    raise LookupError(f"{path} has no table {_TABLE}")


def has_name(name: str) -> bool:
    """Import ``name`` as far as it is a module, and look the rest up as attributes."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        missing = object()
        for part in parts[length:]:
            value = getattr(value, part, missing)
        return value is not missing
    return False


def find_attributes(source: str, name: str) -> set[str]:
    """Return the methods, fields and attributes set on ``self`` of the class ``name``."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.ClassDef) and node.name == name):
            continue
        for item in ast.walk(node):
            match item:
                case ast.FunctionDef(name=defined):
                    found.add(defined)
                case ast.Attribute(value=ast.Name(id="self"), attr=attribute, ctx=ast.Store()):
                    found.add(attribute)
                case ast.AnnAssign(target=ast.Name(id=field)):
                    found.add(field)
    return found


def list_checkable(*, has_cuda: bool) -> dict[str, tuple[str, ...]]:
    """Return the names from the source that a build of torch has, with the files that use them."""
    return {
        name: files
        for name, files in find_names().items()
        if has_cuda or not name.startswith(_CUDA_ONLY)
    }


def list_missing(names: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return those of ``names`` and of the table that the installed torch lacks."""
    missing = {name: files for name, files in names.items() if not has_name(name)}
    for path, attributes in read_tree_attributes().items():
        module, _, name = path.rpartition(".")
        spec = importlib.util.find_spec(module)
        source = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
        lacking = set(attributes) - find_attributes(source, name)
        file = TREES.relative_to(ROOT).as_posix()
        missing |= {f"{path}.{attribute}": (file,) for attribute in sorted(lacking)}
    return missing


def main() -> int:
    """Print the missing names; return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a JSON document")
    options = parser.parse_args()
    try:
        import torch
    except ModuleNotFoundError:
        parser.error(
            f"{sys.executable} has no torch; name another: make torch-names TORCH_PYTHON=..."
        )

    names = list_checkable(has_cuda=torch.version.cuda is not None)
    missing = list_missing(names)
    checked = len(names) + sum(map(len, read_tree_attributes().values()))
    if options.json:
        document = {"torch": str(torch.__version__), "checked": checked, "missing": missing}
        print(json.dumps(document, indent=2))
    else:
        print(f"torch {torch.__version__}: {checked} private names, {len(missing)} missing")
        for name, files in missing.items():
            note = " (optional)" if name in OPTIONAL else ""
            print(f"  {name}{note}: {', '.join(files)}")
    return 1 if missing.keys() - OPTIONAL else 0


if __name__ == "__main__":
    sys.exit(main())
