from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from graphviz_dash.bundle import parts
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.bundle.write import BundleWriter
from graphviz_dash.errors import InputError
from graphviz_dash.model.source_code import MAX_CODE_LENGTH, MAX_LINES, SourceCode
from tests.bundle.examples import MANIFEST

CODE = SourceCode("a test", {"train.py:3": "loss.backward()"}, {"lost.py": "it was not found"})


def write_code(folder: Path, code: SourceCode) -> Path:
    with BundleWriter(folder / "run") as writer:
        writer.add(parts.SOURCE_CODE, code)
        writer.commit(msgspec.structs.replace(MANIFEST, files=()))
    return folder / "run"


def test_a_bundle_keeps_code(tmp_path: Path) -> None:
    assert read_bundle(write_code(tmp_path, CODE)).source_code == CODE


@pytest.mark.parametrize(
    "lines",
    [
        {"train.py": "a file without a line"},
        {"train.py:3": "x" * (MAX_CODE_LENGTH + 1)},
        {f"train.py:{number}": "" for number in range(MAX_LINES + 1)},
    ],
    ids=["no line", "long", "many"],
)
def test_code_of_no_line_and_long_code_are_refused(tmp_path: Path, lines: dict[str, str]) -> None:
    folder = write_code(tmp_path, SourceCode("a test", lines))
    with pytest.raises(InputError):
        read_bundle(folder)
