"""Which part may import which: import-linter's contracts, and what importing really loads.

The contracts read source; the subprocesses look at ``sys.modules``, so that an import inside a
function, by name or through a third package is seen too.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from graphviz_dash.app.cli.command_table import COMMANDS_BY_NAME
from graphviz_dash.documentation import SITE_FOLDER
from tests.sources import nodes

ROOT = Path(__file__).parents[1]

NEVER = {"torch", "cuda", "cupti", "collectors"}
WEB = {"streamlit", "starlette", "uvicorn", "tornado"}
CHAINS = (
    ("model", "planning", "bundle", "ingest", "importers", "exports", "cli", "commands"),
    ("analysis", "guidance", "narrative", "charts"),
    ("ui", "features", "app"),
)
"""Packages that a process imports one after another: what one may load those after it may too."""

PACKAGES = tuple(package for chain in CHAINS for package in chain)

FORBIDDEN = {
    "model": WEB | {"plotly", "polars", "pandas", "pyarrow", "numpy", "graphviz_dash.bundle"},
    "bundle": WEB | {"plotly", "polars", "pandas", "pyarrow", "numpy", "graphviz_dash.ingest"},
    "planning": WEB | {"plotly", "polars", "pandas", "pyarrow", "numpy", "graphviz_dash.bundle"},
    "ingest": WEB | {"plotly", "pandas", "graphviz_dash.analysis"},
    "analysis": WEB | {"plotly", "pandas", "graphviz_dash.ingest", "graphviz_dash.bundle"},
    "charts": WEB | {"graphviz_dash.ingest", "graphviz_dash.bundle", "graphviz_dash.exports"},
    "exports": WEB | {"plotly", "pandas", "graphviz_dash.charts"},
    "importers": WEB | {"plotly", "pandas"},
    "narrative": WEB | {"plotly", "pandas", "graphviz_dash.ingest", "graphviz_dash.bundle"},
    "cli": WEB | {"plotly", "pandas", "graphviz_dash.ui"},
    "commands": WEB | {"plotly", "pandas", "fsspec", "asyncio", "graphviz_dash.ui"},
    "guidance": WEB | {"plotly", "pandas", "graphviz_dash.ingest", "graphviz_dash.bundle"},
    "ui": {"graphviz_dash.cli", "graphviz_dash.features", "graphviz_dash.app"},
    "features": {"graphviz_dash.app"},
    "app": set(),
}
"""Modules that importing all of a package must not load, in addition to NEVER."""

LOAD = """
import importlib, json, sys
for names in json.loads(sys.argv[1]):
    for name in names:
        importlib.import_module(name)
    print(json.dumps(sorted(sys.modules)))
"""

BLOCK = """
import importlib.abc, sys

class Wall(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"{name} is walled off in this test", name=name)

sys.meta_path.insert(0, Wall())
"""


def modules_of(package: str) -> list[str]:
    """List the modules in the folder of ``package``, itself included.

    ``graphviz_dash.commands`` stands for what the terminal loads: the modules of all commands.
    """
    if package == "graphviz_dash.commands":
        return sorted(
            {row.target.partition(":")[0] for row in COMMANDS_BY_NAME.values() if row.target}
        )
    folder = ROOT / package.replace(".", "/")
    files = [path.relative_to(ROOT).with_suffix("") for path in folder.rglob("*.py")]
    return sorted(".".join(f.parts).removesuffix(".__init__") for f in files if f.suffix == "")


def loaded_by(names: list[str], prelude: str = "") -> set[str]:
    """Return ``sys.modules`` after importing ``names`` in a fresh interpreter."""
    (loaded,) = loaded_in_turn([names], prelude)
    return loaded


def loaded_in_turn(groups: list[list[str]], prelude: str = "") -> list[set[str]]:
    """Return ``sys.modules`` after each group, imported in order in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", prelude + LOAD, json.dumps(groups)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return [set(json.loads(line)) for line in done.stdout.splitlines()[-len(groups) :]]


@cache
def loaded_in_chain(chain: tuple[str, ...]) -> dict[str, set[str]]:
    groups = [modules_of(f"graphviz_dash.{package}") for package in chain]
    return dict(zip(chain, loaded_in_turn(groups), strict=True))


def inside(found: set[str], walls: set[str]) -> set[str]:
    """Those of ``found`` that are one of ``walls`` or lie in it."""
    return {name for name in found if any(f"{name}.".startswith(f"{wall}.") for wall in walls)}


def third_party(found: set[str]) -> set[str]:
    """Top-level packages of ``found`` that neither Python nor this project brings."""
    tops = {name.partition(".")[0] for name in found}
    ours = {"graphviz_dash", "collectors", "__main__", "__mp_main__"}
    # Hooks of editable installs and of virtual environments load before any import of ours.
    hooks = {top for top in tops if top.startswith(("__editable__", "_editable", "_virtualenv"))}
    # msgspec looks for typing_extensions and does without it.
    others = hooks | {"typing_extensions"} | third_party_at_start()
    return tops - ours - others - sys.stdlib_module_names


def third_party_at_start() -> set[str]:
    """Return the modules that an interpreter loads before any import (site customisation)."""
    done = subprocess.run(
        [sys.executable, "-c", "import sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return {name.partition(".")[0] for name in done.stdout.split()} - sys.stdlib_module_names


def test_every_package_has_its_wall() -> None:
    folders = {path.parent.name for path in (ROOT / "graphviz_dash").glob("*/__init__.py")}
    assert folders | {"commands"} == set(PACKAGES) == set(FORBIDDEN)
    assert "graphviz_dash.bundle.read" in modules_of("graphviz_dash.bundle")


def test_the_contracts_of_import_linter_are_kept() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_loads_nothing_beyond_its_wall(package: str) -> None:
    (chain,) = (chain for chain in CHAINS if package in chain)
    found = loaded_in_chain(chain)[package]
    assert modules_of(f"graphviz_dash.{package}")[0] in found
    assert inside(found, NEVER | FORBIDDEN[package]) == set()


def test_a_gpu_server_needs_only_msgspec() -> None:
    names = [
        *modules_of("graphviz_dash.model"),
        *modules_of("graphviz_dash.bundle"),
        "graphviz_dash.errors",
        "graphviz_dash.units",
    ]
    assert third_party(loaded_by(names)) == {"msgspec"}


def test_the_collect_command_loads_neither_torch_nor_a_dataframe_engine() -> None:
    found = loaded_by(["collectors.collection.cli", "collectors.collection.collect"])
    assert third_party(found) <= {"click", "msgspec"}
    assert {name for name in found if name.startswith("graphviz_dash.")} <= set(
        modules_of("graphviz_dash.model")
        + modules_of("graphviz_dash.bundle")
        + ["graphviz_dash.errors", "graphviz_dash.units"]
    )


def test_all_of_graphviz_dash_imports_where_torch_and_cuda_do_not_exist() -> None:
    prelude = f"BLOCKED = {sorted(NEVER)}\n{BLOCK}"
    found = loaded_by(modules_of("graphviz_dash"), prelude)
    assert set(modules_of("graphviz_dash")) <= found
    assert inside(found, NEVER) == set()


def test_the_block_blocks() -> None:
    with pytest.raises(AssertionError, match="walled off"):
        loaded_by(["msgspec"], f"BLOCKED = ['msgspec']\n{BLOCK}")


class TestAnalysisIsPure:
    """A run in, a result out: no file, no process, no clock, no output."""

    OUTSIDE = frozenset(
        {"os", "io", "subprocess", "socket", "shutil", "tempfile", "urllib", "http"}
        | {"time", "datetime", "random", "logging"}
    )
    CALLS = frozenset({"open", "print", "input", "exec", "eval", "__import__"})

    @pytest.mark.parametrize(
        "path", sorted((ROOT / "graphviz_dash" / "analysis").glob("*.py")), ids=lambda p: p.name
    )
    def test_a_module_touches_nothing_outside(self, path: Path) -> None:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {
            alias.name.partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
        } | {
            (node.module or "").partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
        }
        called = {
            node.func.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert imported & self.OUTSIDE == set()
        assert called & self.CALLS == set()


GUESTS = "collectors.program.inject.sitecustomize"
"""Runs where a program of somebody else starts, which must not notice whatever comes."""


def test_no_error_is_swallowed_whole() -> None:
    """A broad ``except`` hides defects; errors in user input have a separate class."""
    broad = {module for module, parts in nodes().items() if any(map(_swallows_all, parts))}
    assert broad == {GUESTS}


def _swallows_all(node: ast.AST) -> bool:
    if isinstance(node, ast.ExceptHandler):
        passes_on = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
        return _is_broad(node.type) and not passes_on
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return called and node.func.id == "suppress" and any(map(_is_broad, node.args))


def _is_broad(caught: ast.expr | None) -> bool:
    if caught is None:
        return True
    if isinstance(caught, ast.Tuple):
        return any(_is_broad(one) for one in caught.elts)
    return isinstance(caught, ast.Name) and caught.id in ("Exception", "BaseException")


def test_names_from_traces_never_become_markup() -> None:
    """Kernel names are untrusted: scripts of the page set text, they do not build HTML from it."""
    ways = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(")
    found = [
        f"{path.relative_to(ROOT)}: {way}"
        for path in (ROOT / "graphviz_dash").rglob("*.js")
        # The documentation site shows no names from traces.
        if not path.is_relative_to(SITE_FOLDER)
        for way in ways
        if way in path.read_text(encoding="utf-8")
    ]
    assert found == []
