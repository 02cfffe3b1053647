from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from graphviz_dash.analysis.ledger.startup import (
    StartupLedger,
    TimePart,
    build_startup_ledger,
)
from graphviz_dash.model.ledger import LedgerSpan, SpanKind
from tests.ledgers import MS, SPANS, make_ledger, span


def in_ms(built: StartupLedger) -> dict[str, int]:
    return {part.value: time // MS for part, time in built.parts.items()}


def test_the_start_up_of_a_server() -> None:
    built = build_startup_ledger(make_ledger())
    assert built.total_ns == 3_602 * MS
    assert in_ms(built) == {
        "Python interpreter": 100,
        "imports": 1_400,
        "program before CUDA": 200,
        "CUDA context": 300,
        "model": 500,
        "program before the captures": 300,
        "warm-up": 100,
        "captures, Python": 240,
        "captures, driver": 70,
        "program between captures": 100,
        "garbage collection": 90,
        "first launches and uploads": 2,
        "program before the first replay": 90,
        "graphviz-dash": 110,
    }
    assert built.is_complete


def test_the_thread_that_captures_comes_first() -> None:
    spans = (
        span(SpanKind.WARM_UP, 0, 1_000, "main waits"),
        span(SpanKind.CAPTURE, 400, 600, "graph-0", thread=2),
    )
    built = build_startup_ledger(make_ledger(spans=spans, startup_end_ns=1_000 * MS))
    assert in_ms(built) == {"warm-up": 800, "captures, Python": 200}


def test_compilation_includes_its_child_processes() -> None:
    spans = (
        span(SpanKind.TRITON, 0, 400, "compile"),
        span(SpanKind.CHILD, 100, 300, "ptxas"),
        span(SpanKind.CHILD, 500, 900, "python3 -m vllm.registry"),
    )
    built = build_startup_ledger(make_ledger(spans=spans, startup_end_ns=900 * MS))
    assert in_ms(built)["Triton"] == 400
    assert in_ms(built)["child processes"] == 400


def test_activities_after_the_start_up_do_not_count() -> None:
    later = (*SPANS, span(SpanKind.CAPTURE, 3_590, 9_000, "graph-3"))
    built = build_startup_ledger(make_ledger(spans=later))
    assert sum(built.parts.values()) == built.total_ns == 3_602 * MS
    assert max(box.end_ns for box in built.boxes) == 3_602 * MS


def test_without_a_replay_the_ledger_covers_all() -> None:
    built = build_startup_ledger(make_ledger(startup_end_ns=None))
    assert not built.is_complete
    assert built.total_ns == 9_000 * MS


def test_boxes_are_nested_by_thread() -> None:
    built = build_startup_ledger(make_ledger())
    depths = {(box.name, box.part): box.depth for box in built.boxes}
    assert depths["safetensors", TimePart.IMPORT] == 1
    assert depths["graph-0", TimePart.DRIVER] == 1
    assert depths["in a thread", TimePart.WARM_UP] == 0


drawn_spans = st.lists(
    st.builds(
        lambda kind, begin, took, thread: LedgerSpan(kind, "x", thread, begin, begin + took),
        st.sampled_from(list(SpanKind)),
        st.integers(0, 1_000),
        st.integers(0, 400),
        st.integers(0, 2),
    ),
    max_size=14,
)


@given(drawn_spans, st.integers(0, 1_200))
def test_parts_add_up_to_the_wall_clock(spans: list[LedgerSpan], end: int) -> None:
    built = build_startup_ledger(make_ledger(spans=tuple(spans), startup_end_ns=end))
    assert sum(built.parts.values()) == end
    assert all(time > 0 for time in built.parts.values())
    for thread in {box.thread for box in built.boxes}:
        boxes = [box for box in built.boxes if box.thread == thread]
        for depth in {box.depth for box in boxes}:
            level = [box for box in boxes if box.depth == depth]
            assert all(a.end_ns <= b.begin_ns for a, b in pairwise(level))
