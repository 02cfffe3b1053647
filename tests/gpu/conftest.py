"""Tests that need a CUDA GPU: marked, and skipped with the reason where there is none."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def _missing() -> str | None:
    for module in ("torch", "cuda"):
        if importlib.util.find_spec(module) is None:
            return f"needs a CUDA GPU; {module} is not installed"
    import torch

    return None if torch.cuda.is_available() else "needs a CUDA GPU; torch sees none"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    reason = _missing() if ours else None
    for item in ours:
        item.add_marker(pytest.mark.gpu)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
