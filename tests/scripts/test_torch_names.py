from __future__ import annotations

import ast
from pathlib import Path

import pytest

from scripts import torch_names


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "collectors").mkdir()
    return tmp_path / "collectors"


def test_names_come_from_imports_attributes_and_strings(folder: Path) -> None:
    (folder / "one.py").write_text(
        "import torch\n"
        "from torch._dynamo.utils import counters\n"
        "torch.cuda._sleep(3)\n"
        "torch.cuda.synchronize()\n"
        'MODULE = "torch._inductor.scheduler"\n'
        'TEXT = "torch._inductor logs it"\n'
        "guards = sys.modules.get('torch._guards')\n"
        "getattr(guards, 'CompileContext', None)\n"
        "def read():\n"
        "    scheduler = sys.modules.get(MODULE)\n"
        "    return scheduler.Scheduler, getattr(torch._C, '_clear', None)\n"
        "print(torch.__version__)\n"
    )
    assert torch_names.find_names(folder) == {
        "torch._C._clear": ("collectors/one.py",),
        "torch._dynamo.utils.counters": ("collectors/one.py",),
        "torch._guards.CompileContext": ("collectors/one.py",),
        "torch._inductor.scheduler.Scheduler": ("collectors/one.py",),
        "torch.cuda._sleep": ("collectors/one.py",),
    }


def test_names_of_the_collectors_are_found() -> None:
    names = torch_names.find_names()
    assert "torch.cuda.memory._snapshot" in names
    assert "torch._dynamo.utils.counters" in names
    assert "torch._guards.CompileContext" in names


def test_a_build_without_cuda_lacks_only_its_bindings() -> None:
    whole = torch_names.list_checkable(has_cuda=True)
    without = torch_names.list_checkable(has_cuda=False)
    lacking = whole.keys() - without.keys()
    assert whole == torch_names.find_names()
    assert "torch._C._cuda_clearCublasWorkspaces" in lacking
    assert all(name.startswith("torch._C._cuda") for name in lacking)
    assert "torch.cuda.memory._snapshot" in without


def test_a_missing_name_is_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = folder.parent / "torch"
    (package / "_inductor").mkdir(parents=True)
    (package / "__init__.py").write_text("def _present(): pass\n")
    (package / "_inductor" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(folder.parent)
    for name in [name for name in torch_names.sys.modules if name.split(".")[0] == "torch"]:
        monkeypatch.delitem(torch_names.sys.modules, name)
    assert torch_names.has_name("torch._present")
    assert torch_names.has_name("torch._inductor")
    assert not torch_names.has_name("torch._absent")
    assert not torch_names.has_name("torch._inductor.cudagraph_trees")
    for name in ("torch", "torch._inductor"):
        monkeypatch.delitem(torch_names.sys.modules, name)


def test_attributes_of_a_class_are_found() -> None:
    source = "class Node:\n    id: int\n    def __init__(self):\n        self.graph = None\n"
    assert torch_names.find_attributes(source, "Node") == {"__init__", "id", "graph"}
    assert torch_names.find_attributes(source, "Tree") == set()


def test_each_attribute_of_the_table_is_read() -> None:
    source = torch_names.TREES.read_text(encoding="utf-8")
    tree = ast.parse(source)
    read = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    read |= {
        node.args[1].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr"
        if isinstance(node.args[1], ast.Constant)
    }
    for attributes in torch_names.read_tree_attributes().values():
        assert set(attributes) <= read


def test_optional_names_are_read_with_a_default() -> None:
    source = torch_names.TREES.read_text(encoding="utf-8")
    for name in torch_names.OPTIONAL:
        assert f'getattr(manager, "{name.rpartition(".")[2]}", ' in source
