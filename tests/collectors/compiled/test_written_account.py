from __future__ import annotations

from pathlib import Path

import pytest

from collectors.compiled.account import save_compilation
from collectors.process.results import read_result
from graphviz_dash.bundle import parts
from tests.collectors.compiled.test_account import START, structured


@pytest.mark.parametrize("ends", [True, False])
def test_the_account_is_there_when_the_step_fails(tmp_path: Path, ends: bool) -> None:
    try:
        with save_compilation(tmp_path):
            structured(START)
            if not ends:
                raise RuntimeError("the step fails")
    except RuntimeError:
        assert not ends
    compilation = read_result(parts.COMPILATION, tmp_path)
    assert compilation is not None
    assert [frame.id for frame in compilation.frames] == ["0/0"]


def test_nothing_is_written_where_nothing_was_compiled(tmp_path: Path) -> None:
    with save_compilation(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []
