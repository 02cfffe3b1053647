from __future__ import annotations

import threading

from collectors.program.steps import PATIENCE, StepClock
from graphviz_dash.model.recording import BoundaryKind

EXPLICIT, OPTIMIZER = BoundaryKind.EXPLICIT, BoundaryKind.OPTIMIZER
REPLAYS, FORWARDS = BoundaryKind.REPLAYS, BoundaryKind.FORWARDS


class Told:
    """A clock and its steps."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.clock = StepClock(
            lambda: self.events.append("ended"), lambda: self.events.append("began")
        )

    def tick(self, kind: BoundaryKind, candidate: object, times: int = 1) -> None:
        for _ in range(times):
            self.clock.handle_tick(kind, candidate, f"{kind.value} {candidate}")


def test_the_first_tick_begins_and_each_further_one_ends_a_step() -> None:
    told = Told()
    told.tick(REPLAYS, "a", 4)
    assert told.events == ["began", "ended", "ended", "ended"]
    assert (told.clock.steps, told.clock.boundary) == (3, "replays a")


def test_a_surer_kind_takes_over_and_a_weaker_one_counts_no_more() -> None:
    told = Told()
    for place, kind in enumerate((FORWARDS, REPLAYS, OPTIMIZER, EXPLICIT)):
        assert told.clock.is_relevant(kind)
        told.tick(kind, "x", 2)
        assert (told.clock.boundary_kind, told.clock.steps) == (kind, place + 1)
    told.tick(OPTIMIZER, "x", 5)
    told.tick(FORWARDS, "x", 5)
    assert told.clock.steps == 4
    assert not told.clock.is_relevant(OPTIMIZER)


def test_one_of_several_is_the_anchor() -> None:
    told = Told()
    for _ in range(5):
        for layer in range(PATIENCE * 3):
            told.tick(REPLAYS, layer)
    # The first layer's graph ends steps, however many layers there are.
    assert told.clock.boundary == "replays 0"
    assert told.clock.steps == 4


def test_a_candidate_that_comes_again_and_again_without_the_anchor_takes_its_place() -> None:
    told = Told()
    told.tick(REPLAYS, "prefill", 2)
    told.tick(REPLAYS, "decode", PATIENCE - 1)
    assert told.clock.boundary == "replays prefill"
    told.tick(REPLAYS, "decode", 3)
    assert told.clock.boundary == "replays decode"
    assert told.clock.steps == 3
    assert told.events.count("began") == 2


def test_only_the_anchors_thread_counts() -> None:
    told = Told()
    told.tick(OPTIMIZER, "o", 2)
    other = threading.Thread(target=lambda: told.tick(OPTIMIZER, "o", 7))
    other.start()
    other.join()
    assert told.clock.steps == 1


def test_the_boundary_can_be_said_in_other_words() -> None:
    told = Told()
    told.tick(OPTIMIZER, "o")
    told.clock.rename("p", "something else")
    assert told.clock.boundary == "optimizer o"
    told.clock.rename("o", "replay of graph-0, which holds it")
    assert told.clock.boundary == "replay of graph-0, which holds it"
