from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from collectors.parallel.ranks import Ranks


def test_a_step_without_collectives_is_planned_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # not even imported
    ranks = Ranks(has_collectives=False)
    assert (ranks.broadcast_first(7), ranks.gather(None)) == (7, [None])


def test_the_second_of_two_ranks_takes_what_the_first_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def broadcast(values: list[str], src: int) -> None:
        values[src] = "of the first"

    def gather(values: list[object], own: object) -> None:
        values[:] = [False, own]

    distributed = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        get_world_size=lambda: 2,
        broadcast_object_list=broadcast,
        all_gather_object=gather,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(distributed=distributed))
    ranks = Ranks(has_collectives=True)
    assert ranks.broadcast_first("own") == "of the first"
    assert ranks.gather(True) == [False, True]
    assert ranks.gather(None) == [False, None]
