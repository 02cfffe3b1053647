from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from graphviz_dash.bundle import parts
from graphviz_dash.bundle.ceilings import read_ceilings, write_ceilings
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.bundle.write import BundleWriter
from graphviz_dash.errors import InputError
from graphviz_dash.model.ceilings import ArithmeticTime, MemoryTime, Pipe, Traffic
from tests.bundle.examples import MANIFEST
from tests.features.efficiency.steps import make_ceilings

CEILINGS = make_ceilings()
DAMAGED: list[dict[str, Any]] = [
    {"empty_kernel_ns": ()},
    {"empty_kernel_ns": (0,)},
    {"memory": (MemoryTime(Traffic.COPY, True, 1024, ()),)},
    {"memory": (MemoryTime(Traffic.COPY, True, 1024, (0, 5)),)},
    {"memory": (MemoryTime(Traffic.COPY, True, 0, (5,)),)},
    {"arithmetic": (ArithmeticTime(Pipe.FP32, True, 0, (5,)),)},
]


def test_a_bundle_keeps_limits(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "run") as writer:
        writer.add(parts.CEILINGS, CEILINGS)
        writer.commit(msgspec.structs.replace(MANIFEST, files=()))
    assert read_bundle(tmp_path / "run").ceilings == CEILINGS


@pytest.mark.parametrize("changes", DAMAGED)
def test_measurements_of_nothing_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    damaged = msgspec.structs.replace(CEILINGS, **changes)
    file = tmp_path / "limits.json"
    write_ceilings(file, damaged)
    with pytest.raises(InputError):
        read_ceilings(file)
    with BundleWriter(tmp_path / "run") as writer:
        writer.add(parts.CEILINGS, damaged)
        writer.commit(msgspec.structs.replace(MANIFEST, files=()))
    with pytest.raises(InputError):
        read_bundle(tmp_path / "run")
