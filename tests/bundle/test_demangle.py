from __future__ import annotations

import pytest

from graphviz_dash.bundle import demangle as module
from graphviz_dash.bundle.demangle import demangle


@pytest.mark.parametrize("name", ["", "gemm", "_Znonsense", "main", "_Z", "Memcpy HtoD"])
def test_other_names_stay(name: str) -> None:
    assert demangle(name) == name


@pytest.mark.skipif(module._load_demangler() is None, reason="no demangler on this system")
def test_a_mangled_name() -> None:
    assert demangle("_Z4fillPfi") == "fill(float*, int)"
    assert demangle("_ZN2at4mul_ERNS_6TensorE") == "at::mul_(at::Tensor&)"


def test_without_a_demangler_names_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    demangle.cache_clear()
    monkeypatch.setattr(module, "_load_demangler", lambda: None)
    assert demangle("_Z4fillPfi") == "_Z4fillPfi"
    demangle.cache_clear()
