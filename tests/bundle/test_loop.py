from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from graphviz_dash.bundle.part_checks import check_loop
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.loop import FamilyMember, KeyMethod, ProgramLoop, StepKind
from tests.loops import SIZES, make_segmented, make_server

FILE = Path("loop.json.gz")


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> ProgramLoop:
    found = read_bundle(make_server(tmp_path_factory.mktemp("server"), requests=(1, 3, 33))).loop
    assert found is not None
    return found


def test_a_server_is_read_as_written(loop: ProgramLoop) -> None:
    assert [member.key for member in loop.families[0].members] == [(n,) for n in SIZES[::-1]]
    assert loop.steps.kind[-3:] == (StepKind.REPLAY, StepKind.REPLAY, StepKind.FALLBACK)
    assert (loop.steps.real_size[-3:], loop.steps.padded_size[-3:]) == ((1, 3, 33), (1, 4, None))
    check_loop(loop, (), FILE)


def test_a_step_of_segments_is_one_member_of_many_graphs(tmp_path: Path) -> None:
    run = load_run(make_segmented(tmp_path, segments=3, repeats=2))
    assert run.loop is not None
    (member,) = run.loop.families[0].members
    assert member.graphs == ("graph-0", "graph-1", "graph-2") * 2
    assert set(run.loop.steps.kind) == {StepKind.SEGMENTS}


def with_member(loop: ProgramLoop, **changes: object) -> ProgramLoop:
    family = loop.families[0]
    member: FamilyMember = msgspec.structs.replace(family.members[0], **changes)
    return replace(loop, families=(replace(family, members=(member, *family.members[1:])),))


def with_steps(loop: ProgramLoop, **columns: object) -> ProgramLoop:
    return replace(loop, steps=replace(loop.steps, **columns))


replace = msgspec.structs.replace

WRONG: dict[str, tuple[Callable[[ProgramLoop], ProgramLoop], str]] = {
    "graph": (lambda loop: with_member(loop, graphs=("graph-99",)), "graph-99"),
    "no graph": (lambda loop: with_member(loop, graphs=()), "graphs with costs"),
    "key": (lambda loop: with_member(loop, key=(1, 2)), "a key of 2 numbers"),
    "method": (lambda loop: with_member(loop, key=None, method=KeyMethod.LABEL), "method"),
    "axis": (
        lambda loop: replace(loop, families=(replace(loop.families[0], size_axis=1),)),
        "size axis 1",
    ),
    "twice": (lambda loop: replace(loop, graphs=(loop.graphs[0], *loop.graphs)), "twice"),
    "columns": (lambda loop: with_steps(loop, real_size=()), "real_size 0"),
    "seen": (lambda loop: replace(loop, step_count=1), "of 1 steps"),
    "clean": (lambda loop: replace(loop, clean_steps=1_000), "1,000 clean"),
    "window": (lambda loop: replace(loop, window_rows=(99,)), "window without a row"),
    "family": (lambda loop: with_steps(loop, family=(4,) * len(loop.steps.kind)), "family 4"),
    "member": (lambda loop: with_steps(loop, member=(64,) * len(loop.steps.kind)), "member 64"),
    "fallback": (lambda loop: with_steps(loop, member=(0,) * len(loop.steps.kind)), "fallback"),
    "time": (lambda loop: with_steps(loop, end_ns=(0,) * len(loop.steps.kind)), "ends before"),
}


@pytest.mark.parametrize(("change", "found"), WRONG.values(), ids=WRONG)
def test_a_loop_that_contradicts_itself_is_refused(
    loop: ProgramLoop, change: Callable[[ProgramLoop], ProgramLoop], found: str
) -> None:
    with pytest.raises(InputError) as caught:
        check_loop(change(loop), (), FILE)
    assert found in str(caught.value)
