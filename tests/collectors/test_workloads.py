from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from click.testing import CliRunner

from collectors.collection.cli import collect
from collectors.collection.failures import describe_failure
from collectors.collection.paths import shorten_path
from collectors.workloads import BUILT_IN, get_factory_path, load_factory
from graphviz_dash.bundle.demangle import demangle
from graphviz_dash.errors import InputError, MissingRequirementError
from graphviz_dash.model.run import Pass


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed here")
def test_without_torch_one_line_says_what_is_missing_and_how_to_install(tmp_path: Path) -> None:
    result = CliRunner().invoke(collect, ["--workload=mlp-train", f"-o{tmp_path / 'x'}"])
    assert isinstance(result.exception, MissingRequirementError)
    text = str(result.exception)
    assert "torch" in text
    assert "pip install 'graphviz-dash[collect]'" in text
    assert "\n" not in text
    assert not (tmp_path / "x").exists()


def test_unknown_modes_are_refused_with_the_known_ones(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        collect, ["--workload=mlp-train", "--modes=eager,grpah", f"-o{tmp_path / 'x'}"]
    )
    assert result.exit_code == 2
    assert "'grpah' is not one of eager, graph" in result.output


def test_names_and_paths_of_workloads() -> None:
    assert all(get_factory_path(name) == path for name, path in BUILT_IN.items())
    assert get_factory_path("my.train:factory") == "my.train:factory"
    for wrong in ("mlp", "my.train", "my.train:", ":factory", "my.train:a b"):
        with pytest.raises(InputError, match="mlp-train"):
            get_factory_path(wrong)


def test_a_users_factory_is_imported_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_workload.py").write_text("def make():\n    return lambda: 41\nno = 3\n")
    (tmp_path / "breaks.py").write_text("import not_installed_anywhere\n")
    monkeypatch.chdir(tmp_path)
    assert load_factory("own_workload:make")()() == 41
    with pytest.raises(InputError, match="no function 'nope' in own_workload"):
        load_factory("own_workload:nope")
    with pytest.raises(InputError, match="no function 'no'"):
        load_factory("own_workload:no")
    with pytest.raises(InputError, match="no module 'missing_module'"):
        load_factory("missing_module:f")
    # What is missing inside the user's module is the user's own error, not "no such module".
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        load_factory("breaks:f")


def test_demangling() -> None:
    assert demangle("_ZN2at6native4fillEif") == "at::native::fill(int, float)"
    assert demangle("triton_poi_fused_add_0") == "triton_poi_fused_add_0"
    assert demangle("_Znot_mangled_at_all") == "_Znot_mangled_at_all"


def test_paths_lose_the_machines_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, outside = tmp_path / "project", tmp_path / "elsewhere"
    monkeypatch.chdir(inside if inside.mkdir() is None else tmp_path)
    shorten_path.cache_clear()
    assert shorten_path(str(inside / "pkg" / "model.py")) == "pkg/model.py"
    assert shorten_path(str(outside / "model.py")) == "model.py"
    shorten_path.cache_clear()


def test_a_failure_names_the_first_cause_and_the_users_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing_step.py").write_text(
        "def step():\n"
        "    try:\n"
        "        raise ValueError('first')\n"
        "    finally:\n"
        "        raise RuntimeError('second')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    shorten_path.cache_clear()
    step = load_factory("failing_step:step")
    with pytest.raises(RuntimeError) as caught:
        step()
    failure = describe_failure(caught.value, Pass.CLEAN)
    assert (failure.error, failure.message) == ("ValueError", "first")
    assert failure.location == "failing_step.py:3"
    assert "RuntimeError: second" in failure.traceback
    assert str(tmp_path) not in failure.traceback
    shorten_path.cache_clear()
