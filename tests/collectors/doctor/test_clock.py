"""Streams that are forked from the captured one and joined to it, or not."""

from __future__ import annotations

from collectors.doctor.clock import StreamClock
from collectors.doctor.places import SourceLocation

MAIN, SIDE, THIRD = 1, 2, 3
LINE = SourceLocation("model.py", 7, "step")


def forked() -> StreamClock:
    clock = StreamClock(MAIN)
    clock.add_work(MAIN, None, "aten::mul")
    clock.record_event(100, MAIN)
    clock.wait_event(100, SIDE)
    clock.add_work(SIDE, LINE, "aten::add")
    return clock


def test_a_fork_that_is_not_joined_is_told_with_its_last_work() -> None:
    clock = forked()
    clock.add_work(SIDE, LINE, "aten::mm")
    (found,) = clock.find_unjoined()
    assert (found.stream, found.spot, found.op, found.unjoined) == (SIDE, LINE, "aten::mm", 2)


def test_a_joined_fork_is_sound() -> None:
    clock = forked()
    clock.record_event(101, SIDE)
    clock.wait_event(101, MAIN)
    assert clock.find_unjoined() == ()


def test_work_after_the_join_is_unjoined_again() -> None:
    clock = forked()
    clock.record_event(101, SIDE)
    clock.wait_event(101, MAIN)
    clock.add_work(SIDE, LINE, "aten::relu")
    (found,) = clock.find_unjoined()
    assert (found.op, found.unjoined) == ("aten::relu", 1)


def test_a_fork_may_be_joined_through_another_stream() -> None:
    clock = forked()
    clock.record_event(101, SIDE)
    clock.wait_event(101, THIRD)
    clock.add_work(THIRD, None, "aten::mul")
    clock.record_event(102, THIRD)
    clock.wait_event(102, MAIN)
    assert clock.find_unjoined() == ()
    assert clock.is_member(THIRD)


def test_a_stream_that_never_waited_is_no_member() -> None:
    clock = forked()
    clock.add_work(THIRD, LINE, "aten::add")
    assert not clock.is_member(THIRD)
    assert [one.stream for one in clock.find_unjoined()] == [SIDE]


def test_an_event_recorded_again_stands_for_the_later_work() -> None:
    clock = forked()
    clock.record_event(101, SIDE)
    clock.add_work(SIDE, LINE, "aten::mm")
    clock.record_event(101, SIDE)
    clock.wait_event(101, MAIN)
    assert clock.find_unjoined() == ()
