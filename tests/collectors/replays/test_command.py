"""The command's references to modules that import torch, which is not installed here."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

from collectors.replays.command import HOOK


def test_the_hook_exists() -> None:
    module, _, function = HOOK.partition(":")
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
