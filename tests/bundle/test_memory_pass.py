from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.errors import InputError
from graphviz_dash.model.memory import Extent, LiveExtent, MemoryPass, Owner
from tests.bundle.examples import MEMORY_PASS, write_bundle

CHANGED = {
    "stages": (MEMORY_PASS.stages[1:], "start, build, warm-up, prepare, iterate"),
    "live_extents": ((LiveExtent(1, 0, 512, Owner.TENSORS),), "one of the 1 listed"),
    "graphs": (
        (msgspec.structs.replace(MEMORY_PASS.graphs[0], extents=(Extent(0, 512, 512),)),),
        "a range within its 2097152 bytes",
    ),
}


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = write_bundle(tmp_path / "run", memory_pass=MEMORY_PASS)
    assert read_bundle(path).memory_pass == MEMORY_PASS


def test_a_bundle_without_it_is_whole(tmp_path: Path) -> None:
    assert read_bundle(write_bundle(tmp_path / "run")).memory_pass is None


@pytest.mark.parametrize("field", CHANGED)
def test_impossible_values_are_refused(tmp_path: Path, field: str) -> None:
    value, expected = CHANGED[field]
    wrong: MemoryPass = msgspec.structs.replace(MEMORY_PASS, **{field: value})
    path = write_bundle(tmp_path / "run", memory_pass=wrong)
    with pytest.raises(InputError) as caught:
        read_bundle(path)
    assert expected in caught.value.expected
    assert caught.value.where.endswith("memory-pass.json")
