from __future__ import annotations

import subprocess

import pytest

from graphviz_dash.bundle.demangle import demangle
from graphviz_dash.ingest import names
from graphviz_dash.ingest.names import demangle_names


def test_all_at_once_and_only_what_is_mangled() -> None:
    given = ["_Z4fillPf", "gemm", "_Znonsense", "_Z" + "x" * 20_000]
    assert demangle_names(given) == {
        name: demangle(name) if name < "_Zx" else name for name in given
    }


def test_no_process_for_names_that_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("started a process"))
    assert demangle_names(["gemm", "relu"]) == {"gemm": "gemm", "relu": "relu"}


@pytest.mark.parametrize(
    "death",
    [
        subprocess.TimeoutExpired("x", 1),
        subprocess.CalledProcessError(-11, "x"),
        OSError("no process"),
    ],
)
def test_names_stay_mangled_if_the_demangler_fails(
    monkeypatch: pytest.MonkeyPatch, death: Exception
) -> None:
    def dying(*_: object, **__: object) -> None:
        raise death

    monkeypatch.setattr(names.subprocess, "run", dying)
    assert demangle_names(["_Z4fillPf"]) == {"_Z4fillPf": "_Z4fillPf"}
