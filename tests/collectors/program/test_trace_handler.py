from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import collectors
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.errors import InputError
from graphviz_dash.model.run import ExecutionMode
from tests.experiments import replay_trace


class Profiler:
    """Writes a trace of three steps, as torch.profiler does."""

    def export_chrome_trace(self, path: str) -> None:
        replay_trace(mode=ExecutionMode.EAGER).write(Path(path))


@pytest.fixture(autouse=True)
def _no_process_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)


def test_each_trace_becomes_a_run(tmp_path: Path) -> None:
    handler = collectors.trace_handler(tmp_path / "x", "train")
    handler(Profiler())  # type: ignore[arg-type]
    handler(Profiler())  # type: ignore[arg-type]
    assert sorted(path.name for path in (tmp_path / "x").iterdir()) == ["train", "train-2"]
    contents = read_bundle(tmp_path / "x" / "train")
    assert contents.manifest.mode is ExecutionMode.RECORDED
    assert contents.replay_trace is not None


def test_a_rank_is_part_of_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = ModuleType("torch.distributed")
    answers = {"is_available": True, "is_initialized": True, "get_rank": 3, "get_world_size": 8}
    for name, answer in answers.items():
        setattr(group, name, lambda answer=answer: answer)
    monkeypatch.setitem(sys.modules, "torch.distributed", group)
    collectors.trace_handler(tmp_path, "train")(Profiler())  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["train-rank3"]


def test_a_failure_is_a_warning(tmp_path: Path) -> None:
    broken = SimpleNamespace(export_chrome_trace=lambda path: Path(path).write_text("no trace"))
    with pytest.warns(UserWarning, match="did not write the run train: Error: "):
        collectors.trace_handler(tmp_path, "train")(broken)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "a/b", ".."])
def test_a_name_that_is_no_folder_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="a name for a folder"):
        collectors.trace_handler("runs/x", name)
