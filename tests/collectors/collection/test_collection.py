from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from collectors.collection.collection import SUPPORTED, Collection
from graphviz_dash.model.run import ExecutionMode, Pass

ASKED = Collection("mlp-train", (ExecutionMode.EAGER,), Path("x"), 5, 2, 1, 0, ("collect",))
EVERYTHING = replace(ASKED, node_ids=True, observers=True)


@pytest.mark.parametrize("mode", SUPPORTED)
def test_the_clean_pass_follows_a_plan_and_a_capture_it(mode: ExecutionMode) -> None:
    passes = EVERYTHING.get_passes(mode)
    planned = mode.is_planned
    assert passes[planned] is Pass.CLEAN
    assert (Pass.PLAN in passes) == planned
    assert passes[-1] is Pass.OBSERVERS
    captures = mode.captures_graphs
    assert (Pass.CAPTURE in passes, Pass.NODE_IDS in passes) == (captures, captures)
    assert len(ASKED.get_passes(mode)) == 3 + captures + planned


@pytest.mark.parametrize(
    ("name", "rank", "folder"),
    [
        (None, None, "eager"),
        (None, 1, "eager-rank1"),
        ("mine", None, "mine"),
        ("mine", 0, "mine-rank0"),
    ],
)
def test_the_target_folder_has_the_name_and_the_rank(
    name: str | None, rank: int | None, folder: str
) -> None:
    assert replace(ASKED, name=name).get_target(ExecutionMode.EAGER, rank) == Path("x") / folder


def test_a_recorded_program_is_no_mode_of_a_workload() -> None:
    assert ExecutionMode.RECORDED not in SUPPORTED
