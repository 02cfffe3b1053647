"""Streams that are forked from the captured one and joined to it, or not."""

from __future__ import annotations

from collectors.doctor.clock import Clock
from collectors.doctor.places import Spot

MAIN, SIDE, THIRD = 1, 2, 3
LINE = Spot("model.py", 7, "step")


def forked() -> Clock:
    clock = Clock(MAIN)
    clock.works(MAIN, None, "aten::mul")
    clock.records(100, MAIN)
    clock.waits(100, SIDE)
    clock.works(SIDE, LINE, "aten::add")
    return clock


def test_a_fork_that_is_not_joined_is_told_with_its_last_work() -> None:
    clock = forked()
    clock.works(SIDE, LINE, "aten::mm")
    (found,) = clock.unjoined()
    assert (found.stream, found.spot, found.op, found.unjoined) == (SIDE, LINE, "aten::mm", 2)


def test_a_joined_fork_is_sound() -> None:
    clock = forked()
    clock.records(101, SIDE)
    clock.waits(101, MAIN)
    assert clock.unjoined() == ()


def test_work_after_the_join_is_unjoined_again() -> None:
    clock = forked()
    clock.records(101, SIDE)
    clock.waits(101, MAIN)
    clock.works(SIDE, LINE, "aten::relu")
    (found,) = clock.unjoined()
    assert (found.op, found.unjoined) == ("aten::relu", 1)


def test_a_fork_may_be_joined_through_another_stream() -> None:
    clock = forked()
    clock.records(101, SIDE)
    clock.waits(101, THIRD)
    clock.works(THIRD, None, "aten::mul")
    clock.records(102, THIRD)
    clock.waits(102, MAIN)
    assert clock.unjoined() == ()
    assert clock.is_member(THIRD)


def test_a_stream_that_never_waited_is_no_member() -> None:
    clock = forked()
    clock.works(THIRD, LINE, "aten::add")
    assert not clock.is_member(THIRD)
    assert [one.stream for one in clock.unjoined()] == [SIDE]


def test_an_event_recorded_anew_stands_for_the_later_work() -> None:
    clock = forked()
    clock.records(101, SIDE)
    clock.works(SIDE, LINE, "aten::mm")
    clock.records(101, SIDE)
    clock.waits(101, MAIN)
    assert clock.unjoined() == ()
