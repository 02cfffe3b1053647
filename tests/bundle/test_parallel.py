from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from graphviz_dash.bundle import parts
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.bundle.write import BundleWriter
from graphviz_dash.errors import InputError
from tests.bundle.examples import MANIFEST
from tests.parallel_runs import PLAN


def bundle(folder: Path, **changes: Any) -> Path:
    with BundleWriter(folder / "run") as writer:
        writer.add(parts.PARALLEL, replace(PLAN, **changes))
        writer.commit(MANIFEST)
    return folder / "run"


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_bundle(bundle(tmp_path)).parallel == PLAN


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"streams": (0, 1)}, "2 streams and 3 waits of 3 operators"),
        ({"waits": ((2,), (), ())}, "operator 0 waits for"),
        ({"storages": PLAN.storages[:3]}, "operator 2 accesses a missing storage"),
        (
            {"storages": (*PLAN.storages[:3], replace(PLAN.storages[3], creator=9))},
            "a storage created by a missing operator",
        ),
    ],
)
def test_an_inconsistent_plan_is_refused(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        read_bundle(bundle(tmp_path, **changes))
